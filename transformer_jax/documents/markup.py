"""Marks as text: what a file has before and after the words that they mark."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from transformer_jax.inference.marked_text import Marks, Piece, common


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
    """Return pieces as the text of a file.

    Args:
      pieces: their marks are indices of `elements`, their points texts.
      elements: the marks.
      escape: what becomes of a text.
      begin: the marks that are open already.
      end: those that stay open.
    """
    found, now = list[str](), begin

    def change(marks: Marks) -> None:
        nonlocal now
        same = len(common(now, marks))
        found.extend(elements[mark].end for mark in reversed(now[same:]))
        found.extend(elements[mark].start for mark in marks[same:])
        now = marks

    for piece in pieces:
        change(piece.marks)
        found.append(escape(piece.text) if piece.point is None else piece.point)
    change(end)
    return ''.join(found)
