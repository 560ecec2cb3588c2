"""The section train: what it refuses."""

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
def test_values_that_do_not_fit(values, message):
    with pytest.raises(UserError, match=re.escape(message)):
        TrainConfig(**values)


def test_values_just_within_their_bounds():
    TrainConfig(eval_every=2000, checkpoint_every=1000)


def test_a_folder_to_begin_from_has_one_name():
    assert TrainConfig(init_from='runs/mine/') == TrainConfig(init_from='runs//mine')
