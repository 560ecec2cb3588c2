"""Kills real runs at random moments and compares what they end with: python tests/kill_runs.py.

Half of the kills fall while a checkpoint is being written, half anywhere between the start of the
process and its end. After each, every checkpoint that was whole must still be; at the end, each run
must have the same bytes as one that was never stopped. tests/test_kills.py runs a short version.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tiny_run import config_file, on_devices, remembered, tiny

from transformer_jax.training.checkpoints import Checkpoints

_POLL = 0.002  # seconds
_LATEST = 240.0  # seconds until a run that is not killed must have ended


class Counts(NamedTuple):
    """What happened.

    Attributes:
      kills: processes ended by SIGKILL.
      while_saving: those of them with a checkpoint half written.
      runs: that were finished in spite of it.
      lost_checkpoints: whole before a kill, and gone or unreadable after it.
      differing_runs: with other bytes at the end than the run that was never stopped.
    """

    kills: int
    while_saving: int
    runs: int
    lost_checkpoints: int
    differing_runs: int


def kill_runs(folder: Path, kills: int, steps: int, seed: int = 0) -> Counts:
    """Kills `kills` processes; each run is resumed until it has ended."""
    dice = random.Random(seed)
    settings = tiny(train={'steps': steps})
    config = config_file(folder / 'config.py', settings)
    reference = folder / 'reference'
    begin = time.monotonic()
    assert _start(config, reference).wait(_LATEST) == 0
    duration = time.monotonic() - begin  # with compiling, which a restarted run finds in its cache
    expected = remembered(reference)

    done = while_saving = runs = lost = differing = 0
    while done < kills:
        workdir = folder / f'run{runs}'
        ended = False
        while not ended:
            whole = _readable(workdir)
            process = _start(config, workdir)
            if done < kills:
                aim = _aim_at_a_save if dice.random() < 0.5 else _aim_anywhere
                ended = aim(process, workdir, dice, duration)
                if not ended:
                    saving = _being_written(workdir)
                    process.kill()
                    done, while_saving = done + 1, while_saving + saving
            else:
                assert process.wait(_LATEST) == 0
                ended = True
            process.wait()
            found = _readable(workdir)
            lost += sum(
                # One may go only when enough newer ones are there.
                step not in found and sum(newer > step for newer in found) < settings.train.keep
                for step in whole
            )
        runs += 1
        differing += remembered(workdir) != expected
    return Counts(done, while_saving, runs, lost, differing)


def _start(config: Path, workdir: Path) -> subprocess.Popen:
    command = [sys.executable, '-m', 'transformer_jax.main']
    command += [f'--config={config}', f'--workdir={workdir}']
    log = workdir.with_suffix('.log').open('a')
    return subprocess.Popen(command, stdout=log, stderr=log, env=on_devices(1))


def _being_written(workdir: Path) -> bool:
    return any(not path.name.isdecimal() for path in (workdir / 'checkpoints').glob('*'))


def _aim_at_a_save(process, workdir, dice, duration) -> bool:
    """Waits for a save to be under way; whether the process ended before."""
    skipped = dice.randrange(3)  # saves to let pass
    before = False
    deadline = time.monotonic() + duration
    while process.poll() is None and time.monotonic() < deadline:
        now = _being_written(workdir)
        if now and not before:
            if not skipped:
                time.sleep(dice.uniform(0.0, 0.05))
                return process.poll() is not None
            skipped -= 1
        before = now
        time.sleep(_POLL)
    return process.poll() is not None


def _aim_anywhere(process, workdir, dice, duration) -> bool:
    """Waits for some time; whether the process ended before."""
    del workdir
    deadline = time.monotonic() + dice.uniform(0.0, 0.8 * duration)
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(_POLL)
    return process.poll() is not None


def _readable(workdir: Path) -> list[int]:
    """The steps of all checkpoints that are whole: read, and held against their checksums."""
    directory = workdir / 'checkpoints'
    if not directory.is_dir():
        return []
    checkpoints = Checkpoints(directory, read_only=True)
    steps = checkpoints.steps()
    for step in steps:
        checkpoints.restore_arrays(step)
    checkpoints.close()
    return steps


def main() -> None:
    """Prints the counts; exit code 1 where anything was lost or differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--kills', type=int, default=50)
    parser.add_argument('--steps', type=int, default=60, help='of each run')
    parser.add_argument('--seed', type=int, default=0)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts = kill_runs(Path(folder), flags.kills, flags.steps, flags.seed)
    for name, value in counts._asdict().items():
        print(f'{name:18}{value}')
    sys.exit(bool(counts.lost_checkpoints or counts.differing_runs))


if __name__ == '__main__':
    main()
