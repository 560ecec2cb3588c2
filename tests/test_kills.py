"""Short runs of kill_runs.py and kill_once.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from kill_runs import Killer


@pytest.mark.slow
def test_signals_at_random_moments_lose_and_change_nothing(tmp_path):
    killer = Killer(tmp_path, seed=0)
    killer.trainings(signals=2, steps=12)
    killer.translations(signals=2, lines=400)
    # A busy machine may answer a signal late.
    assert not [report for report in killer.reports if not report.startswith('late')]


@pytest.mark.slow
def test_a_killed_run_with_train_tune_resumes_to_the_same_bytes(tmp_path):
    root = Path(__file__).parents[1]
    sizes = ('model.d_model=16', 'model.num_heads=2', 'model.d_ff=16', 'data.tokens_per_batch=512')
    done = subprocess.run(
        [
            *(sys.executable, root / 'tests' / 'kill_once.py', f'--json={tmp_path}/killed.json'),
            *(f'--config.{size}' for size in sizes),
        ],
        cwd=root,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.endswith('killed and resumed: the same bytes\n')
    result = json.loads((tmp_path / 'killed.json').read_text())
    assert (result['step'], result['differing_arrays']) == (60, [])
    assert result['bytes'] > 0
