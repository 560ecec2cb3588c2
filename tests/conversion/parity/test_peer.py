"""What other programs are asked."""

import pytest

from transformer_jax.conversion.parity.peer import faults_of_peers
from transformer_jax.errors import UserError


def test_what_another_program_raises_is_said_in_a_sentence():
    with (
        pytest.raises(
            UserError, match=r"^pymarian fails with this model \(KeyError: 'x'\): without"
        ),
        faults_of_peers('pymarian'),
    ):
        raise KeyError('x')
