"""Texts of a model that parses: words in, symbols out, trees shown."""

import logging
from collections.abc import Sequence
from typing import Any

from transformer_jax.config import Config
from transformer_jax.errors import UserError
from transformer_jax.parsing.trees import Tree, restored, treebank_words

FORMATS = ('brackets', 'pretty', 'symbols')
_logger = logging.getLogger('transformer_jax')


class Parsing:
    """What `translate` does with the texts of a parser; with those of a translator, nothing."""

    def __init__(self, output_format: str | None):
        """Take the format of trees; None leaves texts as they are."""
        self._format = output_format
        self._total = self._repaired = 0

    @classmethod
    def of(cls, config: Config, output_format: str | None, paragraphs: bool = False) -> 'Parsing':
        """Return what the texts of a run need.

        Args:
          config: the run's.
          output_format: one of `FORMATS`, or None for the usual one.
          paragraphs: whether texts are split into sentences.

        Raises:
          UserError: if a format is given, and the run is no parser; or if it is one, and texts are
            split.
        """
        if config.data.corpus == 'trees':
            if paragraphs:
                raise UserError(
                    '--paragraphs is for translators: a parser makes a tree of each line, so write '
                    'each sentence on a line of its own, and leave it out.'
                )
            return cls(output_format or FORMATS[0])
        if output_format is not None:
            raise UserError(
                f"--output_format={output_format} is for a parser (data.corpus='trees'), but this "
                f'run has data.corpus={config.data.corpus!r}: leave it out.'
            )
        return cls(None)

    def words(self, texts: Sequence[str]) -> list[str]:
        """Return texts with their words separated by spaces, as treebanks divide them."""
        if self._format is None:
            return list(texts)
        return [' '.join(treebank_words(text)) for text in texts]

    def trees(self, texts: Sequence[str], results: Sequence[Sequence[Any]]) -> Sequence[Any]:
        """Return the outputs of each text with trees in place of symbols."""
        if self._format in (None, 'symbols'):
            return results
        return [
            [found._replace(text=self._tree(found.text, text)) for found in outputs]
            for text, outputs in zip(texts, results, strict=True)
        ]

    def lines(self, written: Sequence[str]) -> Sequence[str]:
        """Return the lines of outputs, of which a drawing takes several and an empty one."""
        if self._format != 'pretty':
            return written
        return [line for text in written for line in (*text.split('\n'), '')]

    def warn(self) -> None:
        """Log how many trees had to be repaired, if any."""
        if self._repaired:
            _logger.warning(
                '%s of %s trees were malformed: brackets or words were added or left out.',
                f'{self._repaired:,}',
                f'{self._total:,}',
            )

    def _tree(self, row: str, text: str) -> str:
        if not text:
            return ''
        tree, repaired = restored(row.split(), text.split())
        self._total += 1
        self._repaired += repaired
        return '\n'.join(draw_tree(tree)) if self._format == 'pretty' else str(tree)


def draw_tree(tree: Tree) -> list[str]:
    """Return the lines of a drawing: each constituent above what is in it, each word in a line."""
    return [_name(tree), *_below(tree)]


def _below(tree: Tree) -> list[str]:
    lines = []
    for number, child in enumerate(tree.children, 1):
        is_last = number == len(tree.children)
        lines.append(('└── ' if is_last else '├── ') + _name(child))
        lines += [('    ' if is_last else '│   ') + line for line in _below(child)]
    return lines


def _name(tree: Tree) -> str:
    return tree.label if tree.word is None else f'{tree.label} {tree.word}'
