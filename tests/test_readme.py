"""The commands and snippets of the READMEs run, on sizes that take seconds; links lead to files."""

import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from transformer_jax.benchmark import report
from transformer_jax.config.loading import load_config
from transformer_jax.data.phrasebook import corpus as phrasebook
from transformer_jax.model import parameter_count

REPOSITORY = Path(__file__).parent.parent
PATHS = [
    'README.md',
    'launch/README.md',
    'launch/train.md',
    'launch/translate.md',
    'launch/look.md',
    'launch/convert.md',
    'launch/clusters.md',
    'launch/serve.md',
    'launch/trust.md',
    'launch/modules.md',
    'configs/README.md',
    'configs/lab_notes.md',
    'transformer_jax/README.md',
    'transformer_jax/CONTRIBUTING.md',
    'transformer_jax/CHANGELOG.md',
    'tests/peers/README.md',
]
READMES = {path: (REPOSITORY / path).read_text(encoding='utf-8') for path in PATHS}
TINY = (
    '--config.model.num_layers=1 --config.model.d_model=16 --config.model.d_ff=16 '
    '--config.model.num_heads=2 --config.data.num_buckets=1 --config.data.dev_size=4 '
    '--config.data.test_size=4 --config.data.max_length=64 --config.data.vocab_size=400 '
    '--config.data.tokens_per_batch=1024 --config.train.steps=2 '
    '--config.train.checkpoint_every=1 --config.train.eval_every=2 '
    # With one beam for all, one program decodes the dev set and the test set.
    '--config.train.eval_beam_size=5 --config.decode.beam_size=5'
)
PHRASEBOOK = (
    '--config.data.corpus=phrasebook --config.data.target_language=fr --config.data.train_size=500'
)
# Flags that make a command short. The first entry that a command begins with counts.
SHORTER = {
    'bash launch/demo.sh': f'{TINY} --config.data.train_size=500',
    'bash launch/local.sh': f'{TINY} {PHRASEBOOK}',
    'bash launch/local_processes.sh': f'{TINY} --config.data.train_size=500',
    'bash launch/test.sh': '--version',
    'python -m transformer_jax.main --config=configs/base.py': f'{TINY} {PHRASEBOOK}',
    'python -m transformer_jax.main --config=configs/parsing_small.py': (
        f'{TINY} --config.optimizer.warmup_steps=1'
    ),
    'python -m transformer_jax.main': TINY,
    'python -m transformer_jax.corpus --config=configs/my_corpus.py --prepare': TINY,
    'python -m transformer_jax.benchmark --config=configs/base.py': f'{TINY} {PHRASEBOOK}',
    'python -m transformer_jax.benchmark': f'{TINY} --synthetic=200 --parts=input,compile',
}
# Trainings of a kind that another command trains. Their config and model are made, no more.
NOT_TRAINED = (
    'python -m transformer_jax.main --config=configs/multi30k_tok',
    'python -m transformer_jax.main --config=configs/multi30k.py:FOLDER --config.train.steps=3000',
    'python -m transformer_jax.main --config=configs/tatoeba.py',
)
# Commands that need what a test does not have. Other tests try what can be tried of them.
NOT_RUN = {
    'python3 -m venv .venv': 'pip, which follows, needs the network',
    'source .venv/bin/activate': 'pip, which follows, needs the network',
    'pip install': 'needs the network',
    'bash .ci/run': 'needs the network',
    'python -m transformer_jax.convert --from': 'needs the network; see tests/conversion/',
    'EXTRAS=cuda bash launch/benchmark.sh': 'needs a GPU; see tests/launch/test_launch.py',
    'python tests/accelerator_programs.py': 'needs JAX for GPUs; see test_accelerator_programs.py',
    'python tests/peers/speed': 'needs the extra peers, gigabytes from the network',
    'python tests/kill_runs.py': 'takes hours; see tests/test_kills.py',
    'python tests/fuzz.py': 'takes hours; see tests/test_fuzz.py',
    'sbatch': 'needs Slurm; see tests/launch/test_launch.py',
    'kubectl': 'needs a cluster; see tests/launch/test_launch.py',
    'python -m transformer_jax.main --config=FILE --workdir=gs:': (
        'needs a bucket; see tests/training/test_bucket_run.py'
    ),
    'python -m transformer_jax.serve': 'runs until it is stopped; see tests/test_serve.py',
    'bash launch/tpu_pod.sh': 'needs TPUs; see tests/launch/test_launch.py',
    'curl': 'needs a running server; see tests/test_serve.py',
    'docker': 'needs Docker and the network',
    'bash launch/notebook.sh': 'Jupyter needs a browser; see tests/launch/test_launch.py',
    'sed -i': 'changes the notebooks',
}


