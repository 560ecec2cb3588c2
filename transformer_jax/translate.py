"""Translates lines of text: python -m transformer_jax.translate --workdir=DIR."""

import contextlib
import fcntl
import hashlib
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
from typing import TYPE_CHECKING, Any

from transformer_jax import command, kept_programs
from transformer_jax.cache import cache_folder, content_digest, keep_compiled_programs
from transformer_jax.data.text_files import TextFile, decoded, without_ends
from transformer_jax.errors import UserError, user_path
from transformer_jax.files import read_json, written_whole
from transformer_jax.progress import STDERR
from transformer_jax.stopping import Stopped, answer_signals, check

# Seconds to import, in which no signal would be answered.
if TYPE_CHECKING:
    from transformer_jax.translator import Translator

_BAR_FROM = 200  # lines that are worth a progress bar
_MOMENT = 0.02  # seconds without more input, after which the lines so far are translated
_STATE = {'settings': str, 'input': str, 'output': str, 'lines': int, 'bytes': int, 'cut': int}
_POLL = 0.2  # seconds between two looks whether a stop was asked for, while no input comes


def main(arguments: Sequence[str]) -> None:
    """Reads lines, writes their translations in the same order."""
    parser = command.Parser(
        prog='python -m transformer_jax.translate',
        description='Translates a line in to a line out, in order; an empty line stays empty.\n'
        'Reads stdin and writes stdout unless told otherwise; it answers the lines that have come\n'
        'as soon as no more is waiting. With --output, a stopped command goes on where it stopped.',
    )
    command.add_model_flags(parser)
    parser.add_argument('--input', help='file to read instead of stdin')
    parser.add_argument('--output', help='file to write instead of stdout')
    command.add_search_flags(parser)
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
    parser.add_argument('--temperature', type=float, default=1.0, help='of --sample (default: 1)')
    parser.add_argument('--top_k', type=int, default=0, help='of --sample (default: 0, all)')
    parser.add_argument('--top_p', type=float, default=1.0, help='of --sample (default: 1, all)')
    parser.add_argument('--seed', type=int, default=0, help='of --sample (default: 0)')
    flags = parser.parse_args(arguments)
    from transformer_jax.translator import Sampling, Translator, warn_of_cut_outputs

    sampling = None
    drawn = {name: getattr(flags, name) for name in ('temperature', 'top_k', 'top_p', 'seed')}
    if flags.sample:
        for name in ('beam_size', 'length_penalty'):
            if getattr(flags, name) is not None:
                raise UserError(
                    f'--{name}={getattr(flags, name)} is of the search that --sample replaces: '
                    'leave out one of the two.'
                )
        sampling = Sampling(**drawn)
    for name, value in drawn.items():
        if value != parser.get_default(name) and not flags.sample:
            raise UserError(f'--{name}={value} is of --sample, which is not given: add it.')
    with contextlib.ExitStack() as stack:
        lines = _Stdin() if flags.input is None else _File(flags.input)
        keep_compiled_programs(cache_folder())
        translator = Translator.load(
            flags.workdir, checkpoints=flags.checkpoints, average=flags.average
        )
        options = {
            'beam_size': flags.beam_size,
            'length_penalty': flags.length_penalty,
            'max_extra_length': flags.max_extra_length,
            'max_source_length': flags.max_source_length,
            'n_best': flags.n_best,
            'sampling': sampling,
        }
        translator.translate([], **options)  # a bad option shows before any output is begun
        _check_output(flags.output, flags.input, flags.workdir)
        output = _Output(flags.output, stack)
        # What is written depends on these, and on the lines.
        settings = options | {'scores': flags.scores, 'steps': translator.steps}
        weights = translator.vocabulary.digest, os.path.realpath(flags.workdir)
        done = output.begin(lines, content_digest([repr(settings), *weights]))
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
            for line, outputs in enumerate(results, done + 1):
                number = f'{line}\t' if flags.n_best > 1 else ''
                for found in outputs:
                    score = f'{found.score:.4f}\t' if flags.scores else ''
                    output.write(f'{number}{score}{found.text}')
            done += len(chunk)
            output.cut += sum(best.cut for outputs in results for best in outputs[:1])
            output.remember(chunk)
        output.commit()
        warn_of_cut_outputs(output.cut, done, translator.decode_config(**_searched(options)))


def _lines_at_once(translator: 'Translator') -> int:
    """Lines that are sorted by length together; a stop loses as many at most."""
    return 16 * translator.search.max_rows


def _check_output(output: str | None, source: str | None, workdir: str) -> None:
    """A UserError if the output would take the place of the input, or of a file of the run."""
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


def _searched(options: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in options.items() if k not in ('n_best', 'sampling')}


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
            check()
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


