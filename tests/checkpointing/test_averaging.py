"""The mean of checkpoints is the same everywhere and leaves out what cannot be read."""

import os
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_checkpoints import cut, latest_state, same, save, state

from transformer_jax.checkpointing.average_choice import CheckpointChoice
from transformer_jax.checkpointing.averaging import average
from transformer_jax.checkpointing.manager import Checkpoints
from transformer_jax.config import DecodeConfig


def mean(path, count, which='latest', every=5):
    manager = Checkpoints(path, every=every, read_only=True)
    choice, decode = CheckpointChoice(which=which), DecodeConfig()
    candidates = choice.candidates(manager, decode)
    return average(
        manager, candidates, count, largest_gap=choice.largest_gap(decode, manager.every)
    )


def with_ema(step):
    return state(step).replace(ema={'a': jnp.full((64, 8), 10.0 * step)})


def test_the_latest_checkpoints_are_averaged(tmp_path):
    save(tmp_path / 'c', [1, 2, 6])
    params, steps = mean(tmp_path / 'c', 2)
    assert steps == [2, 6]
    assert np.unique(params['a']).tolist() == [4.0]
    assert params['a'].dtype == np.float32


def test_the_mean_is_the_same_to_the_byte_on_devices_and_in_numpy(tmp_path):
    save(tmp_path / 'c', [1, 2, 6])
    manager = Checkpoints(tmp_path / 'c', read_only=True)
    on_devices, _ = average(manager, [1, 2, 6], like=state(0, jax.devices()).params)
    assert same(on_devices, average(manager, [1, 2, 6])[0])


def test_a_damaged_checkpoint_is_left_out_of_the_mean(tmp_path):
    save(tmp_path / 'c', [1, 3, 6])
    for file in (tmp_path / 'c' / '6').rglob('*'):
        if file.is_file():
            cut(file)
    assert mean(tmp_path / 'c', 2)[1] == [1, 3]


def test_the_mean_of_no_checkpoints_is_an_error(tmp_path):
    (tmp_path / 'c').mkdir()
    with pytest.raises(FileNotFoundError, match='no readable checkpoint'):
        mean(tmp_path / 'c', 2)


def test_the_best_checkpoints_are_averaged(tmp_path):
    save(tmp_path / 'c', [1, 2, 6, 7], keep=4, at_1=20.0, at_2=30.0, at_6=10.0)
    params, steps = mean(tmp_path / 'c', 2, 'best')
    assert steps == [1, 2]
    assert np.unique(params['a']).tolist() == [1.5]


def test_a_moving_average_is_restored_and_averaged(tmp_path):
    manager = Checkpoints(tmp_path / 'c', keep=2)
    for step in (1, 2):
        manager.save(with_ema(step).items())
    manager.wait()
    assert same(latest_state(manager, with_ema(0)), with_ema(2))
    assert np.unique(mean(tmp_path / 'c', 2)[0]['a']).tolist() == [15.0]


def test_a_missing_moving_average_counts_as_damage(tmp_path):
    manager = Checkpoints(tmp_path / 'c', keep=2)
    for step in (1, 2):
        manager.save(with_ema(step).items())
    manager.close()
    shutil.rmtree(tmp_path / 'c' / '2' / 'ema')
    params, steps = mean(tmp_path / 'c', 2)
    assert steps == [1] and np.unique(params['a']).tolist() == [10.0]


def test_weights_can_be_saved_and_read_alone(tmp_path):
    manager = Checkpoints(tmp_path / 'c')
    manager.save_weights(7, {'a': np.ones((4, 4), np.float32)})
    manager.close()
    params, steps = mean(tmp_path / 'c', 5)
    assert steps == [7] and np.unique(params['a']).tolist() == [1.0]


@pytest.mark.parametrize('text', ['[]', 'null', '{"item_handlers": 5}', '[' * 100_000])
def test_damaged_metadata_affects_one_checkpoint_only(tmp_path, text):
    save(tmp_path / 'c', [1, 2])
    (tmp_path / 'c' / '2' / '_CHECKPOINT_METADATA').write_text(text)
    manager = Checkpoints(tmp_path / 'c', read_only=True)
    _, steps = average(manager, manager.steps())
    assert steps[0] == 1


def test_a_pipe_in_a_checkpoint_counts_as_damage_without_waiting(tmp_path, caplog):
    save(tmp_path / 'c', [1, 2])
    file = next((tmp_path / 'c' / '2' / 'params').rglob('manifest.ocdbt'))
    file.unlink()
    os.mkfifo(file)
    manager = Checkpoints(tmp_path / 'c', read_only=True)
    assert average(manager, manager.steps())[1] == [1]
    assert 'manifest.ocdbt is not a file' in caplog.text


def test_deeply_nested_json_in_a_checkpoint_counts_as_damage(tmp_path, caplog):
    save(tmp_path / 'c', [1, 2])
    for file in (tmp_path / 'c' / '2' / 'params' / name for name in ('_sharding', '_METADATA')):
        file.write_text('{"a": ' + '[' * 100_000)
    manager = Checkpoints(tmp_path / 'c', read_only=True)
    assert average(manager, manager.steps())[1] == [1]
    assert 'is nested too deeply' in caplog.text


def test_an_old_best_checkpoint_is_not_one_of_the_latest(tmp_path):
    save(tmp_path / 'c', [2, 16, 18, 20], keep=4)
    assert mean(tmp_path / 'c', 4, every=2)[1] == [16, 18, 20]


def test_a_single_missing_checkpoint_does_not_end_the_latest(tmp_path):
    save(tmp_path / 'c', [2, 4, 8, 9], keep=4)
    assert mean(tmp_path / 'c', 4, every=2)[1] == [2, 4, 8, 9]


def test_a_folder_far_ahead_that_is_no_checkpoint_does_not_hide_the_latest(tmp_path):
    save(tmp_path / 'c', [2, 4])
    (tmp_path / 'c' / '3000000000').mkdir()
    assert mean(tmp_path / 'c', 4, every=2)[1] == [2, 4]
