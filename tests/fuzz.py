"""Tries mistakes and damage on every command: python tests/fuzz.py [--cases=2000] [--seed=0].

A case is one command on a tiny trained run, with a mistake in its flags or damage in its files; see
fuzz_cases.py. It must succeed, or fail with one line that says what is wrong. Case N depends only
on the seed and N: --seed=S --case=N runs it again. tests/test_fuzz.py runs a short version.
"""

import argparse
import contextlib
import faulthandler
import io
import multiprocessing
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from fuzz_cases import KINDS, Case, command_module, make_good_files

_LIMIT = 30.0  # seconds until a case counts as hung, on a machine with nothing else to do
_MEMORY = 2 * 2**30  # bytes; a case that needs more counts as hung
_LONGEST = 1000  # characters of a message
_OUTCOMES = ('answers', 'unclear', 'traces', 'hangs')


class Outcome(NamedTuple):
    """The outcome of a case.

    Attributes:
      kind: one of `_OUTCOMES`; 'unclear' is a message that is no plain line or names no value.
      said: the message, or the last line of the exception.
      where: where the exception was raised.
      trace: the whole trace.
    """

    kind: str = 'answers'
    said: str = ''
    where: str = ''
    trace: str = ''


class Result(NamedTuple):
    """The number of a case, the case, and its outcome."""

    number: int
    case: Case
    outcome: Outcome

    @property
    def failed(self) -> bool:
        """Whether the case ended in a trace or hung."""
        return self.outcome.kind in ('traces', 'hangs')


def kind_of(number: int) -> str:
    """Return the kind of a case; the kinds alternate."""
    return list(KINDS)[number % len(KINDS)]


def fuzz(folder: Path, numbers: Iterable[int], seed: int = 0, workers: int = 2) -> list[Result]:
    """Run the cases with these numbers in other processes."""
    free = [_Worker(folder, seed) for _ in range(workers)]

    def run(number: int) -> Result:
        worker = free.pop()
        try:
            return worker(number)
        finally:
            free.append(worker)

    first, *rest = numbers
    with ThreadPoolExecutor(workers) as pool:
        return [
            run(first),
            *pool.map(run, rest),
        ]  # the first case makes the files that all others copy


class _Worker:
    """A process that runs cases in sequence; it is replaced if it hangs or dies."""

    def __init__(self, folder: Path, seed: int):
        self._folder, self._seed, self._process = folder, seed, None

    def __call__(self, number: int) -> Result:
        """Run a case."""
        if self._process is None:
            self._start()
        case, begin = None, time.monotonic()
        try:
            self._connection.send(number)
            case = self._connection.recv()
            while not self._connection.poll(0.2):
                large = _memory_of(self._process.pid) > _MEMORY
                limit = _LIMIT * max(1.0, os.getloadavg()[0] / os.cpu_count())
                if large or time.monotonic() - begin > limit:
                    os.kill(self._process.pid, signal.SIGABRT)  # faulthandler then writes the trace
                    said = 'it takes too much memory' if large else 'it takes too long'
                    return Result(number, case, self._lost('hangs', said))
            return Result(number, case, self._connection.recv())
        except (EOFError, ConnectionError):
            outcome = self._lost('traces', 'the process died')
            assert case is not None, outcome.trace  # the case itself could not be made
            return Result(number, case, outcome)

    def _start(self) -> None:
        context = multiprocessing.get_context('spawn')
        self._connection, other = context.Pipe()
        arguments = (other, self._folder, self._seed)
        self._process = context.Process(target=_work, args=arguments, daemon=True)
        self._process.start()
        other.close()
        self._connection.recv()  # sent when it is ready

    def _lost(self, kind: str, said: str) -> Outcome:
        process, self._process = self._process, None
        process.join()
        log = (self._folder / f'{process.pid}.log').read_text(errors='replace')
        trace = log[max(0, log.rfind('Fatal Python error')) :]
        main_thread = trace[trace.rfind('hread 0x') :]
        place = re.search(r'/(transformer_jax/.*)", line (\d+) in (\w+)', main_thread)
        where = '{}:{} in {}'.format(*place.groups()) if place else ''
        return Outcome(kind, f'{said} (exit code {process.exitcode})', where, trace[-8000:])


def _memory_of(process: int) -> int:
    try:
        pages = int(Path(f'/proc/{process}/statm').read_text(encoding='ascii').split()[1])
    except OSError:
        return 0
    return pages * os.sysconf('SC_PAGE_SIZE')


