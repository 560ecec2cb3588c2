"""Kills a training with train.tune and resumes it: python tests/kill_once.py --json=FILE.

The first start chooses kernels and is killed by SIGKILL after a checkpoint. The run is resumed with
another, empty cache, which compiles its programs again from kernels.json. Another run with the same
kernels.json is trained without a stop. At the last step both must have the same bytes in their
checkpoints, and the same metrics before. Both are killed there, because evaluation and test scores
take kernels that XLA tries at each start. Arguments such as --config.model.d_ff=64 change the
config.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FIRST, LAST = 20, 60  # steps
# Kernels of the size of base, but few of them.
CONFIG = [
    '--config=configs/demo.py',
    '--config.model.d_model=512',
    '--config.model.d_ff=2048',
    '--config.model.num_heads=8',
    '--config.data.tokens_per_batch=8192',
    '--config.data.num_buckets=1',
    '--config.data.dev_size=8',
    '--config.data.test_size=8',
    f'--config.train.steps={LAST}',
    f'--config.train.checkpoint_every={FIRST}',
    f'--config.train.eval_every={LAST}',
    '--config.data.train_size=10000',
    '--config.train.log_every=15',
    '--config.train.tune=True',
]


def start(workdir: Path, cache: Path, settings: list[str]) -> subprocess.Popen:
    """Start the training of a run."""
    command = [sys.executable, '-m', 'transformer_jax.main', *CONFIG, *settings]
    environment = os.environ | {'TRANSFORMER_JAX_CACHE': str(cache)}
    return subprocess.Popen([*command, f'--workdir={workdir}'], env=environment)


def kill_after(step: int, training: subprocess.Popen, workdir: Path) -> None:
    """Send SIGKILL once the checkpoint of a step is complete."""
    while not (workdir / 'checkpoints' / str(step)).exists():
        if training.poll() is not None:
            sys.exit(f'the training ended with code {training.returncode} before step {step}.')
        time.sleep(0.01)
    training.kill()
    training.wait()


def main() -> None:
    """Print and write what differs; exit with 1 if anything does."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--json', type=Path, required=True, help='file for the result')
    flags, settings = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        killed, whole = folder / 'killed', folder / 'whole'
        kill_after(FIRST, start(killed, folder / 'cache', settings), killed)
        kill_after(LAST, start(killed, folder / 'empty_cache', settings), killed)
        whole.mkdir()
        kernels = killed / 'kernels.json'
        if kernels.exists():  # on CPUs there are none
            shutil.copy(kernels, whole)
        kill_after(LAST, start(whole, folder / 'cache', settings), whole)
        os.environ['JAX_PLATFORMS'] = 'cpu'  # only trainings need a GPU
        from tiny_run import remembered

        (step, state, records, _), (other_step, other_state, other_records, _) = map(
            remembered, (killed, whole)
        )
        result = {
            'step': step,
            'bytes': sum(map(len, state.values())),
            'bytes_of_kernels': kernels.stat().st_size if kernels.exists() else 0,
            'differing_arrays': [name for name in state if state[name] != other_state.get(name)],
            # Those of the last step may not have been written yet.
            'same_metrics': [r for r in records if r['step'] < LAST]
            == [r for r in other_records if r['step'] < LAST],
        }
    flags.json.write_text(json.dumps(result, indent=2) + '\n')
    same = step == other_step == LAST and not result['differing_arrays'] and result['same_metrics']
    print('killed and resumed:', 'the same bytes' if same else f'other bytes: {result}')
    sys.exit(not same)


if __name__ == '__main__':
    main()
