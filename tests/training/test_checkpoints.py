import errno
import os
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_jax import processes
from transformer_jax.config import MeshConfig
from transformer_jax.errors import UserError
from transformer_jax.preflight import Compilations
from transformer_jax.sharding import make_mesh, state_shardings
from transformer_jax.training.checkpoints import Checkpoints
from transformer_jax.training.loss import LossSums
from transformer_jax.training.state import TrainState, Window


def state(step, devices=None):
    value = TrainState(
        step=jnp.int32(step),
        params={
            'a': jnp.full((64, 8), float(step)),
            # Numbers that cannot be compressed lie on disk as they are.
            'b': jax.random.normal(jax.random.key(step), (64, 64)),
        },
        ema=None,
        opt_state=({'mu': jnp.full((64, 8), step / 3)}, jnp.int32(step)),
        window=Window(
            LossSums(jnp.float32(step), jnp.float32(0.5), jnp.int32(9)), jnp.int32(1), jnp.int32(3)
        ),
    )
    mesh = make_mesh(devices=devices or jax.devices()[:1])
    return jax.device_put(value, state_shardings(value, mesh))


def save(path, steps, keep=3, **bleu):
    manager = Checkpoints(path, keep=keep)
    for step in steps:
        scored = f'at_{step}' in bleu
        manager.save(state(step), {'bleu': bleu[f'at_{step}']} if scored else None)
    manager.close()