def _work(connection: Connection, folder: Path, seed: int) -> None:
    """Receive numbers; send the case and the outcome of each."""
    good, place = folder / 'good', folder / f'case-{os.getpid()}'
    for name in ('HOME', 'XDG_CACHE_HOME', 'HF_HOME', 'TFDS_DATA_DIR'):
        os.environ[name] = str(place)
    for name in ('TRANSFORMER_JAX_CACHE', 'TMPDIR'):
        os.environ[name] = str(folder / 'cache')
    os.environ |= {'HF_HUB_OFFLINE': '1', 'JAX_PLATFORMS': 'cpu'}
    os.environ['XLA_FLAGS'] = '--xla_backend_optimization_level=0'  # as conftest.py says
    if version('jaxlib').startswith('0.10.'):
        os.environ['XLA_FLAGS'] += ' --xla_cpu_use_fusion_emitters=false'
    log = (folder / f'{os.getpid()}.log').open('w')
    os.dup2(log.fileno(), 2)  # what libraries print
    faulthandler.enable(log)
    import jax

    from transformer_jax.benchmark import report as benchmark
    from transformer_jax.data.corpora import tfds
    from transformer_jax.runtime import program_cache

    # The commands of this process share a cache of programs, as if each had opened its own.
    jax.config.update('jax_enable_compilation_cache', False)
    program_cache._current = program_cache.ProgramCache(folder / 'cache/programs', 'fuzz')
    program_cache.use = lambda cache: contextlib.nullcontext()
    tfds._prepare = _refuse_download
    benchmark._SECONDS, benchmark._ROWS, benchmark._BEAMS = 0.01, (1,), (1,)
    benchmark.measure.start = lambda flags: 0.0
    if not good.exists():
        (folder / 'cache').mkdir()
        good.mkdir()
        os.chdir(good)
        make_good_files(_succeed)
    connection.send(None)
    while True:
        number = connection.recv()
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(good, place, symlinks=True)
        os.chdir(place)
        os.mkfifo('fifo')
        case = KINDS[kind_of(number)](random.Random(f'{seed}-{number}'))
        connection.send(case)
        connection.send(_outcome(case))
        os.chdir(folder)


def _refuse_download(*args: object) -> None:
    from transformer_jax.errors import UserError

    raise UserError('nothing is downloaded here.')


def _succeed(case: Case) -> None:
    outcome = _outcome(case)
    assert not outcome.said, outcome


def _outcome(case: Case) -> Outcome:
    """Run a command as `transformer_jax.command_line.run` does."""
    from transformer_jax.errors import UserError
    from transformer_jax.runtime.signals import Stopped

    Path('stdin').write_bytes(case.stdin)
    stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.FileIO('stdin'))
    stdout = io.TextIOWrapper(io.BytesIO(), encoding='utf-8')
    try:
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(io.StringIO()):
            command_module(case.command).main(case.arguments)
    except UserError as error:
        said = str(error)
        clear = said.isprintable() and len(said) <= _LONGEST and re.search("['=.-]", said)
        return Outcome('answers' if clear else 'unclear', said, *_place(error))
    except Stopped:
        pass
    except BaseException as error:
        if not isinstance(error, SystemExit) or error.code not in (0, None, 2, 75):
            said = traceback.format_exception_only(error)[-1].strip()
            return Outcome('traces', said, *_place(error))
    finally:
        sys.stdin.close()
        sys.stdin = stdin
    return Outcome()


def _place(error: BaseException) -> tuple[str, str]:
    """Return where an error was raised and which of our lines led there, and the whole trace."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if '/transformer_jax/' in frame.filename]
    places = [
        f'{re.sub(".*/(?=transformer_jax/)|.*/site-packages/|.*/lib/", "", x.filename)}:{x.lineno} '
        f'in {x.name}'
        for x in (*frames[-1:], *ours[-1:])
    ]
    return ', for '.join(dict.fromkeys(places)), ''.join(traceback.format_exception(error))


def report(result: Result, seed: int = 0) -> str:
    """Return a result as text, with the command that repeats it."""
    number, case, outcome = result
    # The message may quote half a character, or characters that control terminals.
    said = ''.join(x if x.isprintable() else ascii(x)[1:-1] for x in outcome.said[:300])
    lines = [
        f'{outcome.kind}: {said}',
        f'  where   {outcome.where}',
        f'  again   python tests/fuzz.py --seed={seed} --case={number} ({kind_of(number)})',
        f'  command {case.command} {" ".join(repr(x)[:200] for x in case.arguments)}',
        *(f'  damage  {damage[:300]}' for damage in case.damage),
    ]
    lines += [f'  stdin   {case.stdin[:300]!r}'] if case.command == 'translate' else []
    return '\n'.join(lines) + '\n'


def main() -> None:
    """Print the failures and the counts; exit with 1 if a case ended in a trace or hung."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--cases', type=int, default=2000)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--only', choices=list(KINDS), help='kind of the cases')
    parser.add_argument('--case', type=int, help='number of the only case; prints its whole trace')
    options = parser.parse_args()
    numbers = range(options.cases)
    if options.only:
        numbers = [n for n in range(options.cases * len(KINDS)) if kind_of(n) == options.only]
    if options.case is not None:
        numbers = [options.case]
    with tempfile.TemporaryDirectory() as folder:
        results = fuzz(Path(folder), numbers, options.seed)
    for result in results:
        if result.outcome.kind != 'answers' or options.case is not None:
            print(report(result, options.seed))
    if options.case is not None:
        print(results[0].outcome.trace)
    print(f'{"":12}' + ''.join(f'{outcome:>9}' for outcome in _OUTCOMES))
    for kind in KINDS:
        found = [result.outcome.kind for result in results if kind_of(result.number) == kind]
        print(f'{kind:12}' + ''.join(f'{found.count(outcome):9}' for outcome in _OUTCOMES))
    sys.exit(any(result.failed for result in results))


if __name__ == '__main__':
    main()
