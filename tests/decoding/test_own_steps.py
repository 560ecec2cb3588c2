"""Searches over a person's own step function: ids, limits and keys as they come."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closeness import assert_close

from transformer_jax.decoding import beam_search, greedy_search, sample

# Dimension key: B sentences, V vocabulary. Token 4 is EOS, token 0 is a word.
LOG_PROBS_VV = jnp.log(jnp.asarray(np.random.default_rng(0).dirichlet(np.ones(5), 5)))
OPTIONS = {'length': 6, 'eos_id': 4}
LIMITS = jnp.full(3, 6)


def bigram(tokens, position, cache):
    return LOG_PROBS_VV[tokens], cache


def renumbered(tokens, position, cache):
    """The bigram with all ids one higher, and padding as 0."""
    logits = bigram(tokens - 1, position, cache)[0]
    return jnp.pad(logits, ((0, 0), (1, 0)), constant_values=-jnp.inf), cache


@pytest.mark.parametrize('start', [0, 2])
@pytest.mark.parametrize('pad', [-100, -1])
def test_a_vocabulary_whose_0_is_a_word_is_searched_like_a_renumbered_one(start, pad):
    found = beam_search(
        bigram, None, LIMITS, beam_size=3, n_best=3, start_id=start, pad_id=pad, **OPTIONS
    )
    usual = beam_search(
        renumbered, None, LIMITS, length=6, beam_size=3, n_best=3, eos_id=5, start_id=start + 1
    )
    expected = jnp.where(usual.tokens == 0, pad, usual.tokens - 1)
    np.testing.assert_array_equal(found.tokens, expected)
    assert_close(found.scores, usual.scores)
    assert (found.tokens == 0).any()


@pytest.mark.parametrize('pad', [1, 3])
def test_padding_inside_the_vocabulary_is_never_an_output(pad):
    found = beam_search(
        bigram, None, LIMITS, beam_size=3, n_best=3, start_id=2, pad_id=pad, **OPTIONS
    )
    for tokens, length in zip(found.tokens[0], found.lengths[0], strict=True):
        assert (tokens[:length] != pad).all() and (tokens[length:] == pad).all()


def test_one_limit_holds_for_all_sentences_of_the_cache():
    cache = jnp.zeros(3, jnp.int32)
    for search in (greedy_search, lambda *a, **k: beam_search(*a, beam_size=2, **k)):
        one, each = (search(bigram, cache, x, start_id=2, **OPTIONS) for x in (5, jnp.full(3, 5)))
        np.testing.assert_array_equal(one.tokens, each.tokens)


def test_one_key_is_split_among_the_sentences():
    key = jax.random.key(3)
    each = sample(bigram, None, LIMITS, jax.random.split(key, 3), start_id=2, **OPTIONS)
    for one in (key, jax.random.PRNGKey(3)):
        found = sample(bigram, None, LIMITS, one, start_id=2, **OPTIONS)
        np.testing.assert_array_equal(found.tokens, each.tokens)


@pytest.mark.parametrize(
    'changes, message',
    [
        ({'max_lengths': 5}, 'max_lengths is one number, and the arrays of the cache do not'),
        ({'max_lengths': jnp.ones((3, 1))}, r'max_lengths has shape \(3, 1\)'),
        ({'keys': 3}, r'keys=3 is no random key, such as jax.random.key\(0\)'),
        ({'keys': jax.random.split(jax.random.key(0), 2)}, 'there are 2 keys for 3 sentences'),
        ({'step_fn': lambda t, p, c: LOG_PROBS_VV[t]}, r'it must return \(logits, cache\)'),
        (
            {'step_fn': lambda t, p, c: (LOG_PROBS_VV[t][:, None], c)},
            r'logits of shape \(3, 1, 5\)',
        ),
        ({'eos_id': 7}, 'eos_id=7 must be a token, from 0 to 4'),
    ],
)
def test_what_is_meant_otherwise_is_named(changes, message):
    usual = {'step_fn': bigram, 'cache': None, 'max_lengths': LIMITS, 'keys': jax.random.key(0)}
    with pytest.raises(ValueError, match=message):
        sample(**usual | OPTIONS | changes)
