"""Sampling: which tokens, how often, and independently of other sentences."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closeness import assert_close

from transformer_jax.decoding import greedy_search, sample
from transformer_jax.decoding.sampling import truncate

# Dimension key: R rows (a sentence each), T length, V vocabulary.

EOS = 1
PROBS = np.array([0.1, 0.05, 0.45, 0.1, 0.3])  # of padding, EOS, and three words


def keys(seed, rows):
    return jax.random.split(jax.random.key(seed), rows)


def always(probs):
    """Return a step with the same probabilities always."""
    logits_V = jnp.log(jnp.asarray(probs, jnp.float32))

    def step(tokens, position, cache):
        return jnp.broadcast_to(logits_V, (tokens.shape[0], logits_V.shape[0])), cache

    return step


RANDOM_LOGITS = np.random.default_rng(5).normal(size=(6, 8, 5, 5)).astype('float32') * 2


def random_step(tokens, position, sentences):
    """Return logits that depend on the position, the sentence and the previous token."""
    return jnp.asarray(RANDOM_LOGITS)[position, sentences, tokens], sentences


@functools.partial(jax.jit, static_argnames=('temperature', 'top_k', 'top_p'))
def sample_randomly(sentences, keys, **options):
    limits = jnp.full(sentences.shape, 6)
    return sample(random_step, sentences, limits, keys, length=6, eos_id=EOS, **options)


@jax.jit
def greedy_randomly(sentences):
    limits = jnp.full(sentences.shape, 6)
    return greedy_search(random_step, sentences, limits, length=6, eos_id=EOS)


def frequencies(**options):
    """Return the frequencies of the first token in 20,000 draws."""
    rows = 20_000
    drawn = jax.jit(
        lambda keys: sample(
            always(PROBS), None, jnp.full(rows, 2), keys, length=2, eos_id=EOS, **options
        )
    )(keys(0, rows))
    return np.bincount(np.asarray(drawn.tokens[:, 0, 0]), minlength=5) / rows


@pytest.mark.parametrize('forbidden', [0.0, np.nan])
def test_without_an_allowed_token_there_is_no_output(forbidden):
    # At the limit only EOS is allowed, and this model never gives it.
    model, limits = always([0.2, forbidden, 0.4, 0.4]), jnp.array([2, 3])
    for found in (
        greedy_search(model, None, limits, length=6, eos_id=EOS),
        sample(model, None, limits, keys(0, 2), length=6, eos_id=EOS),
    ):
        np.testing.assert_array_equal(found.tokens, np.zeros((2, 1, 6)))
        np.testing.assert_array_equal(found.lengths, [[0], [0]])
        np.testing.assert_array_equal(found.scores, [[-np.inf], [-np.inf]])


def test_tokens_are_drawn_with_their_probabilities():
    # Without padding, the probabilities add up to 0.9.
    np.testing.assert_allclose(
        frequencies(), [0, 0.05 / 0.9, 0.5, 0.1 / 0.9, 0.3 / 0.9], atol=0.015
    )


def test_temperature_one_half_squares_the_probabilities():
    squares = np.array([0, 0.05, 0.45, 0.1, 0.3]) ** 2
    np.testing.assert_allclose(frequencies(temperature=0.5), squares / squares.sum(), atol=0.015)


def test_top_k_and_top_p_keep_the_proportions_of_the_rest():
    np.testing.assert_allclose(frequencies(top_k=2), [0, 0, 0.6, 0, 0.4], atol=0.015)
    # 0.45 of 0.9 is a half, and with 0.3 it is 0.83: the first sum to reach 0.7.
    np.testing.assert_allclose(frequencies(top_p=0.7), [0, 0, 0.6, 0, 0.4], atol=0.015)


def test_top_p_applies_after_the_temperature():
    # Squared, 0.45 has 64 percent by itself: 0.6 is reached without a second token.
    np.testing.assert_array_equal(frequencies(top_p=0.6, temperature=0.5), [0, 0, 1, 0, 0])


@pytest.mark.parametrize(
    'options', [{'top_k': 1}, {'temperature': 1e-4}, {'temperature': 1e-12}, {'top_p': 1e-6}]
)
def test_sampling_from_one_token_is_greedy(options):
    sentences = jnp.arange(8)
    drawn = sample_randomly(sentences, keys(0, 8), **options)
    expected = greedy_randomly(sentences)
    np.testing.assert_array_equal(drawn.tokens, expected.tokens)
    assert_close(drawn.log_probs, expected.log_probs)
    assert len(np.unique(np.asarray(expected.tokens), axis=0)) > 4


def test_a_draw_does_not_depend_on_other_sentences():
    sentences, row_keys = jnp.arange(8), keys(1, 8)
    together = sample_randomly(sentences, row_keys)
    chosen = jnp.array([6, 0, 3])
    apart = sample_randomly(sentences[chosen], row_keys[chosen])
    np.testing.assert_array_equal(apart.tokens, together.tokens[chosen])
    assert_close(apart.log_probs, together.log_probs[chosen])


def test_keys_rows_and_positions_draw_independently():
    # One sentence in all rows.
    sentences = jnp.zeros(8, int)
    first, again, other = (sample_randomly(sentences, keys(seed, 8)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.tokens, again.tokens)
    assert np.any(np.asarray(first.tokens) != np.asarray(other.tokens))
    assert len(np.unique(np.asarray(first.tokens), axis=0)) > 1
    # Even odds for two words: one draw for all positions would repeat the word.
    coin = always([0.0, 1e-9, 0.5, 0.5])
    tokens = sample(coin, None, jnp.array([12]), keys(0, 1), length=12, eos_id=EOS).tokens
    assert set(tokens[0, 0, :11].tolist()) == {2, 3}


def test_the_score_is_the_models_own_log_probability():
    # Whatever the temperature, word 2 has 0.45, and EOS, forced at the limit, has 0.05.
    drawn = sample(
        always(PROBS),
        None,
        jnp.array([3]),
        keys(0, 1),
        length=4,
        eos_id=EOS,
        top_k=1,
        temperature=0.1,
    )
    assert drawn.tokens.tolist() == [[[2, 2, 1, 0]]]
    assert drawn.lengths.tolist() == [[3]]
    assert_close(np.exp(drawn.log_probs), [[0.45 * 0.45 * 0.05]])
    np.testing.assert_array_equal(drawn.scores, drawn.log_probs)


def test_outputs_end_with_eos_or_at_the_limit_and_have_no_padding():
    rows, limits = 300, np.resize([1, 2, 4], 300)
    drawn = sample(
        always([0.5, 0.2, 0.2, 0.1]),
        None,
        jnp.asarray(limits),
        keys(0, rows),
        length=6,
        eos_id=EOS,
    )
    tokens, lengths = np.asarray(drawn.tokens[:, 0]), np.asarray(drawn.lengths[:, 0])
    assert np.all(lengths <= limits)
    assert set(lengths[limits == 4]) == {1, 2, 3, 4}
    inside = np.arange(6) < lengths[:, None]
    assert np.all((tokens != 0) == inside)
    assert np.all((tokens == EOS) == (np.arange(6) == lengths[:, None] - 1))


def kept(**options):
    log_probs = jnp.log(jnp.array([[0.15, 0.5, 0.05, 0.3]]))
    return np.isfinite(truncate(log_probs, **options))[0].tolist()


@pytest.mark.parametrize(
    'options, expected',
    [
        ({}, [True, True, True, True]),
        ({'top_k': 1}, [False, True, False, False]),
        ({'top_k': 3}, [True, True, False, True]),
        ({'top_k': 9}, [True, True, True, True]),
        ({'top_p': 0.01}, [False, True, False, False]),  # one token always stays
        ({'top_p': 0.49}, [False, True, False, False]),
        ({'top_p': 0.51}, [False, True, False, True]),
        ({'top_p': 0.79}, [False, True, False, True]),
        ({'top_p': 0.81}, [True, True, False, True]),
        ({'top_p': 0.96}, [True, True, True, True]),
        ({'top_k': 1, 'top_p': 0.9}, [False, True, False, False]),
        ({'top_k': 3, 'top_p': 0.7}, [False, True, False, True]),
    ],
)
def test_truncate_by_hand(options, expected):
    assert kept(**options) == expected


def test_truncate_keeps_the_log_probabilities_of_the_rest():
    log_probs = jnp.log(jnp.array([[0.6, 0.3, 0.1], [0.2, 0.1, 0.7]]))
    np.testing.assert_array_equal(
        truncate(log_probs, top_k=2),
        jnp.where(jnp.array([[True, True, False], [True, False, True]]), log_probs, -jnp.inf),
    )


@pytest.mark.parametrize(
    'options, message',
    [
        ({'temperature': 0.0}, 'temperature=0.0 must be greater than 0'),
        ({'temperature': -1.0}, 'temperature=-1.0 must be greater than 0'),
        ({'temperature': float('inf')}, 'temperature=inf must be greater than 0 and finite'),
        ({'top_k': -1}, 'top_k=-1 must be 0'),
        ({'top_p': 0.0}, 'top_p=0.0 must be greater than 0 and at most 1'),
        ({'top_p': 1.5}, 'top_p=1.5 must be greater than 0 and at most 1'),
    ],
)
def test_options_out_of_range_are_errors(options, message):
    with pytest.raises(ValueError, match=message):
        sample(always(PROBS), None, jnp.array([2]), keys(0, 1), length=2, eos_id=EOS, **options)
