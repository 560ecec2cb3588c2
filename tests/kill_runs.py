"""Kills and stops real commands at random moments: python tests/kill_runs.py.

Trainings get signals in every phase, half of them SIGKILL and half SIGTERM; `translate` and
`evaluate` get SIGTERM at any moment. After each signal every complete checkpoint must still be
readable, and after SIGTERM the command must have ended in time, with the right code and without a
trace. At the end each run must have the same bytes as a run that was never stopped, and each file
of translations the same lines. tests/test_kills.py runs a short version.
"""

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tiny_run import config_file, on_devices, remembered, tiny

from transformer_jax.checkpointing.manager import Checkpoints
from transformer_jax.config import TrainConfig
from transformer_jax.data.phrasebook import corpus as phrasebook

_POLL = 0.002  # seconds
_LATEST = 240.0  # seconds within which a command without a signal must end
_IN_TIME = 5.0  # seconds within which a command must end after SIGTERM
# For each phase, the log message at its beginning, and the seconds after it within which to signal.
_PHASES = {
    'start': ('', 4.0),
    'vocabulary': ('Training a vocabulary', 0.5),
    'tokenising': ('Tokenising', 0.5),
    'compiling': ('Compiling', 4.0),
    'training': ('Training: ', 2.0),  # includes dev evaluation, which takes most of the time
    'saving': (None, 0.05),
    'scoring': ('Scoring the test set', 0.5),
}
# What the cache must not have, because these phases would end at once.
_KEPT = {'vocabulary': 'vocabulary-*', 'tokenising': 'tokens-*', 'compiling': 'programs'}


