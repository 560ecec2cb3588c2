"""accelerator_programs.py compiles every program, if JAX for the accelerator is installed."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SMALL = ['model.num_layers=1', 'model.d_model=64', 'model.d_ff=128', 'data.vocab_size=800']
NEEDED = {'gpu': ('jax_cuda13_plugin', 'jax_cuda12_plugin'), 'tpu': ('libtpu',)}


@pytest.mark.parametrize(
    'accelerator, kinds_of_attention', [('gpu', ['xla', 'cudnn']), ('tpu', ['xla'])]
)
def test_xla_compiles_every_program(accelerator, kinds_of_attention):
    if not any(importlib.util.find_spec(name) for name in NEEDED[accelerator]):
        pytest.skip(f'JAX for a {accelerator.upper()} is not installed (extras cuda and tpu)')
    sizes = ['--rows=16', '--length=16', *(f'--config.{field}' for field in SMALL)]
    done = subprocess.run(
        [sys.executable, HERE / 'accelerator_programs.py', accelerator, '--traffic', *sizes],
        cwd=HERE.parent,
        env={name: value for name, value in os.environ.items() if name != 'XLA_FLAGS'},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr

    def programs(devices, meshes):
        steps = [
            f'training step, attention of {attention}, mesh {mesh}'
            for mesh in meshes
            for attention in kinds_of_attention
        ]
        return [*steps, f'beam search, mesh {devices}x1x1', f'sampling, mesh {devices}x1x1']

    lines = done.stdout.splitlines()
    names = [*programs(1, ['1x1x1']), *programs(8, ['8x1x1', '2x2x2'])]
    assert [line[:48].rstrip() for line in lines if line[:1] != ' '] == names
    traffic = 'in all' if accelerator == 'gpu' else 'by XLA'
    assert sum(traffic in line for line in lines) >= len(names)
