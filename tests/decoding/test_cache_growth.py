"""Beam search with a cache that grows, and with unfinished sentences decoded in quarters."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from search_oracle import EOS, LENGTH, LIMITS, logits_table, make_cache, stationary, step_with

from transformer_jax.decoding import beam_search


@pytest.mark.parametrize('cache_lengths', [(), (1,), (2,), (1, 2, 3), (1, 4)])
@pytest.mark.parametrize('sentences', [1, 4, 6])
def test_unfinished_sentences_in_quarters_find_the_same(sentences, cache_lengths):
    limits, table = LIMITS[:sentences], jnp.asarray(logits_table(4)[:sentences])

    def select(cache, ids):
        return jax.tree.map(lambda x: x.reshape(-1, 3)[ids].reshape(-1), cache)

    def run(**options):
        return beam_search(
            step_with(table),
            make_cache(np.arange(sentences)),
            limits,
            length=LENGTH,
            beam_size=3,
            eos_id=EOS,
            n_best=3,
            **options,
        )

    in_quarters = jax.jit(functools.partial(run, select=select, cache_lengths=cache_lengths))()
    jax.tree.map(np.testing.assert_array_equal, in_quarters, jax.jit(run)())


@pytest.mark.parametrize('cache_lengths', [(), (1, 3), (2, 4)])
def test_the_cache_grows_before_it_is_full(cache_lengths):
    table, grown = jnp.asarray(logits_table(4)), []

    def grow(cache, length):
        grown.append(length)
        return cache[0], jnp.zeros((len(cache[1]), length))

    def step(tokens, position, cache):
        inner, slots = cache
        logits, inner = step_with(table)(tokens, position, inner)
        return jnp.where(position < slots.shape[1], logits, jnp.nan), (inner, slots)

    def run(step, cache, **options):
        return beam_search(
            step, cache, jnp.asarray(LIMITS), length=LENGTH, beam_size=3, eos_id=EOS, **options
        )

    cache = make_cache(np.arange(len(LIMITS)))
    found = run(step, (cache, jnp.zeros((len(LIMITS), 0))), grow=grow, cache_lengths=cache_lengths)
    assert grown == [1, *cache_lengths, LENGTH]
    jax.tree.map(np.testing.assert_array_equal, found, run(step_with(table), cache))


@pytest.mark.parametrize('cache_lengths', [(2, 1), (1, 1), (5,), (0,)])
def test_cache_lengths_that_do_not_ascend_to_the_length_are_an_error(cache_lengths):
    with pytest.raises(
        ValueError, match=r'cache_lengths=.* must ascend, from 1 to length=4 at most'
    ):
        beam_search(
            stationary([[0.0, 1.0]]),
            None,
            jnp.array([1]),
            length=4,
            beam_size=2,
            eos_id=1,
            cache_lengths=cache_lengths,
        )
