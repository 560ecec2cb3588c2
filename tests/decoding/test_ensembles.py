"""The prediction of several models, compared with probabilities averaged by hand."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
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
    step_with,
)

from transformer_jax.decoding import average_predictions, beam_search

SENTENCES = np.arange(len(LIMITS))


def softmax(logits):
    exponentials = np.exp(logits.astype(float))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def averaged(tables, ensemble):
    """Return the table of log-probabilities that the models have together."""
    probs = [softmax(table) for table in tables]
    if ensemble == 'probabilities':
        return np.log(sum(probs) / len(probs))
    mean = sum(np.log(p) for p in probs) / len(probs)
    return np.log(softmax(mean))


@functools.partial(jax.jit, static_argnames=('ensemble',))
def search(tables, *, ensemble):
    steps = [step_with(table) for table in tables]

    def step(tokens, position, caches):
        found = [run(tokens, position, c) for run, c in zip(steps, caches, strict=True)]
        logits, caches = zip(*found, strict=True)
        return average_predictions(logits, ensemble), caches

    return beam_search(
        step,
        tuple(make_cache(SENTENCES) for _ in tables),
        LIMITS,
        length=LENGTH,
        beam_size=EVERYTHING,
        n_best=EVERYTHING,
        eos_id=EOS,
        length_penalty=0.0,
    )


@pytest.mark.parametrize('ensemble', ['probabilities', 'log_probabilities'])
@pytest.mark.parametrize('count', [2, 3])
def test_a_wide_beam_finds_the_best_outputs_of_the_models_together(ensemble, count):
    for seed in range(34):  # times six sentences
        tables = [logits_table(seed + 100 * k) for k in range(count)]
        found = jax.tree.map(np.asarray, search(tables, ensemble=ensemble))
        table = averaged(tables, ensemble)
        for sentence, limit in enumerate(LIMITS):
            scored = [(log_prob(table, sentence, o), o) for o in outputs_up_to(limit)]
            assert_finds_the_best(found, sentence, scored)


def test_one_model_predicts_what_it_predicts_alone():
    logits = jnp.asarray(logits_table(0)[0])
    assert average_predictions([logits]) is logits


def test_an_unknown_ensemble_is_an_error():
    with pytest.raises(ValueError, match="ensemble='mean' must be one of probabilities, log_"):
        average_predictions([jnp.zeros(3)], 'mean')
