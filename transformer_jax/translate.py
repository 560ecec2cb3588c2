"""Translates lines of text: python -m transformer_jax.translate --workdir=DIR."""

import contextlib
import errno
import fcntl
import hashlib
import io
import itertools
import json
import os
import re
import select
import shutil
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

from transformer_jax import command_line
from transformer_jax.data.text_files import TextFile, decoded, without_ends
from transformer_jax.errors import UserError, user_path
from transformer_jax.runtime import program_cache
from transformer_jax.runtime.program_cache import ProgramCache
from transformer_jax.runtime.progress import STDERR
from transformer_jax.runtime.signals import Stopped, answer_signals, stop_if_requested
from transformer_jax.storage.cache import (
    cache_folder,
    content_digest,
    keep_compiled_programs,
)
from transformer_jax.storage.files import atomic_write, read_json

# Seconds to import, in which no signal would be answered.
if TYPE_CHECKING:
    from transformer_jax.translator import Translator

_BAR_FROM = 200  # lines that are worth a progress bar
_MOMENT = 0.02  # seconds without more input, after which the lines so far are translated
_STATE = {'settings': str, 'input': str, 'output': str, 'lines': int, 'bytes': int, 'cut': int}
_SKIPPED_AT_ONCE = 4096  # lines
_BLOCK = 1 << 20  # bytes
_POLL = 0.2  # seconds between two looks whether a stop was asked for, while no input comes


def main(arguments: Sequence[str]) -> None:
    """Reads lines, writes their translations in the same order."""
    parser = command_line.Parser(
        prog='python -m transformer_jax.translate',
        description='Translates a line in to a line out, in order; an empty line stays empty.\n'
        'Reads stdin and writes stdout unless told otherwise; it answers the lines that have come\n'
        'as soon as no more is waiting. With --output, a stopped command goes on where it stopped.',
    )
    command_line.add_model_flags(parser)
    parser.add_argument('--input', help='file to read instead of stdin')
    parser.add_argument('--output', help='file to write instead of stdout')
    command_line.add_search_flags(parser)
    parser.add_argument(
        '--max_source_length',
        type=int,
        help='tokens to which longer lines are cut (default: of the config; 0 for no limit)',
    )
    parser.add_argument(
        '--n_best',
        type=int,
        default=1,
        help='outputs per line, each after the number of its line and a tab (default: 1)',
    )
    parser.add_argument('--scores', action='store_true', help='put score and a tab before each')
    parser.add_argument('--sample', action='store_true', help='draw outputs instead of searching')
    parser.add_argument('--temperature', type=float, help='of --sample (default: 1)')
    parser.add_argument('--top_k', type=int, help='of --sample (default: 0, all)')
    parser.add_argument('--top_p', type=float, help='of --sample (default: 1, all)')
    parser.add_argument('--seed', type=int, help='of --sample (default: 0)')
    flags = parser.parse_args(arguments)
    programs = ProgramCache.open(cache_folder())
    from transformer_jax.translator import Sampling, Translator, warn_of_cut_outputs

    sampling = None
    drawn = {name: getattr(flags, name) for name in ('temperature', 'top_k', 'top_p', 'seed')}
    drawn = {name: value for name, value in drawn.items() if value is not None}
    if flags.sample:
        for name in ('beam_size', 'length_penalty'):
            if getattr(flags, name) is not None:
                raise UserError(
                    f'--{name}={getattr(flags, name)} is of the search that --sample replaces: '
                    'leave out one of the two.'
                )
        sampling = Sampling(**drawn)
    for name, value in drawn.items():
        if not flags.sample:
            raise UserError(f'--{name}={value} is of --sample, which is not given: add it.')
    with program_cache.use(programs), contextlib.ExitStack() as stack:
        lines = _Stdin() if flags.input is None else _File(flags.input)
        keep_compiled_programs(cache_folder())
        translator = Translator.load(
            flags.workdir, checkpoints=flags.checkpoints, average=flags.average
        )
        searched = {
            'beam_size': flags.beam_size,
            'length_penalty': flags.length_penalty,
            'max_extra_length': flags.max_extra_length,
            'max_source_length': flags.max_source_length,
        }
        options = {**searched, 'n_best': flags.n_best, 'sampling': sampling}
        translator.translate([], **options)  # a bad option shows before any output is begun
        _check_output(flags.output, flags.input, flags.workdir)
        output = _open_output(flags.output, stack)
        # The outputs depend on these, and on the lines.
        settings = options | {'scores': flags.scores, 'steps': translator.steps}
        weights = translator.vocabulary.digest, os.path.realpath(flags.workdir)
        done, cut = output.begin(lines, content_digest([repr(settings), *weights]))
        while True:
            try:
                chunk = lines.take(_lines_at_once(translator))
                if not chunk:
                    break
                results = translator.translate(
                    chunk, first_line=done + 1, progress=len(chunk) >= _BAR_FROM, **options
                )
            except Stopped as stopped:
                raise Stopped(f'{str(stopped).removesuffix(".")}{output.kept()}.') from stopped
            written = []
            for line, outputs in enumerate(results, done + 1):
                number = f'{line}\t' if flags.n_best > 1 else ''
                for found in outputs:
                    score = f'{found.score:.4f}\t' if flags.scores else ''
                    written.append(f'{number}{score}{found.text}')
            cut += sum(best.cut for outputs in results for best in outputs[:1])
            output.write(chunk, written, cut)
            done += len(chunk)
        output.commit()
        warn_of_cut_outputs(cut, done, translator.decode_config(**searched))


