"""A short run of kill_runs.py."""

import pytest
from kill_runs import Killer


@pytest.mark.slow
def test_signals_at_random_moments_lose_and_change_nothing(tmp_path):
    killer = Killer(tmp_path, seed=0)
    killer.trainings(signals=2, steps=12)
    killer.translations(signals=2, lines=400)
    # A busy machine may answer a signal late.
    assert not [report for report in killer.reports if not report.startswith('late')]