class _Output:
    """Lines out; a file gets its name when it is whole, so that an error leaves an old one be.

    Until then, what is done is in `NAME.partial`, and `NAME.partial.json` says of which lines and
    which command that is, so that the same command goes on from there.

    Attributes:
      cut: how many outputs were cut so far.
    """

    def __init__(self, path: str | None, stack: contextlib.ExitStack):
        self._name = 'stdout' if path is None else f'--output={path!r}'
        self._file, self._stack = None, stack.enter_context(contextlib.ExitStack())
        self._partial: Path | None = None
        self.cut, self._lines = 0, 0
        self._digest, self._written = (hashlib.blake2b(digest_size=16) for _ in range(2))
        self._begun = False
        if path is None:
            if sys.stdout is None:
                raise UserError('there is no stdout to write: name a file with --output.')
            self._file = sys.stdout
            return
        place = user_path(path, '--output')
        if os.path.isdir(place):
            raise UserError(f'{self._name} is a folder: name a file.')
        self._text = TextFile('--output', place)
        self._text.check_writing()
        with self._failures():
            # A pipe or a device takes lines as they come; a new file would take its place.
            if os.path.exists(place) and not os.path.isfile(place):
                file = self._stack.enter_context(place.open('wb'))
                self._file = self._stack.enter_context(self._text.compressing(file))
                return
            # A link stays one, and what it leads to is written.
            self._place = Path(os.path.realpath(place))
            self._partial = self._place.with_name(f'{self._place.name}.partial')
            self._state = self._place.with_name(f'{self._partial.name}.json')
            if os.path.lexists(self._partial) and not os.path.isfile(self._state):
                raise UserError(
                    f'{self._name} is written as {str(self._partial)!r} until it is whole, and '
                    'that exists already: move it, or choose another --output.'
                )
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            opened = os.fdopen(os.open(self._partial, flags, 0o666), 'r+b')
            self._file = self._stack.enter_context(opened)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UserError(
                    f'{self._name} is being written by another command: wait for it, or choose '
                    'another --output.'
                ) from error
        self._stack.callback(self._leave)

    def begin(self, lines: _File | _Stdin, settings: str) -> int:
        """Skips the lines that an earlier command has done, and returns how many.

        Args:
          lines: to be translated.
          settings: a digest of all else that what is written depends on.

        Raises:
          UserError: if the earlier command was another one.
        """
        if self._partial is None:
            return 0
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
                print(f'{self._partial} has lost lines: beginning anew.', file=STDERR)
            self._begun = True
            self._file.truncate(0)
            return 0
        if done['settings'] == settings:
            while self._lines < done['lines']:
                chunk = lines.take(min(1 << 12, done['lines'] - self._lines))
                if not chunk:
                    break
                self._count(chunk)
        if done['input'] != self._digest.hexdigest():
            raise UserError(
                f'{str(self._partial)!r} is what is done of another command (other lines, '
                f'flags or checkpoints): remove it and {self._state.name!r} to begin anew, or '
                'choose another --output.'
            )
        for start in range(0, done['bytes'], 1 << 20):
            self._written.update(self._file.read(min(1 << 20, done['bytes'] - start)))
        if done['output'] != self._written.hexdigest():
            raise UserError(
                f'{str(self._partial)!r} has been changed since it was written: remove it and '
                f'{self._state.name!r} to begin anew, or choose another --output.'
            )
        self._begun, self.cut = True, done['cut']
        with self._failures():
            self._file.truncate(done['bytes'])
            self._file.seek(0, os.SEEK_END)
        print(f'Going on after line {self._lines:,}, from {self._partial}.', file=STDERR)
        return self._lines

    def _count(self, chunk: Sequence[str]) -> None:
        self._lines += len(chunk)
        for line in chunk:
            self._digest.update(line.encode() + b'\n')

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, BrokenPipeError) and self._file is sys.stdout:
                raise  # as of all commands: whoever reads it has enough
            if self._file is not None:
                with contextlib.suppress(OSError):
                    self._file.close()  # or what it still holds would fail once more, at exit
            raise UserError(
                f'{self._name} cannot be written ({error.strerror}): choose another place.'
            ) from error

    def write(self, line: str) -> None:
        text = re.sub('[\r\n]', ' ', line) + '\n'
        with self._failures():
            self._file.write(text if self._file is sys.stdout else text.encode())
        self._written.update(text.encode())

    def remember(self, chunk: Sequence[str]) -> None:
        """Notes that the outputs of the next lines, `chunk`, are written."""
        with self._failures():
            self._file.flush()
            if self._partial is None:
                return
            self._count(chunk)
            with written_whole(self._state) as file:
                json.dump(
                    {
                        'settings': self._settings,
                        'input': self._digest.hexdigest(),
                        'output': self._written.hexdigest(),
                        'cut': self.cut,
                        'lines': self._lines,
                        'bytes': self._file.tell(),
                    },
                    file,
                )

    def kept(self) -> str:
        """What a stopped command says of that which is done."""
        if self._partial is None or not self._lines:
            return ''
        return (
            f': {self._lines:,} lines are done, in {self._partial}; the same command goes on from '
            'there'
        )

    def commit(self) -> None:
        """Gives the file its name."""
        with self._failures():
            self._file.flush()
            if self._partial is not None:
                if self._text.is_compressed:
                    self._file.seek(0)
                    with (
                        written_whole(self._place, 'wb') as whole,
                        self._text.compressing(whole) as file,
                    ):
                        shutil.copyfileobj(self._file, file, 1 << 20)
                    self._partial.unlink()
                else:
                    os.replace(self._partial, self._place)
                self._state.unlink(missing_ok=True)
                self._begun = False
            self._stack.close()

    def _leave(self) -> None:
        """Removes a file in which no line is done; others are gone on with."""
        if self._begun and not self._lines:
            self._partial.unlink(missing_ok=True)


if __name__ == '__main__':
    answer_signals()
    kept_programs.keep()
    command.run(main)
