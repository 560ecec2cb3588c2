"""The section decode: the paper's search, and values that it refuses and accepts."""

import re

import pytest

from transformer_jax.config import Config, DecodeConfig
from transformer_jax.errors import UserError


def test_default_decoding_is_that_of_the_paper():
    decode = Config().decode
    assert (decode.beam_size, decode.length_penalty, decode.max_extra_length) == (4, 0.6, 50)
    assert decode.average_checkpoints == 5


@pytest.mark.parametrize(
    'values, message',
    [
        ({'average': 'last'}, "must be one of latest, best: did you mean 'latest'?"),
        ({'max_source_length': 1}, 'decode.max_source_length=1 leaves no token for the source'),
    ],
)
def test_bad_values_are_refused(values, message):
    with pytest.raises(UserError, match=re.escape(message)):
        DecodeConfig(**values)


def test_values_at_their_limits_are_accepted():
    DecodeConfig(max_source_length=2)
