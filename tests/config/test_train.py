"""The section train: values that it refuses and accepts."""

import re

import pytest

from transformer_jax.config import TrainConfig
from transformer_jax.errors import UserError


@pytest.mark.parametrize(
    'values, message',
    [
        (
            {'eval_every': 1500, 'checkpoint_every': 1000},
            'train.eval_every=1500 must be a multiple of train.checkpoint_every=1000',
        ),
    ],
)
def test_bad_values_are_refused(values, message):
    with pytest.raises(UserError, match=re.escape(message)):
        TrainConfig(**values)


def test_values_at_their_limits_are_accepted():
    TrainConfig(eval_every=2000, checkpoint_every=1000)


def test_init_from_is_normalised():
    assert TrainConfig(init_from='runs/mine/') == TrainConfig(init_from='runs//mine')
