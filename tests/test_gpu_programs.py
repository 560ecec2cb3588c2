"""What runs on GPUs, compiled for one by gpu_programs.py, where JAX for them is installed."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(
    importlib.util.find_spec('jax_cuda13_plugin') is None
    and importlib.util.find_spec('jax_cuda12_plugin') is None,
    reason="JAX for GPUs is not installed: pip install -e '.[cuda]'",
)
def test_xla_compiles_every_program_for_gpus():
    here = Path(__file__).parent
    small = ['model.num_layers=1', 'model.d_model=64', 'model.d_ff=128', 'data.vocab_size=800']
    done = subprocess.run(
        [sys.executable, here / 'gpu_programs.py', '--rows=16', '--length=16']
        + [f'--config.{field}' for field in small],
        cwd=here.parent,
        env={name: value for name, value in os.environ.items() if name != 'XLA_FLAGS'},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert [line[:48].rstrip() for line in done.stdout.splitlines()] == [
        'training step, attention of xla, mesh 1x1x1',
        'training step, attention of cudnn, mesh 1x1x1',
        'beam search, mesh 1x1x1',
        'sampling, mesh 1x1x1',
        'training step, attention of xla, mesh 8x1x1',
        'training step, attention of cudnn, mesh 8x1x1',
        'training step, attention of xla, mesh 2x2x2',
        'training step, attention of cudnn, mesh 2x2x2',
        'beam search, mesh 8x1x1',
        'sampling, mesh 8x1x1',
    ]