def _lines_at_once(translator: 'Translator') -> int:
    """Lines that are sorted by length together; a stop loses as many at most."""
    return 16 * translator.search.max_rows


def _check_output(output: str | None, source: str | None, workdir: str) -> None:
    """Raises a UserError if the output would replace the input, or a file of the run."""
    if output is None:
        return
    place = os.path.realpath(user_path(output, '--output'))
    run = os.path.realpath(user_path(workdir, '--workdir'))
    if place.startswith(os.path.join(run, '')):
        raise UserError(
            f'--output={output!r} is in the work directory, whose files belong to the run: choose '
            'another place.'
        )
    is_file = source is not None and os.path.isfile(source)
    if is_file and place == os.path.realpath(user_path(source, '--input')):
        raise UserError(f'--output={output!r} is the input as well: choose another name.')


class _File:
    """The lines of a file."""

    def __init__(self, path: str):
        lines = TextFile('--input', user_path(path, '--input'), read_once=True).sentences()
        # Read before the seconds that loading a model takes, in case the file cannot be.
        self._lines = itertools.chain(list(itertools.islice(lines, 1)), lines)

    def take(self, most: int) -> list[str]:
        """Returns the next lines, at most `most`; none at the end."""
        return list(itertools.islice(self._lines, most))


class _Stdin:
    """The lines of stdin, where a program may write one and wait for its answer."""

    def __init__(self):
        if sys.stdin is None:
            raise UserError('there is no stdin to read: name a file with --input.')
        self._terminal = sys.stdin.isatty()
        self._lines: deque[bytes] = deque()  # that have come
        self._rest: list[bytes] = []  # parts of the line after them
        self._taken, self._ended = 0, False

    def take(self, most: int) -> list[str]:
        """Waits for a line; returns what has come when no more is waiting, at most `most` lines."""
        if self._terminal:
            print('> ', end='', file=STDERR, flush=True)
            most = 1
        while len(self._lines) < most and not self._ended:
            if self._waits(_MOMENT if self._lines else _POLL):
                self._read()
            elif self._lines:
                break
            stop_if_requested()
        chunk = [self._lines.popleft() for _ in range(min(most, len(self._lines)))]
        first = self._taken + 1
        self._taken += len(chunk)
        return list(without_ends(decoded(chunk, 'stdin', first)))

    def _waits(self, seconds: float) -> bool:
        return bool(select.select([sys.stdin], [], [], seconds)[0])

    def _read(self) -> None:
        # Not through sys.stdin.buffer, which would wait until it is full.
        block = os.read(sys.stdin.fileno(), 1 << 16)
        self._ended = not block
        *whole, rest = block.split(b'\n')
        for line in whole:
            self._lines.append(b''.join([*self._rest, line]) + b'\n')
            self._rest = []
        self._rest.append(rest)
        if self._ended and any(self._rest):
            self._lines.append(b''.join(self._rest))


