"""Merging the outputs of several rows of one sentence."""

import numpy as np

from transformer_jax.translating.batch_decoder import DecodeResult, merge_outputs


def result(index, tokens, score):
    return DecodeResult(index, np.array([tokens]), np.array([score]), np.array([score / 2]))


def test_the_draws_of_a_sentence_become_one_result_with_the_best_first():
    rows = [
        result(7, [3, 1], -2.0),
        result(7, [4, 5, 1], -1.0),
        result(2, [6, 1], -0.5),
        result(2, [1], -3.0),
    ]
    first, second = merge_outputs(rows, 2)
    assert (first.index, first.scores.tolist()) == (7, [-1.0, -2.0])
    assert first.tokens.tolist() == [[4, 5, 1], [3, 1, 0]]
    assert first.log_probs.tolist() == [-0.5, -1.0]
    assert (second.index, second.scores.tolist()) == (2, [-0.5, -3.0])
    assert second.tokens.tolist() == [[6, 1], [1, 0]]


def test_results_of_one_row_stay_as_they_are():
    rows = [result(0, [3, 1], -2.0), result(1, [1], -1.0)]
    assert list(merge_outputs(rows, 1)) == rows
