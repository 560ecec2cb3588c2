"""A checkpoint is restored to the byte on any devices; damage costs one checkpoint only."""

import errno
import os
import shutil

import jax
import pytest
from tiny_checkpoints import cut, flip, latest_state, same, save, state

from transformer_jax.checkpointing.averaging import average
from transformer_jax.checkpointing.checksums import Mismatch
from transformer_jax.checkpointing.manager import Checkpoints
from transformer_jax.config import MeshConfig
from transformer_jax.errors import UserError
from transformer_jax.runtime import processes
from transformer_jax.runtime.compile_counter import CompileCounter
from transformer_jax.sharding import make_mesh, state_shardings


def laid_on(mesh, step):
    """Return a state whose parameters have names and shapes that fsdp and tensor divide."""
    value = state(step)
    params = {'embedding': value.params['b'], 'inner': {'kernel': value.params['a']}}
    value = value.replace(params=params)
    return jax.device_put(value, state_shardings(value, make_mesh(mesh)))


def test_a_state_is_restored_to_the_byte(tmp_path):
    save(tmp_path / 'c', [5])
    restored = latest_state(Checkpoints(tmp_path / 'c'), state(0))
    assert same(restored, state(5))
    assert jax.tree.structure(restored) == jax.tree.structure(state(5))


def test_saving_from_many_devices_compiles_nothing_more(tmp_path):
    saved, manager = state(5, jax.devices()), Checkpoints(tmp_path / 'c')
    manager.prepare(saved.items())
    compilations = CompileCounter()
    manager.save(saved.items())
    manager.close()
    assert compilations.new() == 0


def test_an_empty_folder_restores_nothing(tmp_path):
    assert latest_state(Checkpoints(tmp_path / 'c'), state(0)) is None


@pytest.mark.parametrize(('saved_on', 'restored_on'), [(1, 8), (8, 1)])
def test_a_checkpoint_is_restored_on_any_number_of_devices(tmp_path, saved_on, restored_on):
    manager = Checkpoints(tmp_path / 'c')
    manager.save(state(5, jax.devices()[:saved_on]).items())
    manager.wait()
    restored = latest_state(manager, state(0, jax.devices()[:restored_on]))
    assert same(restored, state(5))
    assert len(restored.params['a'].sharding.device_set) == restored_on


@pytest.mark.parametrize(
    ('saved_on', 'restored_on'),
    [(MeshConfig(1, 8, 1), MeshConfig(2, 2, 2)), (MeshConfig(4, 1, 2), MeshConfig(1, 8, 1))],
)
def test_a_checkpoint_is_restored_on_any_mesh(tmp_path, saved_on, restored_on):
    manager = Checkpoints(tmp_path / 'c')
    manager.save(laid_on(saved_on, 5).items())
    manager.wait()
    wanted, restored = (
        laid_on(restored_on, 5),
        latest_state(manager, laid_on(restored_on, 0)),
    )
    assert same(restored, wanted)
    leaves, wanted_leaves = jax.tree.leaves(restored), jax.tree.leaves(wanted)
    assert [x.sharding for x in leaves] == [x.sharding for x in wanted_leaves]
    assert not all(x.sharding.is_fully_replicated for x in leaves)


@pytest.mark.parametrize('damage', [cut, flip, lambda file: file.unlink()])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path, caplog, damage):
    save(tmp_path / 'c', [5, 10])
    for file in list((tmp_path / 'c' / '10').rglob('*')):
        if file.is_file():
            damage(file)
    manager = Checkpoints(tmp_path / 'c', keep=3)
    assert same(latest_state(manager, state(0)), state(5))
    assert 'The checkpoint of step 10 is damaged' in caplog.text
    assert (tmp_path / 'c.damaged' / '10').is_dir()
    manager.save(state(10).items())
    manager.close()
    assert Checkpoints(tmp_path / 'c').steps() == [5, 10]


def test_an_earlier_damaged_checkpoint_is_not_overwritten(tmp_path):
    (tmp_path / 'c.damaged' / '10').mkdir(parents=True)
    save(tmp_path / 'c', [5, 10])
    shutil.rmtree(tmp_path / 'c' / '10' / 'params')
    latest_state(Checkpoints(tmp_path / 'c'), state(0))
    assert sorted(path.name for path in (tmp_path / 'c.damaged').iterdir()) == ['10', '10-1']