def _open_output(path: str | None, stack: contextlib.ExitStack) -> '_Stream | _ResumableFile':
    """Returns where outputs go: stdout, or a file that `stack` closes.

    Raises:
      UserError: if nothing can be written there.
    """
    if path is None:
        if sys.stdout is None:
            raise UserError('there is no stdout to write: name a file with --output.')
        return _Stream('stdout', sys.stdout)
    name = f'--output={path!r}'
    place = user_path(path, '--output')
    if os.path.isdir(place):
        raise UserError(f'{name} is a folder: name a file.')
    text_file = TextFile('--output', place)
    text_file.check_writing()
    with _failures(name):
        if not os.path.exists(place) or os.path.isfile(place):
            return _ResumableFile(name, text_file, stack)
        # A pipe or a device takes lines as they come; a new file would take its place.
        file = stack.enter_context(place.open('wb'))
        compressing = stack.enter_context(text_file.compressing(file))
        text = io.TextIOWrapper(compressing, encoding='utf-8', newline='\n')
        return _Stream(name, stack.enter_context(text))


@contextlib.contextmanager
def _failures(name: str, file: IO[Any] | None = None) -> Iterator[None]:
    """A context in which an output that cannot be written becomes a UserError."""
    try:
        yield
    except OSError as error:
        if isinstance(error, BrokenPipeError) and name == 'stdout':
            raise  # as of all commands: whoever reads it has enough
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()  # or what it still holds would fail once more, at exit
        # What is done of a file is kept beside it.
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT) and name.startswith('--output')
        remedy = 'make room and run the same command again, or ' if is_full else ''
        raise UserError(
            f'{name} cannot be written ({error.strerror}): {remedy}choose another place.'
        ) from error


def _one_line(text: str) -> str:
    return re.sub('[\r\n]', ' ', text) + '\n'


class _Stream:
    """Outputs that are written as they come, to stdout, a pipe or a device."""

    def __init__(self, name: str, file: TextIO):
        self._name, self._file = name, file

    def begin(self, lines: _File | _Stdin, settings: str) -> tuple[int, int]:
        """As `_ResumableFile.begin`: nothing is done yet."""
        del lines, settings
        return 0, 0

    def write(self, chunk: Sequence[str], outputs: Sequence[str], cut: int) -> None:
        """Writes the outputs of the next lines; see `_ResumableFile.write`."""
        del chunk, cut
        with _failures(self._name, self._file):
            self._file.writelines(map(_one_line, outputs))
            self._file.flush()

    def kept(self) -> str:
        """As `_ResumableFile.kept`: nothing is kept."""
        return ''

    def commit(self) -> None:
        """Ends the output, unless it is stdout, which others may write to."""
        if self._name != 'stdout':
            with _failures(self._name, self._file):
                self._file.close()


