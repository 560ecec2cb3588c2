import errno
import fcntl
import json
import os

import pytest

from transformer_jax.errors import UserError
from transformer_jax.workdir import Workdir


@pytest.mark.parametrize('text', ['[]', '{}', '{"finished": {}}', '{"fini'])
def test_damaged_results_are_none(tmp_path, text):
    (tmp_path / 'results.json').write_text(text)
    assert Workdir(tmp_path).read_results() is None


@pytest.mark.parametrize('text', ['[]', '{"workdir', ''])
def test_a_damaged_average_is_no_training_to_go_on_with(tmp_path, text):
    assert Workdir(tmp_path).read_average() is None
    (tmp_path / 'average.json').write_text(text)
    with pytest.raises(UserError, match=r'has an average\.json that cannot be read'):
        Workdir(tmp_path).read_average()


@pytest.mark.parametrize('config', [[], {'model': 3}, 'x'])
def test_a_damaged_config(tmp_path, config):
    saved = json.dumps({'config': config, 'data_fingerprint': 'x'})
    (tmp_path / 'config.json').write_text(saved)
    with pytest.raises(UserError, match=r'has a config\.json that cannot be read'):
        Workdir(tmp_path).read_run()


def test_what_cannot_be_locked(tmp_path):
    (tmp_path / 'lock').mkdir()
    with (
        pytest.raises(UserError, match=r'cannot be locked .*lock: Is a directory.: choose another'),
        Workdir(tmp_path).locked(),
    ):
        pass


@pytest.mark.parametrize('code', [errno.ENOSYS, errno.EOPNOTSUPP])
def test_where_there_are_no_locks_that_is_said(tmp_path, monkeypatch, caplog, code):
    def flock(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, 'flock', flock)
    with Workdir(tmp_path).locked():
        assert f'cannot be locked ({os.strerror(code)}): see to it' in caplog.text


def test_what_any_library_says_of_a_full_disk_is_understood(tmp_path):
    class OpError(Exception):
        """As TensorFlow's, which is none of the system's."""

    with (
        pytest.raises(UserError, match=r'cannot be written any more \(No space left on device\)'),
        Workdir(tmp_path).failures_to_write(),
    ):
        raise OpError('Could not flush events file: tb; No space left on device')


def test_a_folder_of_checkpoints_that_nobody_may_write(tmp_path, monkeypatch):
    (tmp_path / 'checkpoints').mkdir()
    monkeypatch.setattr(os, 'access', lambda path, _: path.name != 'checkpoints')
    with pytest.raises(UserError, match=r'--output=.* is not writable .*checkpoints.: choose'):
        Workdir(tmp_path, '--output').check_writable()


def test_checkpoints_that_may_not_be_read_are_not_taken_for_none(tmp_path, monkeypatch):
    def listdir(_):
        raise PermissionError(errno.EACCES, 'Permission denied')

    assert not Workdir(tmp_path).has_checkpoints()
    monkeypatch.setattr(os, 'listdir', listdir)  # root may read anything
    with pytest.raises(UserError, match=r'checkpoints that may not be read \(Permission denied\)'):
        Workdir(tmp_path).has_checkpoints()


@pytest.mark.parametrize('workdir', ['run', 'run/of/mine'])
def test_a_link_to_nothing_is_named(tmp_path, workdir):
    (tmp_path / 'run').symlink_to(tmp_path / 'gone')
    with pytest.raises(UserError, match=r'cannot be a folder, since .*run is a link to nothing'):
        Workdir(tmp_path / workdir).check_writable()