def blocks(language):
    """The blocks of a language in all READMEs, in order."""
    pattern = rf'^```{language}\n(.*?)^```'
    return [
        block
        for text in READMES.values()
        for block in re.findall(pattern, text, flags=re.MULTILINE | re.DOTALL)
    ]


def entry(table, command):
    """The value of the first key that the command begins with, or None."""
    return next((value for start, value in table.items() if command.startswith(start)), None)


COMMANDS = list(
    dict.fromkeys(
        line for block in blocks('bash') for line in block.replace('\\\n', ' ').splitlines()
    )
)
MODULE = re.compile(
    r'(?:(?:echo|printf) (?P<stdin>".*"|\'.*\') \| )?(?P<settings>[A-Z_]+=\S+ )?'
    r'python -m transformer_jax\.'
)
RUN = [c for c in COMMANDS if entry(NOT_RUN, c) is None]
IN_PROCESS = [c for c in RUN if MODULE.match(c) or c.startswith(('cp ', 'mkdir '))]
STARTED = [c for c in RUN if c not in IN_PROCESS]


def make_checkout(folder):
    """Copy what the commands need of a checkout, with this Python as its virtual environment."""
    for name in ('launch', 'configs', 'tests'):
        ignored = shutil.ignore_patterns('__pycache__')
        shutil.copytree(REPOSITORY / name, folder / name, ignore=ignored)
    shutil.copy(REPOSITORY / 'pyproject.toml', folder)
    binaries = folder / 'venv' / 'bin'
    binaries.mkdir(parents=True)
    (binaries / 'python').write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (binaries / 'python').chmod(0o755)
    installed = subprocess.check_output(['cksum', 'pyproject.toml'], cwd=folder)
    for extras in ('', 'test,huggingface'):
        (folder / 'venv' / f'installed-{extras}').write_bytes(installed)
    return folder


def write_pairs(stem, pairs, languages=('en', 'fr')):
    stem.parent.mkdir(parents=True, exist_ok=True)
    for side, language in enumerate(languages):
        text = ''.join(pair[side] + '\n' for pair in pairs)
        stem.with_name(f'{stem.name}.{language}').write_text(text, encoding='utf-8')


def write_trees(path, pairs):
    words = [english[:-1].split() for english, _ in pairs]
    trees = [
        f'(S (NP (X {first})) (VP {" ".join(f"(X {w})" for w in rest)}))' for first, *rest in words
    ]
    path.write_text('\n'.join(trees))


@pytest.fixture(scope='module')
def checkout(tmp_path_factory, workdir):
    """A checkout with the trained run runs/demo and all the text files that the READMEs name."""
    folder = make_checkout(tmp_path_factory.mktemp('checkout'))
    for name in ('demo', 'seed1', 'seed2', 'multi30k_1', 'multi30k_2'):
        run = shutil.copytree(workdir, folder / 'runs' / name)
        settings = json.loads((run / 'config.json').read_text())
        settings['config']['decode']['beam_size'] = 5  # of which --n_best=5 asks for all
        (run / 'config.json').write_text(json.dumps(settings))
    pairs = phrasebook.generate(seed=1, train=300, dev=0, test=0)['train']
    write_pairs(folder / 'my_corpus' / 'train', pairs)
    for corpus in ('multi30k', 'multi30k_tok'):
        for split, part in (('train', pairs), ('val', pairs[:4]), ('test_2016_flickr', pairs[4:8])):
            write_pairs(folder / 'FOLDER' / corpus / split, part, ('en', 'de'))
    for split, part in (('train', pairs), ('dev', pairs[:4]), ('test', pairs[4:8])):
        write_pairs(folder / 'FOLDER' / 'tatoeba_en-fr' / split, part)
    for split, part in (('train', pairs), ('dev', pairs[:4]), ('test', pairs[4:8])):
        write_trees(folder / 'FOLDER' / f'{split}.mrg', part)
    write_pairs(folder / 'in', pairs[:5], ('txt', 'reference'))
    (folder / 'in.reference').rename(folder / 'reference.txt')
    table = [f'{source}\t{target}\n' for source, target in pairs[:5]]
    (folder / 'pairs.tsv').write_text(''.join(table), encoding='utf-8')
    return folder


