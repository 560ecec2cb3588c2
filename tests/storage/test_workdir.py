import errno
import fcntl
import json
import os

import pytest

from transformer_jax.errors import UserError
from transformer_jax.storage.workdir import WRITTEN, Workdir


@pytest.mark.parametrize(
    'text', ['[]', '{}', '{"finished": {}}', '{"fini', '[' * 100_000, '{"test": {}, "step": "x"}']
)
def test_damaged_results_are_read_as_none(tmp_path, text):
    (tmp_path / 'results.json').write_text(text)
    assert Workdir(tmp_path).read_results() is None


@pytest.mark.parametrize(
    'text', ['[]', '{"workdir', '', '{"workdir": "x", "steps": 5}', '{"workdir": 1, "steps": [1]}']
)
def test_a_damaged_average_is_not_taken_for_a_training_run(tmp_path, text):
    assert Workdir(tmp_path).read_average() is None
    (tmp_path / 'average.json').write_text(text)
    with pytest.raises(UserError, match=r'has an average\.json that cannot be read'):
        Workdir(tmp_path).read_average()


@pytest.mark.parametrize('config', [[], {'model': 3}, 'x', {'model': {'d_ff': [5]}}])
def test_a_damaged_config_is_a_user_error(tmp_path, config):
    saved = json.dumps({'config': config, 'data_fingerprint': 'x'})
    (tmp_path / 'config.json').write_text(saved)
    with pytest.raises(UserError, match=r'has a config\.json that cannot be read'):
        Workdir(tmp_path).read_run()


def test_a_folder_that_cannot_be_locked_is_a_user_error(tmp_path):
    (tmp_path / 'lock').mkdir()
    with (
        pytest.raises(UserError, match=r'cannot be locked .*lock: Is a directory.: choose another'),
        Workdir(tmp_path).locked(),
    ):
        pass


@pytest.mark.parametrize('code', [errno.ENOSYS, errno.EOPNOTSUPP])
def test_without_locks_a_warning_is_logged(tmp_path, monkeypatch, caplog, code):
    def flock(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, 'flock', flock)
    with Workdir(tmp_path).locked():
        assert f'cannot be locked ({os.strerror(code)}): make sure' in caplog.text


def test_a_full_disk_is_recognised_in_the_errors_of_libraries(tmp_path):
    class OpError(Exception):
        """As TensorFlow's, which is none of the system's."""

    with (
        pytest.raises(UserError, match=r'cannot be written any more \(No space left on device\)'),
        Workdir(tmp_path).failures_to_write(),
    ):
        raise OpError('Could not flush events file: tb; No space left on device')


def test_a_read_only_folder_of_checkpoints_is_refused(tmp_path, monkeypatch):
    (tmp_path / 'checkpoints').mkdir()
    monkeypatch.setattr(os, 'access', lambda path, _: path.name != 'checkpoints')
    with pytest.raises(UserError, match=r'--output=.* is not writable .*checkpoints.: choose'):
        Workdir(tmp_path, '--output').check_writable()


def test_unreadable_checkpoints_are_not_taken_for_none(tmp_path, monkeypatch):
    def listdir(_):
        raise PermissionError(errno.EACCES, 'Permission denied')

    assert not Workdir(tmp_path).has_checkpoints()
    monkeypatch.setattr(os, 'listdir', listdir)  # root may read anything
    with pytest.raises(UserError, match=r'checkpoints that may not be read \(Permission denied\)'):
        Workdir(tmp_path).has_checkpoints()


@pytest.mark.parametrize('workdir', ['run', 'run/of/mine'])
def test_a_workdir_that_links_to_nothing_is_named(tmp_path, workdir):
    (tmp_path / 'run').symlink_to(tmp_path / 'gone')
    with pytest.raises(UserError, match=r'cannot be a folder, because .*run is a link to nothing'):
        Workdir(tmp_path / workdir).check_writable()


@pytest.mark.parametrize(
    'changes', [{'split_fingerprints': ['x']}, {'vocabulary_digest': 5}, {'data_fingerprint': None}]
)
def test_a_config_with_wrong_types_is_a_user_error(tmp_path, changes):
    saved = {'config': {'model': {}, 'data': {}}, 'data_fingerprint': 'x'}
    (tmp_path / 'config.json').write_text(json.dumps(saved))
    assert Workdir(tmp_path).read_run().data_fingerprint == 'x'
    (tmp_path / 'config.json').write_text(json.dumps(saved | changes))
    with pytest.raises(UserError, match=f"read .'{next(iter(changes))}' is "):
        Workdir(tmp_path).read_run()


