"""Constraints of outputs, compared with the enumeration of all outputs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closeness import assert_close
from search_oracle import (
    EOS,
    EVERYTHING,
    LENGTH,
    LIMITS,
    assert_finds_the_best,
    log_prob,
    logits_table,
    make_cache,
    outputs_up_to,
    stationary,
    step_with,
)

from transformer_jax.decoding import Constraints, beam_search, greedy_search, sample
from transformer_jax.decoding.constraints import UNCONSTRAINED, forbid_repeats

SENTENCES = np.arange(len(LIMITS))
MODELS = range(34)  # times six sentences


@functools.partial(jax.jit, static_argnames=('constraints',))
def search(table, limits, *, constraints=UNCONSTRAINED, prefixes=None):
    return beam_search(
        step_with(table),
        make_cache(SENTENCES),
        limits,
        length=LENGTH,
        beam_size=EVERYTHING,
        n_best=EVERYTHING,
        eos_id=EOS,
        length_penalty=0.0,
        constraints=constraints,
        prefixes=prefixes,
    )


def assert_all_found(is_allowed, **options):
    """Compare with all outputs for which is_allowed(sentence, tokens without EOS)."""
    for seed in MODELS:
        table = logits_table(seed)
        found = jax.tree.map(np.asarray, search(table, LIMITS, **options))
        for sentence, limit in enumerate(LIMITS):
            expected = [
                (log_prob(table, sentence, output), output)
                for output in outputs_up_to(limit)
                # At the limit comes EOS, whatever the constraints.
                if is_allowed(sentence, output[:-1])
            ]
            assert_finds_the_best(found, sentence, expected)


def test_outputs_have_at_least_the_minimum_length_unless_the_limit_is_lower():
    def is_allowed(sentence, words):
        return len(words) >= min(2, LIMITS[sentence] - 1)

    assert_all_found(is_allowed, constraints=Constraints(min_length=2))


@pytest.mark.parametrize('n', [1, 2])
def test_no_ngram_occurs_twice(n):
    def is_allowed(_, words):
        ngrams = [words[k : k + n] for k in range(len(words) - n + 1)]
        return len(ngrams) == len(set(ngrams))

    assert_all_found(is_allowed, constraints=Constraints(no_repeat_ngram=n))


def test_suppressed_tokens_do_not_occur():
    assert_all_found(lambda _, words: 3 not in words, constraints=Constraints(suppress=(3,)))


PREFIXES = np.array([[2, 0], [3, 2], [4, 0], [0, 0], [2, 0], [0, 0]])


def starts(sentence, words):
    prefix = tuple(int(token) for token in PREFIXES[sentence] if token)
    return words[: len(prefix)] == prefix


def test_outputs_begin_with_their_prefixes():
    assert_all_found(starts, prefixes=PREFIXES)


def test_a_prefix_may_contain_what_is_suppressed_elsewhere():
    def is_allowed(sentence, words):
        count = np.count_nonzero(PREFIXES[sentence])
        return starts(sentence, words) and 2 not in words[count:]

    assert_all_found(is_allowed, prefixes=PREFIXES, constraints=Constraints(suppress=(2,)))


CONSTRAINTS = Constraints(min_length=1, no_repeat_ngram=1, suppress=(4,))


def options():
    return {
        'length': LENGTH,
        'eos_id': EOS,
        'constraints': CONSTRAINTS,
        'prefixes': jnp.asarray(PREFIXES),
    }


def test_greedy_search_and_a_beam_of_one_obey_the_same_constraints():
    @jax.jit
    def both(table):
        step, cache = step_with(table), make_cache(SENTENCES)
        return (
            greedy_search(step, cache, LIMITS, **options()),
            beam_search(step, cache, LIMITS, beam_size=1, **options()),
        )

    for seed in range(6):
        single, beam = both(logits_table(seed))
        np.testing.assert_array_equal(single.tokens, beam.tokens)
        assert_close(single.log_probs, beam.log_probs)


def test_samples_obey_the_constraints_with_their_own_log_probability():
    table = logits_table(0)

    @jax.jit
    def draw(key):
        keys = jax.random.split(key, len(SENTENCES))
        return sample(step_with(table), make_cache(SENTENCES), LIMITS, keys, **options())

    for seed in range(20):
        found = jax.tree.map(np.asarray, draw(jax.random.key(seed)))
        for sentence, length in enumerate(found.lengths[:, 0].tolist()):
            output = tuple(found.tokens[sentence, 0, :length].tolist())
            count = np.count_nonzero(PREFIXES[sentence])
            assert starts(sentence, output[:-1]) or length == LIMITS[sentence]
            assert len(set(output)) == len(output) and 4 not in output[count:]
            expected = log_prob(table, sentence, output)
            assert_close(found.log_probs[sentence, 0], expected)


def test_a_constraint_does_not_make_other_tokens_more_likely():
    found = beam_search(
        stationary([[0.0, 0.2, 0.7, 0.1]]),
        None,
        jnp.array([2]),
        length=2,
        beam_size=2,
        n_best=2,
        eos_id=EOS,
        length_penalty=0.0,
        constraints=Constraints(suppress=(2,)),
    )
    assert found.tokens.tolist() == [[[1, 0], [3, 1]]]
    assert_close(np.exp(found.scores), [[0.2, 0.1 * 0.2]])


def test_if_everything_is_forbidden_there_is_no_output():
    found = beam_search(
        stationary([[0.0, 0.2, 0.8]]),
        None,
        jnp.array([4]),
        length=4,
        beam_size=2,
        eos_id=EOS,
        constraints=Constraints(min_length=3, no_repeat_ngram=1),
    )
    assert found.scores.tolist() == [[-np.inf, -np.inf]]
    assert not found.tokens.any()


@pytest.mark.parametrize('n', [1, 2, 3, 4])
def test_repeats_are_found_as_by_comparing_all_ngrams(n):
    rng = np.random.default_rng(n)
    tokens = rng.integers(2, 5, (40, 12))
    for position in range(12):
        scores = forbid_repeats(jnp.zeros((40, 5)), jnp.asarray(tokens), jnp.int32(position), n)
        for row in range(40):
            seen = tokens[row, :position].tolist()
            ngrams = {tuple(seen[k : k + n]) for k in range(position - n + 1)}
            last = seen[position - n + 1 :] if position >= n - 1 else None
            expected = [
                last is not None and len(last) == n - 1 and (*last, token) in ngrams
                for token in range(5)
            ]
            np.testing.assert_array_equal(np.isneginf(scores[row]), expected)