@pytest.mark.parametrize('command', IN_PROCESS)
@pytest.mark.usefixtures('programs_kept')
def test_command_succeeds(checkout, run_command, monkeypatch, command):
    monkeypatch.chdir(checkout)
    monkeypatch.setattr(report, '_SECONDS', 0.05)
    if not MODULE.match(command):
        subprocess.run(shlex.split(command), check=True)
        return
    stdin = MODULE.match(command)['stdin'] or ''
    name, *arguments = shlex.split(command[command.index('transformer_jax.') :])
    if command.startswith(NOT_TRAINED):
        config_flag, *overrides = (x for x in arguments if not x.startswith('--workdir='))
        config = load_config(config_flag.removeprefix('--config='), overrides)
        assert parameter_count(config.model, config.data.vocab_size) > 5e6
        return
    arguments += shlex.split(entry(SHORTER, command[command.index('python') :]) or '')
    if name in ('transformer_jax.benchmark', 'transformer_jax.paper'):
        name += '.__main__'
    stdin = ''.join(f'{line}\n' for line in shlex.split(stdin)).replace(r'\t', '\t')
    code, out, err = run_command(importlib.import_module(name), *arguments, stdin=stdin.encode())
    assert code == 0, err
    if '.translate ' in command and '--output' not in command:
        lines = 5 if '--input' in command else 1
        # Not splitlines: a barely trained model puts out vertical tabs, too.
        assert out.count('\n') == lines * (3 if '--n_best=3 ' in command else 1)


@pytest.mark.slow
@pytest.mark.parametrize('command', STARTED)
def test_script_succeeds(tmp_path, command):
    checkout = make_checkout(tmp_path)
    settings = {
        'PATH': f'{checkout / "venv" / "bin"}:{os.environ["PATH"]}',
        'PYTHONPATH': str(REPOSITORY),
        'PYTHON': sys.executable,
        'VENV': 'venv',
    }
    done = subprocess.run(
        ['bash', '-c', f'{command} {entry(SHORTER, command) or ""}'],
        cwd=checkout,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize('command', [c for c in COMMANDS if entry(NOT_RUN, c) is not None])
def test_command_that_is_not_run(command):
    pytest.skip(entry(NOT_RUN, command))


@pytest.mark.parametrize('snippet', blocks('python'), ids=range(len(blocks('python'))))
def test_snippet_runs(checkout, snippet, monkeypatch, capsys):
    monkeypatch.chdir(checkout)
    exec(compile(snippet, 'README.md', 'exec'), {})


def test_there_are_commands_and_snippets():
    assert len(IN_PROCESS) >= 12
    assert len(STARTED) >= 5
    assert len(blocks('python')) == 11


@pytest.mark.parametrize('path', PATHS)
def test_every_link_leads_to_a_file_and_its_heading(path):
    for target in re.findall(r'\]\((?!https?:)([^)\s]+)\)', READMES[path]):
        name, _, heading = target.partition('#')
        file = (REPOSITORY / path).parent / name if name else REPOSITORY / path
        assert file.exists(), target
        if heading:
            titles = re.findall(r'^#+ (.*)$', file.read_text(encoding='utf-8'), flags=re.MULTILINE)
            assert heading in {re.sub(r'[^\w\- ]', '', t.lower()).replace(' ', '-') for t in titles}


@pytest.mark.parametrize('path', PATHS)
def test_every_config_and_script_that_is_named_exists(path):
    made = set(re.findall(r'^cp \S+ (\S+)$', READMES[path], flags=re.MULTILINE))
    names = re.findall(r'(?:configs|launch|tests)/[\w/]+\.(?:py|sh|sbatch|yaml)\b', READMES[path])
    assert [name for name in names if name not in made and not (REPOSITORY / name).exists()] == []


def test_every_promise_has_a_number_and_tests():
    text = READMES['transformer_jax/README.md']
    rows = re.findall(r'^\| (\d+) \| \*\*.*?\| (.*) \|$', text, flags=re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 13))
    assert all(re.search(r'\]\(\.\./tests/.*\.py\)', tests) for _, tests in rows)


def test_the_table_of_configs_names_all_configs():
    named = set(re.findall(r'^\| `(\w+\.py)', READMES['configs/README.md'], flags=re.MULTILINE))
    assert named == {path.name for path in (REPOSITORY / 'configs').glob('*.py')}
