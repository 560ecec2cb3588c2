"""The short version of kill_runs.py."""

from kill_runs import kill_runs


def test_kills_at_random_moments_lose_nothing_and_change_no_byte(tmp_path):
    counts = kill_runs(tmp_path, kills=2, steps=12)
    assert (counts.lost_checkpoints, counts.differing_runs) == (0, 0)
