"""Two processes of four devices are one process of eight."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from tiny_run import config_file, on_devices, remembered, tiny

from transformer_jax.checkpointing.manager import Checkpoints
from transformer_jax.errors import UserError
from transformer_jax.runtime import distributed, processes
from transformer_jax.runtime.signals import RESTART_EXIT_CODE
from transformer_jax.training import train
from transformer_jax.training.logs.metrics_writer import read_metrics

# Two processes share the gradient in another order than one.
TOLERANCE = 1e-4
ONE_SHAPE = {'num_buckets': 1}  # which every process compiles for itself

pytestmark = pytest.mark.usefixtures('programs_kept')


@pytest.fixture(scope='module')
def six_steps(tmp_path_factory):
    """Folder of a run of one process with eight devices, half as long as `uninterrupted`."""
    folder = tmp_path_factory.mktemp('six_steps')
    train(tiny(train={'steps': 6}), folder)
    return folder


def free_port():
    with socket.socket() as server:
        server.bind(('127.0.0.1', 0))
        return server.getsockname()[1]


def by_variables(index, port):
    return {
        'JAX_COORDINATOR_ADDRESS': f'127.0.0.1:{port}',
        'JAX_NUM_PROCESSES': '2',
        'JAX_PROCESS_ID': str(index),
    }


def by_slurm(index, port):
    return {
        'SLURM_JOB_ID': '4711',
        'SLURM_STEP_NODELIST': 'localhost',
        'SLURM_NTASKS': '2',
        'SLURM_PROCID': str(index),
        'SLURM_LOCALID': str(index),
        'JAX_COORDINATOR_PORT': str(port),
    }


@contextlib.contextmanager
def two_processes(workdir, config, variables=by_variables, bucket=None):
    """Starts `main` twice, four CPU devices each; none is left at the end.

    With a `BucketServer`, the run has the same name there, and only its output is beside `workdir`.
    """
    path = config_file(workdir.with_suffix('.py'), config)
    command = [sys.executable, '-m', 'transformer_jax.main', f'--config={path}']
    command += [f'--workdir={f"{bucket.url}/{workdir.name}" if bucket else workdir}']
    environment = (bucket.environment if bucket else {}) | on_devices(4)
    port = free_port()
    both = [
        subprocess.Popen(
            command,
            env=environment | variables(index, port),
            stdout=workdir.with_suffix(f'.out{index}').open('w'),
            stderr=workdir.with_suffix(f'.err{index}').open('w'),
        )
        for index in range(2)
    ]
    try:
        yield both
    finally:
        for process in both:
            process.kill()
            process.wait()


def wait(both, workdir, seconds=240):
    """The exit codes, once both have ended."""
    try:
        codes = [process.wait(seconds) for process in both]
    except subprocess.TimeoutExpired:
        pytest.fail(f'still running: {errors(workdir)}')
    return codes


def errors(workdir):
    return [workdir.with_suffix(f'.err{index}').read_text()[-2000:] for index in range(2)]


def wait_for_checkpoint(both, workdir, after):
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        steps = [int(p.name) for p in (workdir / 'checkpoints').glob('*') if p.name.isdecimal()]
        if max(steps, default=0) > after:
            return
        assert all(process.poll() is None for process in both), errors(workdir)
        time.sleep(0.05)
    pytest.fail(f'no checkpoint after step {after}: {errors(workdir)}')


def logged(workdir):
    return {
        (record['kind'], record['step']): record
        for record in read_metrics(workdir / 'metrics.jsonl')
    }


@pytest.mark.slow
def test_two_processes_resume_the_run_of_one_and_one_resumes_theirs(
    tmp_path, six_steps, uninterrupted
):
    workdir = shutil.copytree(six_steps, tmp_path / 'run')
    with two_processes(workdir, tiny(train={'steps': 9})) as both:
        assert wait(both, workdir) == [0, 0], errors(workdir)
    assert Checkpoints(workdir / 'checkpoints', read_only=True).steps()[-1] == 9
    train(tiny(), workdir)

    found, expected = logged(workdir), logged(uninterrupted)
    for key in (('train', 12), ('dev', 12)):
        assert found[key]['loss'] == pytest.approx(expected[key]['loss'], rel=TOLERANCE)
        assert found[key].get('target_tokens') == expected[key].get('target_tokens')
    for name, state in remembered(workdir)[1].items():
        theirs = remembered(uninterrupted)[1][name]
        if len(state) > 4:  # not counters, which are equal
            np.testing.assert_allclose(
                np.frombuffer(state, np.float32), np.frombuffer(theirs, np.float32), atol=1e-3
            )
    # The first process alone reports.
    assert 'test BLEU' in workdir.with_suffix('.out0').read_text()
    assert workdir.with_suffix('.out1').read_text().count('BLEU') == 0


@pytest.mark.slow
def test_two_processes_in_a_bucket_start_from_the_weights_of_another_run(tmp_path, six_steps):
    from bucket_server import bucket_server  # here, since it skips where no emulator is installed

    config = tiny(data=ONE_SHAPE, train={'steps': 3, 'init_from': str(six_steps)})
    train(config, tmp_path / 'one')
    workdir = tmp_path / 'two'
    with bucket_server() as server:
        with two_processes(workdir, config, bucket=server) as both:
            assert wait(both, workdir) == [0, 0], errors(workdir)
        workdir.mkdir()
        (workdir / 'metrics.jsonl').write_bytes(server.read('two/metrics.jsonl'))
    found, expected = logged(workdir), logged(tmp_path / 'one')
    for key in (('dev', 0), ('train', 3)):
        assert found[key]['loss'] == pytest.approx(expected[key]['loss'], rel=TOLERANCE)
    assert 'two/checkpoints/3/commit_success.txt' in server.names()
    assert 'two/lock' not in server.names()


@pytest.mark.slow
def test_the_death_of_one_process_ends_the_other_and_sigterm_to_one_stops_both(tmp_path):
    workdir = tmp_path / 'run'
    config = tiny(data=ONE_SHAPE, train={'steps': 100_000, 'eval_every': 99_999})
    with two_processes(workdir, config) as both:
        wait_for_checkpoint(both, workdir, after=0)
        both[1].kill()
        assert wait(both[:1], workdir, seconds=60)[0] not in (0, RESTART_EXIT_CODE)
    # The job is resumed, here as Slurm would start it.
    died = Checkpoints(workdir / 'checkpoints', read_only=True).steps()[-1]
    with two_processes(workdir, config, by_slurm) as both:
        wait_for_checkpoint(both, workdir, after=died)
        both[1].send_signal(signal.SIGTERM)
        assert wait(both, workdir) == [RESTART_EXIT_CODE] * 2, errors(workdir)
    assert 'Stopped by SIGTERM after step' in errors(workdir)[0]
    saved = Checkpoints(workdir / 'checkpoints', read_only=True).steps()[-1]
    assert train(tiny(data=ONE_SHAPE, train={'steps': saved + 1}), workdir)['step'] == saved + 1


@pytest.mark.slow
@pytest.mark.parametrize(('number', 'code'), [(signal.SIGTERM, 75), (signal.SIGINT, 75)])
def test_a_process_that_waits_for_the_others_can_be_stopped(tmp_path, number, code):
    command = [sys.executable, '-m', 'transformer_jax.main']
    command += [f'--config={config_file(tmp_path / "config.py", tiny())}', f'--workdir={tmp_path}']
    process = subprocess.Popen(
        command,
        env=on_devices(1) | by_variables(0, free_port()),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert any('joins the others' in line for line in process.stderr)
        time.sleep(1)  # until it waits
        process.send_signal(number)
        assert process.wait(20) == code
    finally:
        process.kill()


def test_without_variables_there_is_a_single_process():
    assert processes.joining({}) is None
    assert processes.joining({'SLURM_NTASKS': '8'}) is None  # no step: a batch script's shell
    assert processes.joining(by_variables(0, 1) | {'JAX_NUM_PROCESSES': '1'}) is None
    assert (processes.is_first(), processes.count()) == (True, 1)


def test_slurm_tpu_pods_and_variables_are_recognised():
    assert processes.joining(by_slurm(0, 1)) == {'cluster_detection_method': 'slurm'}
    assert processes.joining({'TRANSFORMER_JAX_PROCESSES': 'auto'}) == {}
    assert processes.joining(by_variables(1, 99)) == {
        'coordinator_address': '127.0.0.1:99',
        'num_processes': 2,
        'process_id': 1,
        'cluster_detection_method': 'deactivate',
    }


def test_no_process_waits_for_autotuning_that_another_finds_in_its_cache(monkeypatch):
    monkeypatch.setenv('XLA_FLAGS', '--mine=1')
    for name, value in by_variables(0, 1).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(jax.config, 'update', lambda *_: None)
    monkeypatch.setattr(jax.distributed, 'initialize', lambda **_: None)
    distributed.join(**processes.joining(os.environ))
    assert os.environ['XLA_FLAGS'] == '--mine=1 --xla_gpu_shard_autotuning=false'


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'JAX_PROCESS_ID': ''}, 'JAX_PROCESS_ID is not: set all'),
        ({'JAX_PROCESS_ID': '2'}, 'JAX_PROCESS_ID=2 must be below JAX_NUM_PROCESSES=2'),
        ({'JAX_COORDINATOR_ADDRESS': 'host'}, "ADDRESS='host' must be HOST:PORT"),
        ({'JAX_COORDINATOR_ADDRESS': 'host:99999'}, 'the port from 1 to 65535'),
        ({'JAX_NUM_PROCESSES': 'two'}, "JAX_NUM_PROCESSES='two' must be a whole number"),
    ],
)
def test_variables_that_contradict_each_other_are_refused(changes, message):
    with pytest.raises(UserError, match=message):
        processes.joining(by_variables(0, 1) | changes)


def test_an_unknown_value_of_the_processes_variable_is_refused():
    with pytest.raises(UserError, match="must be 'auto' or not set"):
        processes.joining({'TRANSFORMER_JAX_PROCESSES': 'yes'})