class _ResumableFile:
    """A file of outputs that gets its name when it is complete, so that an error keeps an old one.

    Until then `NAME.partial` has the outputs so far. `NAME.partial.json` says which lines and which
    command they are of, so that the same command goes on from there.
    """

    def __init__(self, name: str, text_file: TextFile, stack: contextlib.ExitStack):
        """Opens the partial file.

        Args:
          name: what messages call the file.
          text_file: to be written.
          stack: closes the partial file, and removes it if no line is done.

        Raises:
          UserError: if somebody else's file has its name, or another command writes it.
          OSError: if it cannot be opened.
        """
        self._name, self._text_file = name, text_file
        # A link stays one, and what it leads to is written.
        self._place = Path(os.path.realpath(text_file.path))
        self._partial = self._place.with_name(f'{self._place.name}.partial')
        self._state = self._place.with_name(f'{self._partial.name}.json')
        self._lines, self._is_ours = 0, False
        self._input, self._output = (hashlib.blake2b(digest_size=16) for _ in range(2))
        if os.path.lexists(self._partial) and not os.path.isfile(self._state):
            raise UserError(
                f'{name} is written as {str(self._partial)!r} until it is complete, and that '
                'exists already: move it, or choose another --output.'
            )
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        opened = os.fdopen(os.open(self._partial, flags, 0o666), 'r+b')
        self._file = stack.enter_context(opened)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                f'{name} is being written by another command: wait for it, or choose another '
                '--output.'
            ) from error
        stack.callback(self._remove_if_empty)

    def begin(self, lines: _File | _Stdin, settings: str) -> tuple[int, int]:
        """Skips the lines whose outputs an earlier command has written.

        Args:
          lines: to be translated.
          settings: a digest of all else that the outputs depend on.

        Returns:
          How many lines were skipped, and how many of their outputs were cut.

        Raises:
          UserError: if the partial file is of another command, or was changed.
        """
        self._settings = settings
        done = None
        with contextlib.suppress(OSError, ValueError):
            done = read_json(self._state, _STATE)
        size = os.fstat(self._file.fileno()).st_size
        if done is None and size:
            raise UserError(
                f'{str(self._state)!r} cannot be read, so that nobody knows what is in '
                f'{self._partial.name!r} beside it: remove both to begin anew, or choose another '
                '--output.'
            )
        if done is None or size < done['bytes']:
            if done is not None:
                print(f'{self._partial} was changed: beginning anew.', file=STDERR)
            self._is_ours = True
            self._file.truncate(0)
            return 0, 0
        if done['settings'] == settings:
            while self._lines < done['lines']:
                chunk = lines.take(min(_SKIPPED_AT_ONCE, done['lines'] - self._lines))
                if not chunk:
                    break
                self._count(chunk)
        if done['input'] != self._input.hexdigest():
            raise UserError(
                f'{str(self._partial)!r} is what is done of another command (other lines, flags or '
                f'checkpoints): remove it and {self._state.name!r} to begin anew, or choose '
                'another --output.'
            )
        for start in range(0, done['bytes'], _BLOCK):
            self._output.update(self._file.read(min(_BLOCK, done['bytes'] - start)))
        if done['output'] != self._output.hexdigest():
            raise UserError(
                f'{str(self._partial)!r} has been changed since it was written: remove it and '
                f'{self._state.name!r} to begin anew, or choose another --output.'
            )
        self._is_ours = True
        with _failures(self._name, self._file):
            # A command that was killed may have written more than it has noted.
            self._file.truncate(done['bytes'])
            self._file.seek(0, os.SEEK_END)
        print(f'Going on after line {self._lines:,}, from {self._partial}.', file=STDERR)
        return self._lines, done['cut']

    def _count(self, chunk: Sequence[str]) -> None:
        self._lines += len(chunk)
        for line in chunk:
            self._input.update(line.encode() + b'\n')

    def write(self, chunk: Sequence[str], outputs: Sequence[str], cut: int) -> None:
        """Writes the outputs of the next lines, and notes that they are written.

        Args:
          chunk: the lines.
          outputs: a line each.
          cut: how many outputs were cut so far.
        """
        text = ''.join(map(_one_line, outputs)).encode()
        self._output.update(text)
        self._count(chunk)
        with _failures(self._name, self._file):
            self._file.write(text)
            self._file.flush()
            state = {
                'settings': self._settings,
                'input': self._input.hexdigest(),
                'output': self._output.hexdigest(),
                'lines': self._lines,
                'bytes': self._file.tell(),
                'cut': cut,
            }
            with atomic_write(self._state) as file:
                json.dump(state, file)

    def kept(self) -> str:
        """Returns the end of what a stopped command says: what is done, and where it is."""
        if not self._lines:
            return ''
        return (
            f': {self._lines:,} lines are done, in {self._partial}; the same command goes on from '
            'there'
        )

    def commit(self) -> None:
        """Gives the file its name."""
        with _failures(self._name, self._file):
            self._file.flush()
            if self._text_file.is_compressed:
                self._file.seek(0)
                with (
                    atomic_write(self._place, 'wb') as whole,
                    self._text_file.compressing(whole) as file,
                ):
                    shutil.copyfileobj(self._file, file, _BLOCK)
                self._partial.unlink()
            else:
                os.replace(self._partial, self._place)
            self._state.unlink(missing_ok=True)
            self._is_ours = False

    def _remove_if_empty(self) -> None:
        if self._is_ours and not self._lines:
            self._partial.unlink(missing_ok=True)


if __name__ == '__main__':
    answer_signals()
    command_line.run(main)