class Killer:
    """Starts commands, ends them by signals, and counts signals and faults.

    Attributes:
      counts: number of signals by phase, and of faults: 'lost', 'differing', 'late', 'traces' and
        'codes'.
      reports: a line for each fault.
      slowest: for each phase, the most seconds from SIGTERM to the end of the command.
    """

    def __init__(self, folder: Path, seed: int):
        self.counts: Counter[str] = Counter()
        self.reports: list[str] = []
        self.slowest: dict[str, float] = {}
        self._folder, self._dice = folder, random.Random(seed)
        self._log = folder / 'log'

    def trainings(self, signals: int, steps: int) -> None:
        """Send `signals` signals to trainings; start each run again until it is finished."""
        # Evaluations and the phases before step 1 have to last long enough to be interrupted.
        data = {'train_size': 20_000, 'dev_size': 60}
        settings = tiny(data=data, train={'steps': steps})
        config = config_file(self._folder / 'config.py', settings)
        reference = self._folder / 'reference'
        assert self._start('main', config=config, workdir=reference).wait(_LATEST) == 0
        expected = remembered(reference)
        phases, sent, runs = [], 0, 0
        while sent < signals:
            workdir, ended = self._folder / f'run{runs}', False
            while not ended:
                phases = phases or self._dice.sample([*_PHASES], len(_PHASES))
                number = signal.SIGTERM if sent % 2 else signal.SIGKILL
                # After the last signal the run continues to its end.
                phase = phases.pop() if sent < signals else ''
                whole = _readable(workdir)
                if phase in _KEPT:
                    for path in (self._folder / 'cache').glob(_KEPT[phase]):
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
                process = self._start('main', config=config, workdir=workdir)
                if self._aim(process, phase, workdir):
                    self._send(process, number, phase)
                    sent += 1
                else:
                    ended = True
                    self._check_code(process.wait(_LATEST), (0,), phase)
                self._check_kept(whole, _readable(workdir), settings.train, phase)
            runs += 1
            if remembered(workdir) != expected:
                self._fault('differing', f'{workdir.name} ended with other bytes')

    def translations(self, signals: int, lines: int = 4000) -> None:
        """Send SIGTERM to `translate` of some lines and `evaluate` with a model of `trainings`."""
        workdir = self._folder / 'reference'
        texts, output = self._folder / 'texts', self._folder / 'out'
        pairs = phrasebook.generate(seed=1, train=lines, dev=0, test=0)['train']
        texts.write_text('\n'.join(source for source, _ in pairs), encoding='utf-8')
        arguments = {'workdir': workdir, 'input': texts, 'output': output}
        flags = {'translate': arguments, 'evaluate': {'workdir': workdir}}
        begin = time.monotonic()
        assert self._start('translate', **arguments).wait(_LATEST) == 0
        duration = time.monotonic() - begin
        expected = output.read_bytes()
        output.unlink()
        for sent in range(signals):
            name = ('translate', 'evaluate')[sent % 2]
            process = self._start(name, **flags[name])
            self._sleep(process, self._dice.uniform(0.0, duration))
            if process.poll() is None:
                self._send(process, signal.SIGTERM, name)
            else:
                self._check_code(process.returncode, (0,), name)
            if output.exists() or sent >= signals - 2:
                if not output.exists():
                    assert self._start('translate', **arguments).wait(_LATEST) == 0
                if output.read_bytes() != expected:
                    self._fault('differing', 'translate wrote other lines')
                output.unlink()

    def _start(self, module: str, **flags: Path) -> subprocess.Popen:
        command = [sys.executable, '-m', f'transformer_jax.{module}']
        command += [f'--{name}={value}' for name, value in flags.items()]
        environment = on_devices(1) | {'TRANSFORMER_JAX_CACHE': str(self._folder / 'cache')}
        with self._log.open('w') as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def _aim(self, process: subprocess.Popen, phase: str, workdir: Path) -> bool:
        """Wait for a random moment of a phase, if any; return whether the process still runs."""
        if not phase:
            return False
        mark, seconds = _PHASES[phase]
        deadline = time.monotonic() + _LATEST
        skipped = (
            self._dice.randrange(3) if phase == 'saving' else 0
        )  # saves before the one to interrupt
        before = False
        while process.poll() is None and time.monotonic() < deadline:
            if mark is not None:
                if mark in self._log.read_text(errors='replace'):
                    break
            else:
                now = _being_written(workdir)
                if now and not before:
                    if not skipped:
                        break
                    skipped -= 1
                before = now
            time.sleep(_POLL)
        self._sleep(process, self._dice.uniform(0.0, seconds))
        return process.poll() is None

    def _sleep(self, process: subprocess.Popen, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(_POLL)

    def _send(self, process: subprocess.Popen, number: signal.Signals, phase: str) -> None:
        process.send_signal(number)
        begin = time.monotonic()
        code = process.wait(_LATEST)
        seconds = time.monotonic() - begin
        self.counts[f'{number.name} {phase}'] += 1
        if number == signal.SIGTERM:
            self.slowest[phase] = max(seconds, self.slowest.get(phase, 0.0))
            if seconds > _IN_TIME:
                self._fault('late', f'{phase}: {seconds:.1f} s')
            # Before Python installs a handler, the system ends the process.
            early = not self._log.read_text(errors='replace')
            self._check_code(code, (75, 0, -number) if early else (75, 0), phase)

    def _check_code(self, code: int, expected: tuple[int, ...], phase: str) -> None:
        log = self._log.read_text(errors='replace')
        if 'Traceback' in log or 'Exception ignored' in log:
            self._fault('traces', f'{phase}: {log[-2000:]}')
        elif code not in expected:
            self._fault('codes', f'{phase}: exit code {code}: {log[-500:]}')

    def _check_kept(
        self, before: list[int], after: list[int], train: TrainConfig, phase: str
    ) -> None:
        for step in before:
            # A checkpoint may be deleted if enough newer ones exist; for a checkpoint off the
            # checkpoint interval, which a stop saved, one newer checkpoint is enough.
            enough = train.keep if step % train.checkpoint_every == 0 else 1
            if step not in after and sum(newer > step for newer in after) < enough:
                self._fault('lost', f'{phase}: the checkpoint of step {step}, of {before}; {after}')

    def _fault(self, kind: str, report: str) -> None:
        self.counts[kind] += 1
        self.reports.append(f'{kind}: {report}')


def _being_written(workdir: Path) -> bool:
    return any(not path.name.isdecimal() for path in (workdir / 'checkpoints').glob('*'))


def _readable(workdir: Path) -> list[int]:
    """Return the steps of all complete checkpoints, after checking their checksums."""
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
    """Print the counts; exit with 1 if anything was lost, late or different."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--signals', type=int, default=400, help='number of signals to trainings')
    parser.add_argument(
        '--translations', type=int, default=40, help='number of signals to translate and evaluate'
    )
    parser.add_argument('--steps', type=int, default=60, help='steps of each run')
    parser.add_argument('--seed', type=int, default=0)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        killer = Killer(Path(folder), flags.seed)
        killer.trainings(flags.signals, flags.steps)
        killer.translations(flags.translations)
    print('\n'.join(killer.reports))
    for name, value in sorted(killer.counts.items()):
        print(f'{name:24}{value}')
    print('\n'.join(f'slowest {phase:16}{x:.1f} s' for phase, x in killer.slowest.items()))
    print(f'{len(killer.reports)} faults')
    sys.exit(bool(killer.reports))


if __name__ == '__main__':
    main()
