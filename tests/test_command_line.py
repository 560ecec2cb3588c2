"""What all commands share: configs and their overrides, exit codes, stdout."""

import io
import os
import subprocess
import sys

import pytest
from tiny_run import config_file

from transformer_jax import average, command_line, evaluate, translate, translator
from transformer_jax.config import Config
from transformer_jax.errors import UserError


def test_overrides_of_a_config_with_few_sections(tmp_path):
    path = tmp_path / 'config.py'
    path.write_text(
        'import ml_collections\n'
        'def get_config():\n'
        "    return ml_collections.ConfigDict({'model': {'d_ff': 64}, 'train': 3})\n"
    )
    with pytest.raises(UserError, match=r'train=3 must be a section'):
        command_line.load_config(str(path), ['--config.train.steps=3'])
    path.write_text(path.read_text().replace(", 'train': 3", ''))
    config = command_line.load_config(str(path), ['--config.data.seed=3'])
    assert (config.model.d_ff, config.data.seed) == (64, 3)


def test_overrides_change_the_config(tmp_path):
    path = config_file(tmp_path / 'config.py', Config())
    overrides = ['--config.model.d_ff=64', '--config.data.vocabulary', 'a=b']
    config = command_line.load_config(str(path), overrides)
    assert (config.model.d_ff, config.data.vocabulary) == (64, 'a=b')


def test_a_config_gets_its_argument(tmp_path):
    (tmp_path / 'folder.py').write_text(
        'from transformer_jax.config import Config\n'
        'def get_config(folder):\n'
        '    config = Config().to_config_dict()\n'
        '    config.data.data_dir = folder\n'
        '    return config\n'
    )
    assert command_line.load_config(f'{tmp_path}/folder.py:../data').data.data_dir == '../data'
    assert command_line.config_name('configs/folder.py:../data') == 'folder'


def test_a_config_that_may_not_be_read(tmp_path, monkeypatch):
    path = config_file(tmp_path / 'config.py', Config())

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(command_line, 'open', refuse, raising=False)  # root may read everything
    with pytest.raises(UserError, match=r"config\.py' may not be read: change its permissions\.$"):
        command_line.load_config(str(path))


def test_a_config_that_misses_a_file_says_which(tmp_path):
    (tmp_path / 'config.py').write_text("def get_config():\n    open('missing.txt')\n")
    with pytest.raises(UserError, match=r"py, line 2: FileNotFoundError: .*'missing\.txt'\.$"):
        command_line.load_config(f'{tmp_path}/config.py')


def test_a_fault_of_ours_keeps_its_trace(monkeypatch):
    monkeypatch.setattr('sys.argv', ['main'])
    with pytest.raises(ZeroDivisionError):
        command_line.run(lambda arguments: 1 / 0)


def test_ctrl_c_says_so_and_exits_with_130(monkeypatch, capsys):
    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr('sys.argv', ['main'])
    with pytest.raises(SystemExit) as exit_:
        command_line.run(interrupted)
    assert exit_.value.code == 130
    assert capsys.readouterr().err == 'Stopped by Ctrl-C.\n'


@pytest.mark.parametrize(
    ('module', 'more'), [(translate, []), (evaluate, []), (average, ['--output', 'mean'])]
)
def test_which_checkpoints_is_handed_on(run_command, monkeypatch, tmp_path, module, more):
    monkeypatch.chdir(tmp_path)
    asked = []

    def load(workdir, **given):
        asked.append((workdir, given['checkpoints'], given['average']))
        raise UserError('enough')

    monkeypatch.setattr(translator, 'load_trained', load)
    monkeypatch.setattr('transformer_jax.inference.load.load_trained', load)
    flags = ['--workdir', 'run', '--checkpoints', '3', '--average', 'best', *more]
    assert run_command(module, *flags)[0] == 2
    assert asked == [('run', 3, 'best')]


def test_stdout_is_utf_8_whatever_the_locale(monkeypatch):
    stdout = io.TextIOWrapper(io.BytesIO(), encoding='ascii')
    monkeypatch.setattr('sys.stdout', stdout)
    monkeypatch.setattr('sys.argv', ['main'])
    command_line.run(lambda arguments: print('±'))
    assert stdout.buffer.getvalue() == '±\n'.encode()


def printing_to(stdout, unbuffered=''):
    """Exit code and stderr of a command that prints to `stdout`, a file."""
    prints = (
        'from transformer_jax import command_line as c; c.run(lambda arguments: print("found"))'
    )
    environment = os.environ | {'PYTHONUNBUFFERED': unbuffered}
    ended = subprocess.run(
        [sys.executable, '-c', prints],
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize('unbuffered', ['', '1'])
def test_whoever_reads_no_further_has_enough(unbuffered):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, 'w') as stdout:
        assert printing_to(stdout, unbuffered) == (0, '')


def test_output_that_cannot_be_written_is_said():
    with open('/dev/full', 'w') as full:
        assert printing_to(full) == (
            2,
            'error: stdout cannot be written (No space left on device): choose another place.\n',
        )


def test_user_errors_are_value_errors():
    with pytest.raises(ValueError, match='not a field'):
        Config.from_mapping({'modle': {}})
    assert issubclass(UserError, ValueError)


def test_a_config_that_is_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / 'config.py')
    with pytest.raises(UserError, match='is not a file'):
        command_line.load_config(f'{tmp_path}/config.py')


def test_a_result_that_cannot_be_written_is_one_sentence(monkeypatch):
    with open('/dev/full', 'w', buffering=1) as full:  # each line is written at once
        monkeypatch.setattr('sys.stdout', full)
        with pytest.raises(UserError, match=r'stdout cannot be written \(No space left'):
            command_line.print_result('BLEU 30.0')
        monkeypatch.undo()
        full.reconfigure(write_through=False)
        command_line.os.dup2(command_line.os.open('/dev/null', 1), full.fileno())
