"""The program `transformer-jax`, and the wheel that installs it."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from importlib.metadata import version
from pathlib import Path

import pytest

from transformer_jax import cli, command_line

REPOSITORY = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((REPOSITORY / 'pyproject.toml').read_text(encoding='utf-8'))


@pytest.fixture
def program(monkeypatch, capsys):
    """Run `transformer-jax` in this process; return its exit code, stdout and stderr."""

    def run(*arguments):
        monkeypatch.setattr('sys.argv', ['/venv/bin/transformer-jax', *arguments])
        code = 0
        try:
            cli.main()
        except SystemExit as exit_:
            code = exit_.code
        return code, *capsys.readouterr()

    return run


def test_help_lists_the_commands_and_they_exist(program):
    code, out, _ = program('--help')
    names = re.findall(r'^  (\w+) ', out, flags=re.MULTILINE)
    assert (code, names) == (0, list(cli._COMMANDS))
    for name in names:
        path = REPOSITORY / 'transformer_jax' / command_line.module_of(name)
        assert path.with_suffix('.py').exists() or (path / '__main__.py').exists()


def test_a_command_gets_its_arguments_and_runs_as_a_module(program, monkeypatch):
    ran = []

    def run_module(module, run_name):
        ran.append((module, run_name, sys.argv[1:]))

    monkeypatch.setattr('runpy.run_module', run_module)
    program('train', '--config=demo', '--workdir=x')
    program('translate', '--help')
    assert ran == [
        ('transformer_jax.main', '__main__', ['--config=demo', '--workdir=x']),
        ('transformer_jax.translate', '__main__', ['--help']),
    ]


@pytest.mark.parametrize(
    ('arguments', 'sentence'),
    [
        (['trian'], "error: command='trian' must be one of train, .*: did you mean 'train'\\?\n"),
        ([], r'error: there is no command: see transformer-jax --help\.\n'),
    ],
)
def test_a_mistake_gives_exit_code_2_and_one_sentence(program, arguments, sentence):
    code, out, err = program(*arguments)
    assert (code, out) == (2, '')
    assert re.fullmatch(sentence, err)


def test_the_parser_of_a_command_calls_it_as_the_user_did(monkeypatch):
    monkeypatch.setattr('sys.argv', ['/venv/bin/transformer-jax', '--help'])
    assert command_line.Parser('train', '').prog == 'transformer-jax train'
    monkeypatch.setattr('sys.argv', ['/x/main.py', '--help'])
    assert command_line.Parser('train', '').prog == 'python -m transformer_jax.main'
    assert command_line.Parser('average', '').prog == 'python -m transformer_jax.average'


def test_every_package_is_in_the_wheel():
    found = {
        '.'.join(path.parent.relative_to(REPOSITORY).parts)
        for path in (REPOSITORY / 'transformer_jax').rglob('__init__.py')
    }
    assert set(PYPROJECT['tool']['setuptools']['packages']) == {*found, 'transformer_jax.configs'}


def test_every_file_beside_the_code_is_in_the_wheel():
    package = REPOSITORY / 'transformer_jax'
    patterns = PYPROJECT['tool']['setuptools']['package-data']['transformer_jax']
    packed = {path for pattern in patterns for path in package.glob(pattern)}
    files = {path for path in package.rglob('*.*') if path.suffix not in ('.py', '.pyc')}
    pages = ('CHANGELOG.md', 'CONTRIBUTING.md', 'README.md')
    assert files - packed == {package / name for name in pages}


@pytest.fixture(scope='module')
def installed(tmp_path_factory, release):
    """The bin folder of a venv that holds the wheel and sees the libraries of this Python.

    The wheel has the packaged model 'mini'.
    """
    if int(version('setuptools').partition('.')[0]) < 77:
        pytest.skip('building the wheel needs setuptools 77 (extra test)')
    folder = tmp_path_factory.mktemp('installed')
    pip = [sys.executable, '-m', 'pip', '--disable-pip-version-check', '-q']
    wheel = ['wheel', '--no-deps', '--no-build-isolation', '--no-index', '-w', folder / 'wheel']
    source = folder / 'source'
    source.mkdir()
    for name in ('transformer_jax', 'configs', 'pyproject.toml', 'README.md', 'LICENSE'):
        subprocess.run(['cp', '-r', REPOSITORY / name, source], check=True)
    shutil.copytree(release, source / 'transformer_jax' / 'pretrained' / 'mini')
    subprocess.run([*pip, *wheel, source], check=True)
    venv.create(folder / 'venv', symlinks=True)
    python = folder / 'venv' / 'bin' / 'python'
    (file,) = (folder / 'wheel').glob('*.whl')
    target = ['--python', python, 'install', '--no-deps', '--no-index', file]
    subprocess.run([*pip, *target], check=True)
    (packages,) = (folder / 'venv').glob('lib/python*/site-packages')
    # Python does not process the .pth files there, which may add an editable checkout.
    (packages / 'libraries.pth').write_text(sysconfig.get_path('purelib'))
    return folder / 'venv' / 'bin'


@pytest.mark.slow
def test_the_wheel_runs_without_a_checkout(installed, tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}

    def output(*command):
        return subprocess.check_output(command, cwd=tmp_path, env=environment, text=True)

    assert 'usage: transformer-jax train' in output(installed / 'transformer-jax', 'train', '-h')
    code = 'import transformer_jax.config.loading as l; print(l.load_config("table3:big").model)'
    assert 'num_heads=16' in output(installed / 'python', '-c', code)
    code = 'import transformer_jax; print(transformer_jax.__file__)'
    assert output(installed / 'python', '-c', code).startswith(str(installed.parent))
    code = 'from transformer_jax.inference.load import load_trained as l; print(l("mini").steps)'
    assert output(installed / 'python', '-c', code) == '[800]\n'
