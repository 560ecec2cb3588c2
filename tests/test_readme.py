"""Every command and snippet of the README runs, on sizes that take seconds."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from transformer_jax.data import phrasebook

REPOSITORY = Path(__file__).parent.parent
README = (REPOSITORY / 'README.md').read_text(encoding='utf-8')
TINY = (
    '--config.model.num_layers=1 --config.model.d_model=16 --config.model.d_ff=16 '
    '--config.data.num_buckets=1 --config.data.dev_size=4 --config.data.test_size=4 '
    '--config.data.vocab_size=400 --config.data.tokens_per_batch=1024 '
    '--config.train.steps=2 --config.train.checkpoint_every=1 --config.train.eval_every=2'
)
# What makes a command of the README short; the command itself stays as it is.
SHORTER = {
    'bash launch/demo.sh': f'{TINY} --config.data.train_size=500',
    'bash launch/local_processes.sh': f'{TINY} --config.data.train_size=500',
    'bash launch/test.sh': '--version',
    'python -m transformer_jax.main': TINY,
    'python -m transformer_jax.benchmark': f'{TINY} --synthetic=200 --parts=input,compile',
}


def blocks(language):
    return re.findall(rf'^```{language}\n(.*?)^```', README, flags=re.MULTILINE | re.DOTALL)


COMMANDS = [line for block in blocks('bash') for line in block.splitlines()]


@pytest.fixture(scope='module')
def checkout(tmp_path_factory):
    """What the commands need of a checkout, with this Python as its virtual environment."""
    folder = tmp_path_factory.mktemp('checkout')
    for name in ('launch', 'configs'):
        shutil.copytree(REPOSITORY / name, folder / name)
    shutil.copy(REPOSITORY / 'pyproject.toml', folder)
    (folder / 'tests').mkdir()
    binaries = folder / 'venv' / 'bin'
    binaries.mkdir(parents=True)
    (binaries / 'python').write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (binaries / 'python').chmod(0o755)
    installed = subprocess.check_output(['cksum', 'pyproject.toml'], cwd=folder)
    for extras in ('', 'test,huggingface'):
        (folder / 'venv' / f'installed-{extras}').write_bytes(installed)
    pairs = phrasebook.generate(seed=1, train=300, dev=0, test=0)['train']
    (folder / 'my_corpus').mkdir()
    for name, side in (('my_corpus/train.en', 0), ('my_corpus/train.fr', 1)):
        (folder / name).write_text(''.join(p[side] + '\n' for p in pairs), encoding='utf-8')
    for name, side in (('in.txt', 0), ('reference.txt', 1)):
        (folder / name).write_text(''.join(p[side] + '\n' for p in pairs[:5]), encoding='utf-8')
    return folder


def run(checkout, command):
    return subprocess.run(
        ['bash', '-c', command],
        cwd=checkout,
        env=os.environ
        | {
            'PATH': f'{checkout / "venv" / "bin"}:{os.environ["PATH"]}',
            'PYTHONPATH': str(REPOSITORY),
            'PYTHON': sys.executable,
            'VENV': 'venv',
            'XLA_FLAGS': '--xla_backend_optimization_level=0',
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize('command', COMMANDS)
def test_command(checkout, command):
    shorter = next((end for start, end in SHORTER.items() if command.startswith(start)), '')
    done = run(checkout, f'{command} {shorter}')
    assert done.returncode == 0, done.stderr
    if 'translate' in command and '--output' not in command:
        assert len(done.stdout.splitlines()) == {True: 15, False: 1}['n_best' in command]


@pytest.mark.parametrize('snippet', blocks('python'), ids=lambda text: text.split('\n')[0])
def test_snippet(checkout, snippet, monkeypatch, capsys):
    monkeypatch.chdir(checkout)
    exec(compile(snippet, 'README.md', 'exec'), {})


def test_there_are_commands_and_snippets():
    assert len(COMMANDS) >= 9
    assert len(blocks('python')) == 2


def test_the_configs_table_names_all_configs():
    named = set(re.findall(r'^\| `(\w+\.py)', README, flags=re.MULTILINE))
    assert named == {path.name for path in (REPOSITORY / 'configs').glob('*.py')}