def same(a, b):
    return all(
        np.asarray(x).tobytes() == np.asarray(y).tobytes()
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


def test_what_is_saved_is_restored_to_the_byte(tmp_path):
    save(tmp_path / 'c', [5])
    restored = Checkpoints(tmp_path / 'c').restore_latest(state(0))
    assert same(restored, state(5))
    assert jax.tree.structure(restored) == jax.tree.structure(state(5))


def test_saving_from_many_devices_compiles_nothing_more(tmp_path):
    saved, manager = state(5, jax.devices()), Checkpoints(tmp_path / 'c')
    manager.prepare(saved)
    compilations = Compilations()
    manager.save(saved)
    manager.close()
    assert compilations.lap() == 0


def test_an_empty_folder_restores_nothing(tmp_path):
    assert Checkpoints(tmp_path / 'c').restore_latest(state(0)) is None


def test_the_latest_and_the_best_are_kept(tmp_path):
    save(tmp_path / 'c', [1, 2, 3, 4, 5], keep=2, at_2=30.0, at_4=20.0)
    assert Checkpoints(tmp_path / 'c').steps() == [2, 4, 5]


def test_the_best_is_kept_by_a_run_that_goes_on(tmp_path):
    save(tmp_path / 'c', [1, 2, 3], keep=1, at_2=30.0, at_3=20.0)
    save(tmp_path / 'c', [4, 5], keep=1, at_4=10.0)
    assert Checkpoints(tmp_path / 'c').steps() == [2, 5]


@pytest.mark.parametrize(('saved_on', 'restored_on'), [(1, 8), (8, 1)])
def test_any_number_of_devices_to_any(tmp_path, saved_on, restored_on):
    manager = Checkpoints(tmp_path / 'c')
    manager.save(state(5, jax.devices()[:saved_on]))
    manager.wait()
    restored = manager.restore_latest(state(0, jax.devices()[:restored_on]))
    assert same(restored, state(5))
    assert len(restored.params['a'].sharding.device_set) == restored_on


def laid_on(mesh, step):
    """A state whose parameters have names and shapes that fsdp and tensor divide."""
    value = state(step)
    params = {'embedding': value.params['b'], 'inner': {'kernel': value.params['a']}}
    value = value.replace(params=params)
    return jax.device_put(value, state_shardings(value, make_mesh(mesh)))


@pytest.mark.parametrize(
    ('saved_on', 'restored_on'),
    [(MeshConfig(1, 8, 1), MeshConfig(2, 2, 2)), (MeshConfig(4, 1, 2), MeshConfig(1, 8, 1))],
)
def test_any_mesh_to_any(tmp_path, saved_on, restored_on):
    manager = Checkpoints(tmp_path / 'c')
    manager.save(laid_on(saved_on, 5))
    manager.wait()
    wanted, restored = laid_on(restored_on, 5), manager.restore_latest(laid_on(restored_on, 0))
    assert same(restored, wanted)
    leaves, wanted_leaves = jax.tree.leaves(restored), jax.tree.leaves(wanted)
    assert [x.sharding for x in leaves] == [x.sharding for x in wanted_leaves]
    assert not all(x.sharding.is_fully_replicated for x in leaves)


def cut(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip(file):
    if file.stat().st_size > 1000:  # that of the numbers
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 16
        file.write_bytes(bytes(content))


@pytest.mark.parametrize('damage', [cut, flip, lambda file: file.unlink()])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path, caplog, damage):
    save(tmp_path / 'c', [5, 10])
    for file in list((tmp_path / 'c' / '10').rglob('*')):
        if file.is_file():
            damage(file)
    manager = Checkpoints(tmp_path / 'c', keep=3)
    assert same(manager.restore_latest(state(0)), state(5))
    assert 'The checkpoint of step 10 is damaged' in caplog.text
    assert (tmp_path / 'c.damaged' / '10').is_dir()
    manager.save(state(10))
    manager.close()
    assert Checkpoints(tmp_path / 'c').steps() == [5, 10]


def test_one_put_aside_earlier_stays(tmp_path):
    (tmp_path / 'c.damaged' / '10').mkdir(parents=True)
    save(tmp_path / 'c', [5, 10])
    shutil.rmtree(tmp_path / 'c' / '10' / 'params')
    Checkpoints(tmp_path / 'c').restore_latest(state(0))
    assert sorted(path.name for path in (tmp_path / 'c.damaged').iterdir()) == ['10', '10-1']


@pytest.mark.parametrize(
    'error',
    [
        PermissionError(errno.EACCES, 'Permission denied', 'x'),
        OSError(errno.ESTALE, os.strerror(errno.ESTALE), 'x'),
        ValueError('PERMISSION_DENIED: Error opening file'),
    ],
)
def test_one_out_of_reach_for_the_moment_is_no_damage(tmp_path, monkeypatch, error):
    save(tmp_path / 'c', [5, 10])
    manager = Checkpoints(tmp_path / 'c')

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(manager._manager, 'restore', fail)
    for read in (lambda: manager.restore_latest(state(0)), lambda: manager.average([10, 5])):
        with pytest.raises(UserError, match=r'step 10 in .* cannot be read .*: restore access'):
            read()
    assert manager.steps() == [5, 10]
    assert not (tmp_path / 'c.damaged').exists()


def test_where_all_are_damaged_none_is_touched(tmp_path):
    save(tmp_path / 'c', [5, 10])
    for step in (5, 10):
        shutil.rmtree(tmp_path / 'c' / str(step) / 'params')
    manager = Checkpoints(tmp_path / 'c')
    with pytest.raises(UserError, match=r'none of the 2 checkpoints in .* can be read .of step 10'):
        manager.restore_latest(state(0))
    assert manager.steps() == [5, 10]
    assert not (tmp_path / 'c.damaged').exists()


def test_a_save_that_was_killed_midway_costs_that_save_only(tmp_path):
    save(tmp_path / 'c', [5])
    # This is how orbax names what it has not finished writing.
    unfinished = tmp_path / 'c' / '7.orbax-checkpoint-tmp'
    shutil.copytree(tmp_path / 'c' / '5', unfinished)
    assert Checkpoints(tmp_path / 'c', read_only=True).steps() == [5]
    assert unfinished.exists()  # of another process, perhaps, that is at it
    manager = Checkpoints(tmp_path / 'c')
    assert manager.steps() == [5]
    assert same(manager.restore_latest(state(0)), state(5))
    manager.save(state(10))
    manager.wait()
    assert not unfinished.exists()


def test_reading_alone_writes_nothing_and_warns_of_nothing(tmp_path, caplog):
    save(tmp_path / 'c', [5])
    before = sorted(tmp_path.rglob('*'))
    assert same(Checkpoints(tmp_path / 'c', read_only=True).restore_latest(state(0)), state(5))
    assert sorted(tmp_path.rglob('*')) == before
    assert [record.msg for record in caplog.records if record.levelname == 'WARNING'] == []


def test_of_many_processes_one_that_finds_damage_stops_at_once(tmp_path, monkeypatch):
    save(tmp_path / 'c', [5, 10])
    shutil.rmtree(tmp_path / 'c' / '10' / 'params')
    manager = Checkpoints(tmp_path / 'c')
    monkeypatch.setattr(processes, 'count', lambda: 2)
    with pytest.raises(UserError, match=r'^process 0 of 2 cannot read the .* step 10 .*: move it'):
        manager.restore_latest(state(0))


def mean(path, count, which='latest'):
    manager = Checkpoints(path, every=5, read_only=True)
    return manager.average(manager.ranked(which), count)


def test_the_mean_of_the_latest(tmp_path):
    save(tmp_path / 'c', [1, 2, 6])
    params, steps = mean(tmp_path / 'c', 2)
    assert steps == [2, 6]
    assert np.unique(params['a']).tolist() == [4.0]
    assert params['a'].dtype == np.float32


def test_the_mean_is_the_same_to_the_byte_on_devices_and_in_numpy(tmp_path):
    save(tmp_path / 'c', [1, 2, 6])
    manager = Checkpoints(tmp_path / 'c', read_only=True)
    on_devices, _ = manager.average([1, 2, 6], like=state(0, jax.devices()).params)
    assert same(on_devices, manager.average([1, 2, 6])[0])


def test_the_mean_leaves_out_what_is_damaged(tmp_path):
    save(tmp_path / 'c', [1, 3, 6])
    for file in (tmp_path / 'c' / '6').rglob('*'):
        if file.is_file():
            cut(file)
    assert mean(tmp_path / 'c', 2)[1] == [1, 3]


def test_the_mean_of_nothing(tmp_path):
    (tmp_path / 'c').mkdir()
    with pytest.raises(FileNotFoundError, match='no readable checkpoint'):
        mean(tmp_path / 'c', 2)


def test_the_mean_of_the_best(tmp_path):
    save(tmp_path / 'c', [1, 2, 6, 7], keep=4, at_1=20.0, at_2=30.0, at_6=10.0)
    params, steps = mean(tmp_path / 'c', 2, 'best')
    assert steps == [1, 2]
    assert np.unique(params['a']).tolist() == [1.5]


def test_so_many_of_the_best_are_kept(tmp_path):
    manager = Checkpoints(tmp_path / 'c', keep=1, keep_best=2)
    for step, bleu in [(1, 20.0), (2, 30.0), (3, 25.0), (4, 10.0)]:
        manager.save(state(step), {'bleu': bleu})
    manager.close()
    assert Checkpoints(tmp_path / 'c').steps() == [2, 3, 4]


def with_ema(step):
    return state(step).replace(ema={'a': jnp.full((64, 8), 10.0 * step)})


def test_a_moving_average_is_restored_and_is_what_is_averaged(tmp_path):
    manager = Checkpoints(tmp_path / 'c', keep=2)
    for step in (1, 2):
        manager.save(with_ema(step))
    manager.wait()
    assert same(manager.restore_latest(with_ema(0)), with_ema(2))
    assert np.unique(mean(tmp_path / 'c', 2)[0]['a']).tolist() == [15.0]


def test_a_moving_average_that_is_lost_is_damage(tmp_path):
    manager = Checkpoints(tmp_path / 'c', keep=2)
    for step in (1, 2):
        manager.save(with_ema(step))
    manager.close()
    shutil.rmtree(tmp_path / 'c' / '2' / 'ema')
    params, steps = mean(tmp_path / 'c', 2)
    assert steps == [1] and np.unique(params['a']).tolist() == [10.0]


def test_weights_alone_are_saved_and_read(tmp_path):
    manager = Checkpoints(tmp_path / 'c')
    manager.save_weights(7, {'a': np.ones((4, 4), np.float32)})
    manager.close()
    params, steps = mean(tmp_path / 'c', 5)
    assert steps == [7] and np.unique(params['a']).tolist() == [1.0]


def test_one_between_the_regular_ones_stays_while_it_is_the_newest(tmp_path):
    manager = Checkpoints(tmp_path / 'c', keep=2, every=3)
    kept = []
    for step in (3, 6, 8, 9, 11):
        manager.save(state(step))
        manager.wait()
        kept.append(manager.steps())
    assert kept == [[3], [3, 6], [6, 8], [6, 9], [9, 11]]


def test_one_of_the_best_that_is_older_is_none_of_the_latest(tmp_path):
    manager = Checkpoints(tmp_path / 'c', keep=3, keep_best=1, every=2)
    for step in range(2, 22, 2):
        manager.save(state(step), {'bleu': 1.0 / step})
    assert manager.steps() == [2, 16, 18, 20]
    assert manager.ranked('latest') == [20, 18, 16]
    assert manager.ranked('best') == [2, 16, 18, 20]
    manager.close()


def test_the_latest_go_on_behind_one_that_is_missing(tmp_path):
    save(tmp_path / 'c', [2, 4, 8, 9], keep=4)
    manager = Checkpoints(tmp_path / 'c', every=2, read_only=True)
    assert manager.ranked('latest') == [9, 8, 4, 2]


def test_a_folder_that_does_not_keep_what_is_saved_is_noticed_at_the_first_save(
    tmp_path, monkeypatch
):
    def unreadable(*_):
        raise ValueError('NOT_FOUND')

    monkeypatch.setattr(Checkpoints, 'restore_arrays', unreadable)
    with pytest.raises(UserError, match=r'step 5 cannot be read back \(NOT_FOUND\): choose'):
        save(tmp_path / 'c', [5])


def test_only_the_first_save_is_read_back(tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(Checkpoints, 'restore_arrays', lambda _, step, item: read.append(step))
    save(tmp_path / 'c', [5, 6])
    assert set(read) == {5}


def test_scores_can_be_added_to_a_checkpoint(tmp_path):
    save(tmp_path / 'c', [1, 2], at_2=7.0)
    manager = Checkpoints(tmp_path / 'c')
    assert not manager.has_scores(1)
    manager.add_scores(1, {'bleu': 9.0})
    manager.close()
    again = Checkpoints(tmp_path / 'c')
    assert again.ranked('best') == [1, 2]
    assert same(again.restore_latest(state(0)), state(2))


@pytest.mark.parametrize('text', ['[]', '{"bleu": "x"}', '{"bleu": null}', '[' * 100_000])
def test_damaged_scores_are_none(tmp_path, text):
    save(tmp_path / 'c', [1, 2], at_1=7.0, at_2=9.0)
    (tmp_path / 'c' / '2' / 'scores' / 'scores.json').write_text(text)
    assert Checkpoints(tmp_path / 'c', read_only=True).ranked('best') == [1]


@pytest.mark.parametrize('text', ['[]', 'null', '{"item_handlers": 5}', '[' * 100_000])
def test_damaged_metadata_of_one_checkpoint_leaves_the_others(tmp_path, text):
    save(tmp_path / 'c', [1, 2])
    (tmp_path / 'c' / '2' / '_CHECKPOINT_METADATA').write_text(text)
    manager = Checkpoints(tmp_path / 'c', read_only=True)
    _, steps = manager.average(manager.ranked())
    assert steps[0] == 1


def test_a_pipe_in_a_checkpoint_is_damage_and_not_waited_for(tmp_path, caplog):
    save(tmp_path / 'c', [1, 2])
    file = next((tmp_path / 'c' / '2' / 'params').rglob('manifest.ocdbt'))
    file.unlink()
    os.mkfifo(file)
    manager = Checkpoints(tmp_path / 'c', read_only=True)
    assert manager.average(manager.ranked())[1] == [1]
    assert 'manifest.ocdbt is not a file' in caplog.text


def test_a_checkpoint_of_another_step_than_its_name_is_damaged(tmp_path, caplog):
    save(tmp_path / 'c', [1, 2])
    (tmp_path / 'c' / '2').rename(tmp_path / 'c' / '3')
    assert same(Checkpoints(tmp_path / 'c').restore_latest(state(0)), state(1))
    assert 'it is of step 2' in caplog.text


def test_damage_in_two_checkpoints_puts_both_aside(tmp_path):
    save(tmp_path / 'c', [1, 2, 3])
    for step in ('2', '3'):
        (tmp_path / 'c' / step / 'params' / '_METADATA').write_text('[]')
        (tmp_path / 'c' / step / '_CHECKPOINT_METADATA').write_text('{"item_handlers": -1}')
    (tmp_path / 'c' / '1' / '_CHECKPOINT_METADATA').write_text('{"item_handlers": {}}')
    manager = Checkpoints(tmp_path / 'c')
    assert same(manager.restore_latest(state(0)), state(1))
    assert manager.steps() == [1]


def test_deep_json_in_a_checkpoint_is_damage_and_ends_no_process(tmp_path, caplog):
    save(tmp_path / 'c', [1, 2])
    for file in (tmp_path / 'c' / '2' / 'params' / name for name in ('_sharding', '_METADATA')):
        file.write_text('{"a": ' + '[' * 100_000)
    manager = Checkpoints(tmp_path / 'c', read_only=True)
    assert manager.average(manager.ranked())[1] == [1]
    assert 'is nested too deeply' in caplog.text
