"""Marks as text: what a file has before and after the words that they mark."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from transformer_jax.translating.placeholders.marked_text import Marks, Piece, common


class Element(NamedTuple):
    """What a mark is in a file.

    Attributes:
      start: is written before what it marks.
      end: is written after that.
    """

    start: str
    end: str


def rendered(
    pieces: Iterable[Piece],
    elements: Sequence[Element],
    escape: Callable[[str], str] = str,
    begin: Marks = (),
    end: Marks = (),
) -> str:
    """Return pieces as the text of a file, see `rendered_parts`."""
    return ''.join(rendered_parts(pieces, elements, escape, begin, end))


def rendered_parts(
    pieces: Iterable[Piece],
    elements: Sequence[Element],
    escape: Callable[[str], str],
    begin: Marks,
    end: Marks,
) -> Iterator[str]:
    """Return the parts of pieces as the text of a file.

    Args:
      pieces: their marks are indices of `elements`, their points texts.
      elements: the marks.
      escape: what becomes of a text.
      begin: the marks that are open already.
      end: those that stay open.
    """
    now = begin
    for piece in [*pieces, Piece('', end, '')]:
        same = len(common(now, piece.marks))
        yield from (elements[mark].end for mark in reversed(now[same:]))
        yield from (elements[mark].start for mark in piece.marks[same:])
        now = piece.marks
        yield escape(piece.text) if piece.point is None else piece.point
