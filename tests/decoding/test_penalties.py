"""Scores with length and coverage penalties, compared with the enumeration of all outputs."""

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
    VOCAB,
    assert_finds_the_best,
    log_prob,
    logits_table,
    make_cache,
    output_of,
    outputs_up_to,
    step_with,
)

from transformer_jax.decoding import beam_search, coverage_penalty, length_penalty

SOURCES = 3  # positions
SENTENCES = np.arange(len(LIMITS))
DIVISORS = {
    'gnmt': lambda n, alpha: ((5 + n) / 6) ** alpha,
    'power': lambda n, alpha: n**alpha,
    'none': lambda n, alpha: 1.0,
}


def test_length_penalty_by_hand():
    lengths = jnp.array([1, 7, 13])
    # (5 + n) / 6 is 1, 2 and 3.
    np.testing.assert_allclose(length_penalty(lengths, 0.0), [1.0, 1.0, 1.0])
    assert_close(length_penalty(lengths, 1.0), [1.0, 2.0, 3.0])
    assert_close(length_penalty(lengths, 0.6), [1.0, 1.5157166, 1.9331820])
    assert_close(length_penalty(lengths, 1.0, 'power'), [1.0, 7.0, 13.0])
    np.testing.assert_allclose(length_penalty(lengths, 1.0, 'none'), [1.0, 1.0, 1.0])


def test_an_unknown_length_norm_is_an_error():
    with pytest.raises(ValueError, match="length_norm='gnm' must be one of gnmt, power, none"):
        length_penalty(jnp.array([1]), 0.6, 'gnm')


def test_coverage_penalty_by_hand():
    # Attention above 1 costs nothing: only log 0.5 + log 0.25 remains.
    coverage = jnp.array([[1.5, 0.5, 0.25], [1.0, 1.0, 1.0]])
    assert_close(coverage_penalty(coverage, 0.2), [0.2 * np.log(0.125), 0])


@functools.partial(jax.jit, static_argnames=('norm', 'n_best'))
def search(table, alpha, *, norm, n_best):
    return beam_search(
        step_with(table),
        make_cache(SENTENCES),
        LIMITS,
        length=LENGTH,
        beam_size=EVERYTHING,
        eos_id=EOS,
        length_penalty=alpha,
        length_norm=norm,
        n_best=n_best,
    )


@pytest.mark.parametrize('norm, alpha', [('power', 1.0), ('power', -0.5), ('none', 0.6)])
def test_a_wide_beam_ranks_all_outputs_by_the_length_norm(norm, alpha):
    for seed in range(34):  # times six sentences
        table = logits_table(seed)
        every = jax.tree.map(np.asarray, search(table, alpha, norm=norm, n_best=EVERYTHING))
        best = jax.tree.map(np.asarray, search(table, alpha, norm=norm, n_best=1))
        for sentence, limit in enumerate(LIMITS):
            scored = [
                (log_prob(table, sentence, o) / DIVISORS[norm](len(o), alpha), o)
                for o in outputs_up_to(limit)
            ]
            assert_finds_the_best(every, sentence, scored)
            # Stopping early does not lose the best one.
            assert output_of(best, sentence) == max(scored)[1]


@functools.cache
def attention_table(seed):
    """Return attention [B, T, histories, S]; the last position of odd sentences is padding."""
    rng = np.random.default_rng(1000 + seed)
    weights = rng.exponential(size=(len(LIMITS), LENGTH, VOCAB ** (LENGTH - 1), SOURCES)) ** 2
    weights[1::2, ..., -1] = 0.0
    return (weights / weights.sum(axis=-1, keepdims=True)).astype('float32')


def attending_step(table, attention):
    step = step_with(table)

    def run(tokens, position, cache):
        logits, after = step(tokens, position, cache)
        return logits, after, attention[cache['sentence'], position, after['history']]

    return run


@functools.partial(jax.jit, static_argnames=('beam_size', 'n_best', 'select'))
def search_covered(table, attention, beta, *, beam_size=EVERYTHING, n_best=1, select=None):
    padding = np.zeros((len(LIMITS), SOURCES), np.float32)
    padding[1::2, -1] = 1.0
    return beam_search(
        attending_step(table, attention),
        make_cache(SENTENCES),
        LIMITS,
        length=LENGTH,
        beam_size=beam_size,
        eos_id=EOS,
        length_penalty=0.6,
        coverage_penalty=beta,
        coverage=jnp.asarray(padding),
        n_best=n_best,
        select=select,
    )


def covered_score(table, attention, sentence, output, beta):
    coverage, history = np.zeros(SOURCES), 0
    for position, token in enumerate(output):
        coverage += attention[sentence, position, history]
        history = history * VOCAB + token
    coverage = coverage[:-1] if sentence % 2 else coverage
    penalty = beta * np.log(np.minimum(coverage, 1.0)).sum()
    return log_prob(table, sentence, output) / ((5 + len(output)) / 6) ** 0.6 + penalty


@pytest.mark.parametrize('n_best', [1, EVERYTHING])
def test_a_wide_beam_finds_the_outputs_that_cover_their_source(n_best):
    changed = 0
    for seed in range(34):  # times six sentences
        table, attention = logits_table(seed), attention_table(seed)
        found = search_covered(table, attention, 0.7, n_best=n_best)
        found = jax.tree.map(np.asarray, found)
        for sentence, limit in enumerate(LIMITS):
            scored = [
                (covered_score(table, attention, sentence, o, 0.7), o) for o in outputs_up_to(limit)
            ]
            without = [
                (covered_score(table, attention, sentence, o, 0.0), o) for o in outputs_up_to(limit)
            ]
            changed += max(scored)[1] != max(without)[1]
            if n_best == 1:
                assert output_of(found, sentence) == max(scored)[1]
                assert_close(found.scores[sentence, 0], max(scored)[0])
            else:
                assert_finds_the_best(found, sentence, scored)
    assert changed > 20  # the penalty has decided some of the 204 models


def test_a_narrow_beam_has_the_right_coverage_in_its_scores():
    table, attention = logits_table(1), attention_table(1)
    found = search_covered(table, attention, 0.7, beam_size=3, n_best=3)
    for sentence, limit in enumerate(LIMITS):
        for rank in range(min(3, len(outputs_up_to(limit)))):
            output = output_of(found, sentence, rank)
            expected = covered_score(table, attention, sentence, output, 0.7)
            assert_close(found.scores[sentence, rank], expected)
