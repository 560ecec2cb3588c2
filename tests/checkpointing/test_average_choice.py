"""Which checkpoints are averaged: the latest, the best by dev BLEU, or named ones."""

import pytest
from tiny_checkpoints import save

from transformer_jax.checkpointing.average_choice import CheckpointChoice
from transformer_jax.checkpointing.manager import Checkpoints
from transformer_jax.config import DecodeConfig
from transformer_jax.errors import UserError


@pytest.fixture
def checkpoints(tmp_path):
    save(tmp_path / 'c', [2, 4, 6, 8], keep=4, at_2=30.0, at_4=10.0, at_6=30.0)
    return Checkpoints(tmp_path / 'c', every=2, read_only=True)


def candidates(checkpoints, **choice):
    return CheckpointChoice(**choice).candidates(checkpoints, DecodeConfig())


def test_the_latest_come_newest_first(checkpoints):
    assert candidates(checkpoints, which='latest') == [8, 6, 4, 2]


def test_the_best_have_a_bleu_and_the_newest_of_equals_comes_first(checkpoints):
    assert candidates(checkpoints, which='best') == [6, 2, 4]


def test_named_steps_keep_their_order_without_duplicates(checkpoints):
    assert candidates(checkpoints, steps=[2, 8, 2]) == [2, 8]


def test_the_error_for_a_missing_step_lists_the_existing_ones(checkpoints):
    with pytest.raises(UserError, match=r'steps=3 are not all saved .* choose among 2, 4, 6, 8'):
        candidates(checkpoints, steps=[3])


def test_the_best_of_checkpoints_without_bleu_is_refused_unless_it_is_the_default(tmp_path):
    save(tmp_path / 'c', [2, 4])
    checkpoints = Checkpoints(tmp_path / 'c', read_only=True)
    with pytest.raises(UserError, match='no checkpoint with a dev score'):
        candidates(checkpoints, which='best')
    decode = DecodeConfig(average='best')
    assert CheckpointChoice().candidates(checkpoints, decode) == [4, 2]
