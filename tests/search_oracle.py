"""A model that is a table, and the enumeration of all its outputs, for tests of the searches.

Dimension key: B sentences, K hypotheses, R = B·K rows, T length, V vocabulary.
"""

import functools
import itertools

import jax.numpy as jnp
import numpy as np
from closeness import assert_close

EOS = 1
VOCAB = 5  # padding, EOS, and three words
LENGTH = 4
LIMITS = np.array([4, 4, 3, 4, 2, 1])
EVERYTHING = 40  # outputs of at most 4 tokens: 1 + 3 + 9 + 27


@functools.cache
def logits_table(seed):
    """Return logits [B, T, histories, V]: each history of each sentence has its own."""
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=(len(LIMITS), LENGTH, VOCAB ** (LENGTH - 1), VOCAB)).astype('float32') * 2
    )


def make_cache(sentences):
    sentences = jnp.asarray(sentences)
    return {'sentence': sentences, 'history': jnp.zeros_like(sentences)}


def step_with(table):
    """Return a step whose cache is the history as a number in base V, to detect mixed-up rows."""
    table = jnp.asarray(table)

    def step(tokens, position, cache):
        history = jnp.where(position == 0, 0, cache['history'] * VOCAB + tokens)
        return table[cache['sentence'], position, history], {**cache, 'history': history}

    return step


def stationary(rows):
    """Return a step with probabilities [T, V] that depend on the position only."""
    logits_TV = jnp.log(jnp.array(rows))

    def step(tokens, position, cache):
        logits_V = logits_TV[jnp.minimum(position, len(rows) - 1)]
        return jnp.broadcast_to(logits_V, (tokens.shape[0], logits_V.shape[0])), cache

    return step


def log_prob(table, sentence, output):
    """Return the log-probability of an output with its EOS, by the chain rule."""
    total, history = 0.0, 0
    for position, token in enumerate(output):
        logits = table[sentence, position, history].astype(float)
        total += logits[token] - np.log(np.exp(logits).sum())
        history = history * VOCAB + token
    return total


def outputs_up_to(limit):
    """Return all outputs of at most `limit` tokens."""
    return [
        (*words, EOS)
        for length in range(limit)
        for words in itertools.product([2, 3, 4], repeat=length)
    ]


def enumerate_outputs(table, sentence, limit, alpha):
    """Return all outputs as (score, tokens), the best first."""
    scored = [
        (log_prob(table, sentence, output) / ((5 + len(output)) / 6) ** alpha, output)
        for output in outputs_up_to(limit)
    ]
    return sorted(scored, reverse=True)


def assert_finds_the_best(found, sentence, scored):
    """Compare a search that is wide enough with all outputs that are allowed, (score, tokens)."""
    scored = sorted(scored, reverse=True)
    ranks = range(len(scored))
    assert [output_of(found, sentence, rank) for rank in ranks] == [o for _, o in scored]
    assert_close(found.scores[sentence, : len(scored)], [score for score, _ in scored])
    assert np.all(found.scores[sentence, len(scored) :] == -np.inf)


def output_of(found, sentence, rank=0):
    length = found.lengths[sentence, rank]
    return tuple(found.tokens[sentence, rank, :length].tolist())
