"""train.tune: XLA chooses kernels once, and every resume takes them."""

import dataclasses
import importlib.util
import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
from tiny_run import remembered, stop_at, tiny, two_buckets

from transformer_jax.errors import UserError
from transformer_jax.sharding import make_mesh
from transformer_jax.storage.workdir import Workdir
from transformer_jax.training import train, tuning
from transformer_jax.training.tuning import tuned_kernels

pytestmark = pytest.mark.usefixtures('programs_kept')
TESTS = Path(__file__).parents[1]
CONFIG = tiny(train={'tune': True})
BUCKETS = two_buckets().buckets


@pytest.fixture
def xla(monkeypatch):
    """A stand-in for XLA on a GPU, which counts what it tries and reads."""
    calls = types.SimpleNamespace(tried=0, used=[])

    def try_kernels(*_):
        calls.tried += 1

    on_gpu = types.SimpleNamespace(default_backend=lambda: 'gpu', __version__='1')
    monkeypatch.setattr(tuning, 'jax', on_gpu)
    monkeypatch.setattr(tuning, 'try_kernels', try_kernels)
    monkeypatch.setattr(tuning, 'chosen_kernels', lambda: f'results {{ {calls.tried} }}')
    monkeypatch.setattr(tuning, 'use_kernels', calls.used.append)
    return calls


def kernels(folder=None, config=CONFIG, buckets=BUCKETS):
    return tuned_kernels(config, 400, buckets, make_mesh(), None, folder)


def test_off_by_default():
    assert not tiny().train.tune
    assert kernels(config=tiny()) is None


def test_other_devices_than_gpus_say_that_it_has_no_effect(caplog):
    assert kernels() is None
    assert caplog.text.count('train.tune=True has no effect on a CPU') == 1


def test_a_killed_and_resumed_run_takes_the_kernels_that_it_began_with(
    uninterrupted, xla, tmp_path, monkeypatch
):
    with monkeypatch.context() as context, pytest.raises(KeyboardInterrupt):
        stop_at(context, 9)
        train(CONFIG, tmp_path)
    before = (tmp_path / 'kernels.json').read_bytes()
    train(CONFIG, tmp_path)
    assert (xla.tried, xla.used) == (1, ['results { 1 }'] * 2)
    assert (tmp_path / 'kernels.json').read_bytes() == before
    assert remembered(tmp_path) == remembered(uninterrupted)


def test_a_run_that_is_refused_keeps_no_kernels(xla, tmp_path, monkeypatch):
    monkeypatch.setattr('transformer_jax.training.checks.preflight.device_memory', lambda *_: 9)
    with pytest.raises(UserError, match='need'):
        train(CONFIG, tmp_path)
    assert xla.tried == 1
    assert not (tmp_path / 'kernels.json').exists()


def test_another_gpu_is_named_and_takes_xlas_first_kernels(xla, tmp_path, caplog):
    folder = Workdir(tmp_path)
    folder.write_kernels(kernels() | {'device': 'NVIDIA A100'})
    assert kernels(folder) is None
    assert 'is for a NVIDIA A100, and this GPU is a cpu: the training steps take' in caplog.text
    assert (xla.tried, len(xla.used)) == (1, 1)


def test_other_shapes_take_xlas_first_kernels(xla, tmp_path, caplog):
    folder = Workdir(tmp_path)
    folder.write_kernels(kernels())
    assert kernels(folder) == folder.read_kernels()
    remat = dataclasses.replace(CONFIG, model=dataclasses.replace(CONFIG.model, remat=True))
    assert kernels(folder, remat) is None
    assert kernels(folder, buckets=BUCKETS[:1]) is None
    assert caplog.text.count('another version of JAX, another mesh or other batch shapes') == 2


def test_process_0_tries_kernels_and_all_processes_take_its_choice(xla, monkeypatch):
    sent = []

    def broadcast(name, value):
        sent.append(value)
        return sent[0]

    monkeypatch.setattr(tuning.distributed, 'broadcast_from_first', broadcast)
    first = kernels()
    monkeypatch.setattr(tuning.processes, 'is_first', lambda: False)
    assert kernels() == first
    assert (xla.tried, xla.used) == (1, [first['results']] * 2)
    assert sent[1] == ''