@pytest.mark.parametrize(
    'error',
    [
        PermissionError(errno.EACCES, 'Permission denied', 'x'),
        OSError(errno.ESTALE, os.strerror(errno.ESTALE), 'x'),
        ValueError('PERMISSION_DENIED: Error opening file'),
    ],
)
def test_an_unreachable_checkpoint_is_not_damage(tmp_path, monkeypatch, error):
    save(tmp_path / 'c', [5, 10])
    manager = Checkpoints(tmp_path / 'c')

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(manager._manager, 'restore', fail)
    for read in (
        lambda: latest_state(manager, state(0)),
        lambda: average(manager, [10, 5]),
    ):
        with pytest.raises(UserError, match=r'step 10 in .* cannot be read .*: restore access'):
            read()
    assert manager.steps() == [5, 10]
    assert not (tmp_path / 'c.damaged').exists()


def test_if_all_checkpoints_are_damaged_none_is_moved(tmp_path):
    save(tmp_path / 'c', [5, 10])
    for step in (5, 10):
        shutil.rmtree(tmp_path / 'c' / str(step) / 'params')
    manager = Checkpoints(tmp_path / 'c')
    with pytest.raises(UserError, match=r'none of the 2 checkpoints in .* can be read .of step 10'):
        latest_state(manager, state(0))
    assert manager.steps() == [5, 10]
    assert not (tmp_path / 'c.damaged').exists()


def test_a_killed_save_costs_that_save_only(tmp_path):
    save(tmp_path / 'c', [5])
    # Orbax gives this name to an unfinished checkpoint.
    unfinished = tmp_path / 'c' / '7.orbax-checkpoint-tmp'
    shutil.copytree(tmp_path / 'c' / '5', unfinished)
    assert Checkpoints(tmp_path / 'c', read_only=True).steps() == [5]
    assert unfinished.exists()  # another process may be writing it
    manager = Checkpoints(tmp_path / 'c')
    assert manager.steps() == [5]
    assert same(latest_state(manager, state(0)), state(5))
    manager.save(state(10).items())
    manager.wait()
    assert not unfinished.exists()


def test_reading_writes_nothing_and_logs_no_warning(tmp_path, caplog):
    save(tmp_path / 'c', [5])
    before = sorted(tmp_path.rglob('*'))
    assert same(latest_state(Checkpoints(tmp_path / 'c', read_only=True), state(0)), state(5))
    assert sorted(tmp_path.rglob('*')) == before
    assert [record.msg for record in caplog.records if record.levelname == 'WARNING'] == []


def test_one_of_several_processes_that_finds_damage_stops_at_once(tmp_path, monkeypatch):
    save(tmp_path / 'c', [5, 10])
    shutil.rmtree(tmp_path / 'c' / '10' / 'params')
    manager = Checkpoints(tmp_path / 'c')
    monkeypatch.setattr(processes, 'count', lambda: 2)
    with pytest.raises(UserError, match=r'^process 0 of 2 cannot read the .* step 10 .*: move it'):
        latest_state(manager, state(0))


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


def test_a_checkpoint_of_another_step_than_its_name_is_damaged(tmp_path, caplog):
    save(tmp_path / 'c', [1, 2])
    (tmp_path / 'c' / '2').rename(tmp_path / 'c' / '3')
    assert same(latest_state(Checkpoints(tmp_path / 'c'), state(0)), state(1))
    assert 'it is of step 2' in caplog.text


def test_two_damaged_checkpoints_are_both_moved_aside(tmp_path):
    save(tmp_path / 'c', [1, 2, 3])
    for step in ('2', '3'):
        (tmp_path / 'c' / step / 'params' / '_METADATA').write_text('[]')
        (tmp_path / 'c' / step / '_CHECKPOINT_METADATA').write_text('{"item_handlers": -1}')
    (tmp_path / 'c' / '1' / '_CHECKPOINT_METADATA').write_text('{"item_handlers": {}}')
    manager = Checkpoints(tmp_path / 'c')
    assert same(latest_state(manager, state(0)), state(1))
    assert manager.steps() == [1]


@pytest.mark.parametrize(
    ('error', 'is_damage'),
    [
        (Mismatch('its params/a does not match its checksum'), True),
        (ValueError('DATA_LOSS: Error decoding manifest'), True),
        (FileNotFoundError('gone'), True),
        (ValueError('UNAVAILABLE: HTTP response code: 503'), False),
        (ConnectionError('no route'), False),
    ],
)
def test_in_a_bucket_only_what_proves_damage_is_damage(error, is_damage):
    checkpoints = object.__new__(Checkpoints)
    checkpoints.directory = type('Url', (), {'__fspath__': lambda self: 'gs://bucket/run'})()
    if is_damage:
        checkpoints.check_in_reach(3, error)
        return
    with pytest.raises(UserError, match='restore access'):
        checkpoints.check_in_reach(3, error)
