"""The gate of imports."""

import numpy as np
import pytest

from transformer_jax.conversion.parity.gate import _padded, faults_of_peers
from transformer_jax.errors import UserError


def test_a_sentence_of_more_tokens_than_usual_widens_its_batch():
    usual, long = np.arange(1, 4), np.arange(1, 61)
    batch = _padded([usual, long])
    np.testing.assert_array_equal(batch[1], long)
    np.testing.assert_array_equal(batch[0, :4], [1, 2, 3, 0])
    assert _padded([usual]).shape == _padded([usual, usual]).shape


def test_what_another_program_raises_is_said_in_a_sentence():
    with (
        pytest.raises(
            UserError, match=r"^pymarian fails with this model \(KeyError: 'x'\): without"
        ),
        faults_of_peers('pymarian'),
    ):
        raise KeyError('x')