def test_kernels_that_cannot_be_used_are_a_user_error(xla, tmp_path, monkeypatch):
    folder = Workdir(tmp_path)
    folder.write_kernels(kernels())

    def refuse(_):
        raise ValueError('Duplicate autotuning result')

    monkeypatch.setattr(tuning, 'use_kernels', refuse)
    with pytest.raises(UserError, match=r'cannot be used \(Duplicate .*: start the run in a new'):
        kernels(folder)


def test_without_any_kernel_the_run_is_refused(xla, monkeypatch):
    monkeypatch.setattr(tuning, 'chosen_kernels', lambda: 'version: 3')
    with pytest.raises(UserError, match='XLA has tried no kernels for this GPU'):
        kernels()


# The step for an H200, compiled without one: argument 1 is the file of kernels, or '' to try them.
STEP = """
import sys
import jax
import accelerator_programs
from tiny_run import tiny
from transformer_jax.data.batching.buckets import Bucket
from transformer_jax.sharding import make_mesh
from transformer_jax.training.compile import compile_steps, try_kernels

devices = accelerator_programs._devices('gpu', 1)
on_topology = jax.jit(lambda: 0, out_shardings=jax.sharding.SingleDeviceSharding(devices[0]))
jax.default_backend = lambda: 'gpu'
config = tiny(
    model={'d_model': 64, 'd_ff': 128, 'dtype': 'bfloat16', 'attention_implementation': 'xla'}
)
arguments = config, 400, (Bucket(64, 32, 32),), make_mesh(config.mesh, devices=devices)
if sys.argv[1]:
    on_topology.lower().compile({'xla_gpu_load_autotune_results_from': sys.argv[1]})
    (step,) = compile_steps(*arguments, kernels={'results': sys.argv[1]}).values()
    print(step.compiled.as_text())
else:
    try_kernels(*arguments)
"""


def compiled_for_a_gpu(kernels=''):
    """Return the output of `STEP`, and its log with the kernels that XLA looks for."""
    environment = {k: v for k, v in os.environ.items() if k != 'XLA_FLAGS'} | {
        'PYTHONPATH': f'{TESTS}:{TESTS.parent}',
        'TF_CPP_MIN_LOG_LEVEL': '0',
        'TF_CPP_VMODULE': 'autotuner_cache=3',
    }
    return subprocess.run(
        [sys.executable, '-c', STEP, kernels], env=environment, capture_output=True, text=True
    )


@pytest.mark.slow
def test_every_kernel_of_the_step_is_among_those_that_xla_tries(tmp_path):
    if not importlib.util.find_spec('jax_cuda13_plugin'):
        pytest.skip('JAX for GPUs is not installed (extra cuda)')
    log = compiled_for_a_gpu().stderr
    looked_for = re.findall(r"key = <key model='(.*?)', hlo='(.*?)', version=(\d+)>", log, re.S)
    assert looked_for, log
    triton = 'block_m: 32 block_n: 32 block_k: 32 num_stages: 1 num_warps: 4 num_ctas: 1'
    entries = '\n'.join(
        f'results {{ device: "{device}" hlo: {json.dumps(hlo)} version: {version} '
        f'result {{ {"gemm { }" if "custom-call" in hlo else f"triton {{ {triton} }}"} }} }}'
        for device, hlo, version in {*looked_for}
    )
    stored = tmp_path / 'kernels.txtpb'
    stored.write_text(f'version: 3\n{entries}\n')
    done = compiled_for_a_gpu(str(stored))
    assert done.returncode == 0, done.stderr[-2000:]
    assert '"output_tiles":[{"sizes":["32","32"]}]' in done.stdout
    # Kernels for another GPU are none for this one.
    stored.write_text(stored.read_text().replace('Cores: 132', 'Cores: 108'))
    done = compiled_for_a_gpu(str(stored))
    assert 'XLA has tried no kernel for a product of the training step' in done.stderr
