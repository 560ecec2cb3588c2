"""The gate of imports."""

import numpy as np

from transformer_jax.conversion.gate import _padded


def test_a_sentence_of_more_tokens_than_usual_widens_its_batch():
    usual, long = np.arange(1, 4), np.arange(1, 61)
    batch = _padded([usual, long])
    np.testing.assert_array_equal(batch[1], long)
    np.testing.assert_array_equal(batch[0, :4], [1, 2, 3, 0])
    assert _padded([usual]).shape == _padded([usual, usual]).shape
