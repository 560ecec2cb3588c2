"""What all commands share: flags, exit codes, stdout."""

import importlib
import io
import os
import subprocess
import sys

import pytest

from transformer_jax import average, command_line, evaluate, translate
from transformer_jax.config import Config
from transformer_jax.config.decode import SEARCH_FIELDS
from transformer_jax.decoding.ensembles import ENSEMBLES
from transformer_jax.errors import UserError
from transformer_jax.translating.mbr import METRICS


def test_a_failure_of_ours_keeps_its_trace(monkeypatch):
    monkeypatch.setattr('sys.argv', ['main'])
    with pytest.raises(ZeroDivisionError):
        command_line.run(lambda arguments: 1 / 0)


def test_ctrl_c_prints_a_message_and_exits_with_130(monkeypatch, capsys):
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
def test_flags_about_checkpoints_reach_load_trained(
    run_command, monkeypatch, tmp_path, module, more
):
    monkeypatch.chdir(tmp_path)
    asked = []

    def load(workdir, **given):
        asked.append((workdir, given['checkpoints'], given['average']))
        raise UserError('enough')

    monkeypatch.setattr('transformer_jax.inference.load.load_trained', load)
    flags = ['--workdir', 'run', '--checkpoints', '3', '--average', 'best', *more]
    assert run_command(module, *flags)[0] == 2
    assert asked == [('run', 3, 'best')]


@pytest.mark.parametrize(
    ('command', 'flags', 'refused'),
    [
        ('main', '--config=demo --workdir=-', 'workdir'),
        ('main', '--config=demo --config.data.corpus=files --config.data.train_source=-', 'data.'),
        ('translate', '--workdir=-', 'workdir'),
        ('translate', '--input=a.html --output=-', '--input'),
        ('score', '--source=- --reference=a', '--source'),
        ('score', '--source=a --reference=-', '--reference'),
        ('evaluate', '--source=- --reference=-', '--source and --reference'),
        ('evaluate', '--source=a --reference - -', '--source and --reference'),
        ('attention', '--target=- --output=a.html', '--target'),
        ('attention', '--input=- --output=-', '--output'),
        ('attention', '--json=-', '--json'),
        ('attention', '--png=-', '--png'),
        ('plot', '--output=-', '--output'),
        ('corpus', '--config=demo --output=-', '--output'),
        ('convert', '--to=release --output=-', '--output'),
        ('convert', '--from=- --workdir=b', '--from'),
        ('convert', '--from=a --workdir=-', '--workdir'),
        ('average', '--output=-', '--output'),
        ('paper', '--table=1 --measure --output=-', '--output'),
        ('benchmark', '--config=demo --json=-', '--json'),
        ('benchmark', '--config=demo --profile=-', '--profile'),
        ('serve', '--api_keys=-', '--api_keys'),
    ],
)
def test_a_dash_is_never_the_name_of_a_file(
    run_command, monkeypatch, tmp_path, command, flags, refused
):
    monkeypatch.chdir(tmp_path)
    for name in ('a', 'a.html'):
        (tmp_path / name).write_text('a\n')
    module = importlib.import_module(
        f'transformer_jax.{command}' + '.__main__' * (command in ('paper', 'benchmark'))
    )
    is_of_a_model = command not in ('main', 'corpus', 'paper', 'benchmark')
    given = ['--workdir=tatoeba_en_fr'] * (is_of_a_model and '--workdir' not in flags)
    code, out, err = run_command(module, *given, *flags.split())
    assert (code, out) == (2, '') and err.count('\n') == 1 and err.startswith(f'error: {refused}')
    assert sorted(os.listdir(tmp_path)) == ['a', 'a.html']


def test_stdout_is_utf_8_in_every_locale(monkeypatch):
    stdout = io.TextIOWrapper(io.BytesIO(), encoding='ascii')
    monkeypatch.setattr('sys.stdout', stdout)
    monkeypatch.setattr('sys.argv', ['main'])
    command_line.run(lambda arguments: print('±'))
    assert stdout.buffer.getvalue() == '±\n'.encode()


def printing_to(stdout, unbuffered=''):
    """Return exit code and stderr of a command that prints to the file `stdout`."""
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
def test_a_reader_that_closes_stdout_is_no_error(unbuffered):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, 'w') as stdout:
        assert printing_to(stdout, unbuffered) == (0, '')


def test_a_stdout_that_cannot_be_written_is_reported():
    with open('/dev/full', 'w') as full:
        assert printing_to(full) == (
            2,
            'error: stdout cannot be written (No space left on device): choose another place.\n',
        )


def test_user_errors_are_value_errors():
    with pytest.raises(ValueError, match='not a field'):
        Config.from_mapping({'modle': {}})
    assert issubclass(UserError, ValueError)


def test_a_result_that_cannot_be_written_gives_one_sentence(monkeypatch):
    with open('/dev/full', 'w', buffering=1) as full:  # each line is written at once
        monkeypatch.setattr('sys.stdout', full)
        with pytest.raises(UserError, match=r'stdout cannot be written \(No space left'):
            command_line.print_result('BLEU 30.0')
        monkeypatch.undo()
        full.reconfigure(write_through=False)
        command_line.os.dup2(command_line.os.open('/dev/null', 1), full.fileno())


def test_the_flags_of_the_search_are_the_fields_of_the_config():
    parser = command_line.Parser('translate', '')
    command_line.add_search_flags(parser)
    flags = {action.dest: action for action in parser._actions if action.dest != 'help'}
    assert tuple(flags) == SEARCH_FIELDS
    for action in flags.values():
        assert len(action.help) > 40  # the field's text in the docstring


def test_the_choices_of_flags_are_those_of_the_translator():
    parser = command_line.Parser('translate', '')
    command_line.add_model_flags(parser)
    command_line.add_output_flags(parser)
    choices = {action.dest: action.choices for action in parser._actions}
    assert (choices['ensemble'], choices['mbr']) == (ENSEMBLES, METRICS)