@pytest.mark.parametrize('name', ['run[2]', 'run*', 'run?', 'back\\slash'])
def test_a_path_that_would_lose_checkpoints_is_refused(tmp_path, name):
    with pytest.raises(UserError, match='in its full path, where checkpoints cannot be kept'):
        Workdir(tmp_path / name / 'run').check_writable()


def test_a_config_that_is_a_pipe_fails_instead_of_waiting(tmp_path):
    os.mkfifo(tmp_path / 'config.json')
    with pytest.raises(UserError, match='not a regular file'):
        Workdir(tmp_path).read_run()


@pytest.mark.parametrize('name', [*WRITTEN, 'checkpoints/8/params', 'tensorboard/x'])
def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path, name):
    (tmp_path / 'elsewhere').mkdir()
    link = tmp_path / 'run' / name
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / 'elsewhere')
    expected = f'has a link that leads out of it \\({name!r} to .*elsewhere.\\): put a copy in its'
    with pytest.raises(UserError, match=expected):
        Workdir(tmp_path / 'run').check_writable()


@pytest.mark.parametrize('target', ['../elsewhere', '../run-of-others', '../run/../gone'])
def test_a_broken_link_out_of_the_folder_is_refused(tmp_path, target):
    (tmp_path / 'run').mkdir()
    (tmp_path / 'run' / 'results.json').symlink_to(target)
    with pytest.raises(UserError, match='has a link that leads out of it'):
        Workdir(tmp_path / 'run').check_writable()


def test_a_workdir_can_be_a_link_and_hold_links_within(tmp_path):
    (tmp_path / 'elsewhere' / 'checkpoints').mkdir(parents=True)
    (tmp_path / 'elsewhere' / 'checkpoints' / 'latest').symlink_to('../checkpoints')
    (tmp_path / 'run').symlink_to('elsewhere')
    Workdir(tmp_path / 'run').check_writable()


def test_a_link_that_no_run_writes_is_allowed(tmp_path):
    (tmp_path / 'corpus').symlink_to('/')
    Workdir(tmp_path).check_writable()


def test_everything_that_a_run_writes_is_checked_for_links(workdir):
    assert {*os.listdir(workdir)} <= {*WRITTEN}


def test_a_pipe_in_the_folder_is_refused(tmp_path):
    os.mkfifo(tmp_path / 'metrics.jsonl')
    with pytest.raises(UserError, match=r"holds 'metrics.jsonl', which is neither a file nor a f"):
        Workdir(tmp_path).check_writable()


def place_lock(path, kind, precious):
    if kind == 'pipe':
        os.mkfifo(path)
    elif kind == 'link':
        path.symlink_to(precious)
    else:
        path.hardlink_to(precious)


@pytest.mark.parametrize('kind', ['link', 'hard link', 'pipe'])
def test_a_lock_that_is_a_link_or_a_device_is_not_written(tmp_path, kind):
    precious = tmp_path / 'precious'
    precious.write_text('as it was')
    (tmp_path / 'run').mkdir()
    place_lock(tmp_path / 'run' / 'lock', kind, precious)
    with (
        pytest.raises(UserError, match=r'cannot be locked .*lock: not a file of its own, so remov'),
        Workdir(tmp_path / 'run').locked(),
    ):
        pass
    assert precious.read_text() == 'as it was'


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path):
    (tmp_path / 'results.json').mkdir()
    with pytest.raises(UserError, match=r"holds a folder 'results.json', where a run writes a f"):
        Workdir(tmp_path).check_writable()


@pytest.mark.parametrize('target', ['tensorboard', 'gone'])
def test_a_link_to_nothing_is_refused(tmp_path, target):
    (tmp_path / 'tensorboard').symlink_to(target)
    with pytest.raises(UserError, match=r"has a link that leads nowhere \('tensorboard'\): remove"):
        Workdir(tmp_path).check_writable()


@pytest.mark.parametrize('section', ['model', 'data'])
def test_a_config_without_the_section_that_was_trained_is_a_user_error(tmp_path, workdir, section):
    saved = json.loads((workdir / 'config.json').read_text())
    del saved['config'][section]
    (tmp_path / 'config.json').write_text(json.dumps(saved))
    with pytest.raises(UserError, match=f"config.json that cannot be read .'{section}' is missing"):
        Workdir(tmp_path).read_run()
