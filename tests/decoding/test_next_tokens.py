"""The most likely next tokens."""

import jax.numpy as jnp
import numpy as np
import pytest

from transformer_jax.decoding.next_tokens import top_k_tokens


@pytest.mark.parametrize('vocab_size', [5, 300, 1000, 1024])
@pytest.mark.parametrize('count', [1, 4])
def test_top_k_tokens_are_those_of_a_sorted_row_without_padding(vocab_size, count):
    # Rounded, so that some are equal; the first of equal ones comes first.
    logits = np.random.default_rng(0).normal(size=(50, vocab_size)).astype('float32').round(1)
    logits[::2, 0] = 9.0
    values, tokens = top_k_tokens(jnp.asarray(logits), count)
    logits[:, 0] = -np.inf
    expected = np.argsort(-logits, axis=1, kind='stable')[:, :count]
    np.testing.assert_array_equal(tokens, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(logits, expected, axis=1))
