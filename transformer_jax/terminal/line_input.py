"""The lines to translate, from a file or from stdin, in chunks."""

import itertools
import os
import select
import sys
from collections import deque

from transformer_jax.data.corpora.text_files import TextFile, decoded, without_ends
from transformer_jax.errors import UserError, user_path
from transformer_jax.runtime.progress import STDERR
from transformer_jax.runtime.signals import stop_if_requested

_CHUNK = 4096  # lines
_IDLE = 0.02  # seconds without more input, after which the lines so far are translated
_POLL = 0.2  # seconds between two checks for a requested stop while no input comes


def read_lines(flag: str, path: str) -> list[str]:
    """Return all lines of a text file, plain or compressed, or of stdin if its name is '-'.

    Raises:
      UserError: if they cannot be read.
    """
    if path != '-':
        return list(TextFile(flag, user_path(path, flag), read_once=True).sentences())
    stdin = StdinLines()
    return list(itertools.chain.from_iterable(iter(lambda: stdin.take(_CHUNK), [])))


class FileLines:
    """The lines of a text file, plain or compressed."""

    def __init__(self, path: str):
        """Open the file and read its first line.

        Args:
          path: value of --input.

        Raises:
          UserError: if the file cannot be read.
        """
        lines = TextFile('--input', user_path(path, '--input'), read_once=True).sentences()
        # Reading a line reports a bad file before the seconds that loading a model takes.
        self._lines = itertools.chain(list(itertools.islice(lines, 1)), lines)

    def take(self, most: int) -> list[str]:
        """Return the next lines, at most `most`; none at the end of the file."""
        return list(itertools.islice(self._lines, most))


class StdinLines:
    """The lines of stdin, from which a program may write one line and wait for its answer.

    Attributes:
      is_terminal: whether a person types the lines.
    """

    def __init__(self):
        """Find out whether stdin is a terminal; read nothing.

        Raises:
          UserError: if the process has no stdin.
        """
        if sys.stdin is None:
            raise UserError('there is no stdin to read: name a file with --input.')
        self.is_terminal = sys.stdin.isatty()
        self._lines: deque[bytes] = deque()  # complete lines that are not taken yet
        self._rest: list[bytes] = []  # pieces of the incomplete line after them
        self._taken, self._ended = 0, False

    def take(self, most: int) -> list[str]:
        """Wait for a line, then return all lines that have come, at most `most`.

        At a terminal it prints a prompt and returns one line. It returns none at the end of stdin.
        """
        if self.is_terminal:
            print('> ', end='', file=STDERR, flush=True)
            most = 1
        while len(self._lines) < most and not self._ended:
            if self._has_input(_IDLE if self._lines else _POLL):
                self._read()
            elif self._lines:
                break
            stop_if_requested()
        chunk = [self._lines.popleft() for _ in range(min(most, len(self._lines)))]
        first = self._taken + 1
        self._taken += len(chunk)
        return list(without_ends(decoded(chunk, 'stdin', first)))

    def _has_input(self, seconds: float) -> bool:
        return bool(select.select([sys.stdin], [], [], seconds)[0])

    def _read(self) -> None:
        # sys.stdin.buffer would wait until its block is full.
        block = os.read(sys.stdin.fileno(), 1 << 16)
        self._ended = not block
        *complete, rest = block.split(b'\n')
        for line in complete:
            self._lines.append(b''.join([*self._rest, line]) + b'\n')
            self._rest = []
        self._rest.append(rest)
        if self._ended and any(self._rest):
            self._lines.append(b''.join(self._rest))
