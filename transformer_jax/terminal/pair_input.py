"""The pairs to score, from lines SOURCE<TAB>TARGET or from two files, in chunks.

A pair is a string, its two texts separated by a line end, which no line contains. So it is a line
for `line_output`, and texts may contain tabs.
"""

import itertools

from transformer_jax.data.corpora.text_files import TextFile, check_aligned
from transformer_jax.errors import UserError, user_path
from transformer_jax.terminal.line_input import FileLines, StdinLines


class TabbedPairs:
    """Pairs from lines SOURCE<TAB>TARGET of a file or of stdin."""

    def __init__(self, path: str | None):
        """Open the input.

        Args:
          path: value of --input; None is stdin.

        Raises:
          UserError: if the input cannot be read.
        """
        self._lines = StdinLines() if path is None else FileLines(path)
        self._name = 'stdin' if path is None else f'--input={path!r}'
        self._taken = 0

    def take(self, most: int) -> list[str]:
        """Wait for a pair, then return all that have come, at most `most`; none at the end.

        Raises:
          UserError: if a line has no tab, or several.
        """
        chunk = self._lines.take(most)
        for number, line in enumerate(chunk, self._taken + 1):
            tabs = line.count('\t')
            if tabs != 1:
                raise UserError(
                    f'{self._name}, line {number}, has {tabs} tabs: write '
                    'SOURCE<TAB>TARGET, with one tab.'
                )
        self._taken += len(chunk)
        return [line.replace('\t', '\n') for line in chunk]


class AlignedPairs:
    """Pairs from two text files, plain or compressed, whose lines correspond."""

    def __init__(self, source: str, reference: str):
        """Count the lines of both files.

        Args:
          source: value of --source.
          reference: value of --reference.

        Raises:
          UserError: if a file cannot be read, or has more lines than the other.
        """
        files = [
            TextFile(flag, user_path(path, flag))
            for flag, path in (('--source', source), ('--reference', reference))
        ]
        check_aligned(*files)
        self._pairs = zip(*(file.sentences() for file in files), strict=True)

    def take(self, most: int) -> list[str]:
        """Return the next pairs, at most `most`; none at the end of the files."""
        return ['\n'.join(pair) for pair in itertools.islice(self._pairs, most)]


def split_pairs(chunk: list[str]) -> tuple[list[str], list[str]]:
    """Return the sources and the targets of pairs."""
    pairs = [pair.split('\n') for pair in chunk]
    return [source for source, _ in pairs], [target for _, target in pairs]
