"""Translates lines of text: python -m transformer_jax.translate --workdir=DIR."""

import contextlib
import itertools
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from transformer_jax import command, kept_programs
from transformer_jax.cache import cache_folder, keep_compiled_programs
from transformer_jax.data.text_files import TextFile, decoded, without_ends
from transformer_jax.errors import UserError, user_path
from transformer_jax.files import written_whole
from transformer_jax.progress import STDERR
from transformer_jax.translator import Sampling, Translator

_CHUNK = 4096  # lines sorted by length together
_BAR_FROM = 200  # lines that are worth a progress bar


def main(arguments: Sequence[str]) -> None:
    """Reads lines, writes their translations in the same order."""
    parser = command.Parser(
        prog='python -m transformer_jax.translate',
        description='Translates a line in to a line out, in order; an empty line stays empty.\n'
        'Reads stdin and writes stdout unless told otherwise; at a terminal it answers each line.',
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
        lines = _input(flags.input)
        keep_compiled_programs(cache_folder())
        translator = Translator.load(
            flags.workdir, checkpoints=flags.checkpoints, average=flags.average
        )
        options = {
            'beam_size': flags.beam_size,
            'length_penalty': flags.length_penalty,
            'max_source_length': flags.max_source_length,
            'n_best': flags.n_best,
            'sampling': sampling,
        }
        translator.translate([], **options)  # a bad option shows before any output is begun
        output = _Output(flags.output, stack)
        interactive = flags.input is None and sys.stdin.isatty()
        first = 1
        while chunk := list(itertools.islice(lines, 1 if interactive else _CHUNK)):
            progress = len(chunk) >= _BAR_FROM
            results = translator.translate(chunk, first_line=first, progress=progress, **options)
            for line, outputs in enumerate(results, first):
                number = f'{line}\t' if flags.n_best > 1 else ''
                for found in outputs:
                    score = f'{found.score:.4f}\t' if flags.scores else ''
                    output.write(f'{number}{score}{found.text}')
            output.flush()
            first += len(chunk)
        output.commit()


def _input(path: str | None) -> Iterator[str]:
    """The lines to translate."""
    if path is not None:
        lines = TextFile('--input', user_path(path, '--input')).sentences()
        # Read before the seconds that loading a model takes, in case the file cannot be.
        return itertools.chain(list(itertools.islice(lines, 1)), lines)
    if sys.stdin is None:
        raise UserError('there is no stdin to read: name a file with --input.')
    lines = sys.stdin.buffer
    return without_ends(decoded(_prompting(lines) if sys.stdin.isatty() else lines, 'stdin'))


def _prompting(lines: Iterable[bytes]) -> Iterator[bytes]:
    lines = iter(lines)
    while True:
        print('> ', end='', file=STDERR, flush=True)
        line = next(lines, None)
        if line is None:
            return
        yield line


class _Output:
    """Lines out; a file gets its name when it is whole, so that an error leaves an old one be."""

    def __init__(self, path: str | None, stack: contextlib.ExitStack):
        self._name = 'stdout' if path is None else f'--output={path!r}'
        self._file, self._stack = None, stack.enter_context(contextlib.ExitStack())
        if path is None:
            if sys.stdout is None:
                raise UserError('there is no stdout to write: name a file with --output.')
            self._file = sys.stdout
            return
        place = user_path(path, '--output')
        if os.path.isdir(place):
            raise UserError(f'{self._name} is a folder: name a file.')
        with self._failures():
            # A pipe or a device takes lines as they come; a new file would take its place.
            if os.path.exists(place) and not os.path.isfile(place):
                file = place.open('wb')
            else:
                # A link stays one, and what it leads to is written.
                file = written_whole(Path(os.path.realpath(place)), 'wb')
            text = TextFile('--output', place).writing(self._stack.enter_context(file))
            self._file = self._stack.enter_context(text)

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
        with self._failures():
            self._file.write(re.sub('[\r\n]', ' ', line) + '\n')

    def flush(self) -> None:
        with self._failures():
            self._file.flush()

    def commit(self) -> None:
        self.flush()
        with self._failures():
            self._stack.close()


if __name__ == '__main__':
    kept_programs.keep()
    command.run(main)
