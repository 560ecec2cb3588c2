"""Texts with ranges of words: what encloses some words of a text encloses their translation.

A mark may be written several times, but the two sides of a range only once. So a range encloses the
words of a translation from the first to the last that it marks, and those between.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from transformer_jax.translating.placeholders.marked_text import (
    Alignment,
    MarkedText,
    Marks,
    Piece,
    common,
    with_whole_placeholders,
)
from transformer_jax.translating.placeholders.paired_marks import (
    BEFORE_WORDS,
    Side,
    as_part,
    dividing,
    pairs,
)

# Further ranges within one another keep their order, but do not follow their words.
_MOST_OPEN = 32
_CLOSING = tuple(',.;:!?)]»”')


class _Range:
    """A range of words.

    Attributes:
      sides: the places of the pieces that begin and end it.
      parent: the range that it may not leave; None if there is none.
      crosses: whether it may leave all ranges in which it begins.
    """

    def __init__(self, begin: int, parent: '_Range | None', crosses: bool):
        self.sides = [begin, begin]
        self.parent, self.crosses = parent, crosses


class _Place(NamedTuple):
    """A place in a translation.

    Attributes:
      offset: number of characters before it that are no blanks.
      is_behind: whether it is behind the blank that is there.
    """

    offset: int
    is_behind: bool


class _Side(NamedTuple):
    """A side of a range, or another point that stays in its range.

    Attributes:
      is_behind: see `_Place`.
      k: the place of its piece in the text.
    """

    is_behind: bool
    k: int


def divided(
    pieces: Sequence[Piece], side: Callable[[Any], Side | None]
) -> Iterator['RangedText | Piece']:
    """Yield the texts between the marks that divide a text (see `dividing`), and these marks.

    Args:
      pieces: the parts of a text.
      side: as for `RangedText`.
    """
    places, part = dividing(_sides(pieces, side)), list[Piece]()
    for k, piece in enumerate(pieces):
        if k in places:
            yield RangedText(part, side, is_part=True)
            yield piece
            part = []
        elif k - 1 in places and (found := BEFORE_WORDS.match(piece.text))[0]:
            # It goes on with what is before the mark.
            yield RangedText([piece._replace(text=found[0])], side)
            part = [piece._replace(text=piece.text[found.end() :])]
        else:
            part.append(piece)
    yield RangedText(part, side, is_part=bool(places))


def _sides(pieces: Sequence[Piece], side: Callable[[Any], Side | None]) -> dict[int, Side]:
    return {
        k: found
        for k, piece in enumerate(pieces)
        if piece.point is not None and (found := side(piece.point)) is not None
    }


class RangedText:
    """A text with marks, some points of which are the sides of ranges, see `MarkedText`.

    Attributes:
      pieces: its parts.
      text: its words, with a blank between each two.
      has_letters: whether there is something to translate.
    """

    def __init__(
        self,
        pieces: Iterable[Piece],
        side: Callable[[Any], Side | None],
        is_part: bool = False,
    ):
        """Take the parts of a text that is translated as a whole.

        Args:
          pieces: the parts.
          side: returns what a point is to a range, None if it is nothing.
          is_part: whether it is a part of a sentence.
        """
        self.pieces = list(pieces)
        self._is_part = is_part
        sides = _sides(self.pieces, side)
        ends = pairs(sides)
        self._divided = _Divided(self.pieces, sides, ends) if ends else None
        self._text = MarkedText(self._divided.of_marks if ends else self.pieces)
        self.text, self.has_letters = self._text.text, self._text.has_letters

    def translated(self, output: str, alignment: Alignment) -> list[Piece]:
        """Return the translation with its marks and ranges, see `MarkedText.translated`."""
        if self._is_part:
            output = as_part(output, self.text)
        if self._divided is None:
            return self._text.translated(output, alignment)
        alignment = [*alignment]
        by_range = MarkedText(self._divided.of_ranges).translated(output, alignment)
        places = _places(self._divided.ranges, by_range)
        found = self._with_sides(self._text.translated(output, alignment), places)
        begins = {one.sides[0] for one in self._divided.ranges}
        whole = with_whole_placeholders(_marked(found, self.pieces), self._divided.of_marks, begins)
        return [*itertools.chain.from_iterable(map(self._original, whole))]

    def _with_sides(
        self, pieces: Sequence[Piece], places: Mapping[_Range, tuple[_Place, _Place]]
    ) -> Iterator[Piece | _Side]:
        """Return a translation with the sides of its ranges; its other points do not leave them."""
        sides = [
            (place.offset, _Side(place.is_behind, k))
            for found, both in places.items()
            for k, place in zip(found.sides, both, strict=True)
        ]
        kept, offset = list[Piece](), 0
        for piece in pieces:
            found = self._divided.inside.get(piece.point)
            if found and not places[found][0].offset <= offset <= places[found][1].offset:
                end = places[found][1]
                sides.append((end.offset, _Side(end.is_behind, piece.point)))
            else:
                kept.append(piece)
                offset += _size(piece.text)
        sides.sort(reverse=True)
        groups = [(at, [x for _, x in group]) for at, group in itertools.groupby(sides, _offset)]
        between, offset = list[Piece | _Side](), 0
        for piece in kept:
            size, begin = _size(piece.text), 0
            if not size:
                between.append(piece)
                continue
            while groups and groups[-1][0] < offset + size:
                at, group = groups.pop()
                if at > offset + begin:
                    yield from between
                    yield piece._replace(text=piece.text[begin : at - offset])
                    between, begin = [], at - offset
                between = _merged(between, group)
            yield from between
            yield piece._replace(text=piece.text[begin:])
            between, offset = [], offset + size
        for _, group in reversed(groups):
            between = _merged(between, group)
        yield from between

    def _original(self, piece: Piece) -> list[Piece]:
        """Return what a point, which is the place of a piece, stands for."""
        if piece.point is None:
            return [piece]
        original = piece._replace(point=self.pieces[piece.point].point)
        return self._divided.originals.get(piece.point, [original])


class _Divided:
    """The pieces of a text without the sides of ranges; a point is the place of its piece.

    Attributes:
      of_marks: the pieces with their marks.
      of_ranges: the pieces with the ranges that they are in as marks.
      ranges: all ranges; a range follows the one that it may not leave.
      inside: the innermost range that each other point may not leave.
      originals: the pieces of each range without words, which is one point.
    """

    def __init__(self, pieces: Sequence[Piece], sides: Mapping[int, Side], ends: Mapping[int, int]):
        self.of_marks, self.of_ranges = list[Piece](), list[Piece]()
        self.ranges: list[_Range] = []
        self.inside: dict[int, _Range] = {}
        words = [0, *itertools.accumulate(bool(piece.text.strip()) for piece in pieces)]
        without = {k: end for k, end in ends.items() if words[k] == words[end]}
        self._stack: list[_Range] = []
        self._crossing: Marks = ()
        self.originals = dict[int, list[Piece]]()
        ends = {k: end for k, end in ends.items() if k not in without}
        by_end = dict[int, _Range]()
        until = -1  # the end of what is glued
        last, is_beside = None, False  # the last text, and whether a side follows it
        for k, piece in enumerate(pieces):
            if k in without and k > until:
                until = without[k]
                self.originals[k] = of_one = [piece]
                self._add(Piece('', piece.marks, k))
                self._add(Piece(' ' * any(x.text for x in pieces[k:until]), piece.marks))
            elif k in ends:
                by_end[ends[k]] = self._begin(k, sides[k].crosses)
            elif k in by_end:
                self._end(by_end[k], k)
            elif k <= until:
                until = max(until, without.get(k, until))
                of_one.append(piece)
            else:
                if is_beside and last is not None and piece.text.startswith(_CLOSING):
                    self._strip(last)
                self._add(piece if piece.point is None else piece._replace(point=k))
            is_beside = k in ends or k in by_end
            last = len(self.of_marks) - 1 if piece.text else last

    def _add(self, piece: Piece) -> None:
        self.of_marks.append(piece)
        marks = *self._stack[:_MOST_OPEN], *self._crossing
        self.of_ranges.append(piece._replace(marks=marks))
        if piece.point is not None and self._stack:
            self.inside[piece.point] = self._stack[-1]

    def _begin(self, k: int, crosses: bool) -> _Range:
        parent = self._stack[-1] if self._stack and not crosses else None
        found = _Range(k, parent, crosses)
        self.ranges.append(found)
        if not crosses:
            self._stack.append(found)
        elif len(self._crossing) < _MOST_OPEN:
            self._crossing += (found,)
        return found

    def _end(self, ended: _Range, k: int) -> None:
        ended.sides[1] = k
        if ended.crosses:
            self._crossing = tuple(x for x in self._crossing if x is not ended)
        else:
            while self._stack.pop() is not ended:
                pass

    def _strip(self, last: int) -> None:
        """Take the blanks away between the last text and punctuation behind a side."""
        if stripped := self.of_marks[last].text.rstrip():
            for pieces in (self.of_marks, self.of_ranges):
                pieces[last] = pieces[last]._replace(text=stripped)


def _size(text: str) -> int:
    return len(''.join(text.split()))


def _offset(side: tuple[int, _Side]) -> int:
    return side[0]


def _places(
    ranges: Sequence[_Range], pieces: Iterable[Piece]
) -> dict[_Range, tuple[_Place, _Place]]:
    """Return where each range begins and ends in a translation whose marks are the ranges."""
    # Each is as long as it can be without words of another one that is beside it.
    spans = dict[_Range, tuple[int, int, int]]()  # number of its characters, begin and end
    current = dict[int, tuple[_Range, int, int, int]]()  # by the number of ranges around it
    end = 0
    for piece in pieces:
        size = _size(piece.text)
        begin, end = end, end + size
        for depth, mark in enumerate(piece.marks):
            if mark.crosses:
                count, first, _ = spans.get(mark, (0, begin, end))
                spans[mark] = count + size, first, end
                continue
            if current.get(depth, (None,))[0] is not mark:
                current[depth] = mark, 0, begin, end
            _, count, first, _ = current[depth]
            current[depth] = mark, count + size, first, end
            if count + size > spans.get(mark, (-1,))[0]:
                spans[mark] = count + size, first, end
    found = dict[_Range, tuple[_Place, _Place]]()
    for one in ranges:
        least, most = found.get(one.parent, (_Place(0, False), _Place(end, True)))
        if one in spans:
            _, first, last = spans[one]
            begin, stop = _Place(first, first < last), _Place(last, False)
        else:
            begin, stop = (least, most) if one.crosses else (most, most)
        begin = min(max(begin, least), most)
        found[one] = begin, min(max(stop, begin), most)
    return found


def _merged(between: Sequence[Piece | _Side], sides: Sequence[_Side]) -> list[Piece | _Side]:
    """Return what is at one place in a translation, and the sides that are there.

    A side in front of the blank is as far in front as points before it in the text allow, any other
    as far behind.
    """
    points = sorted((x.point, at) for at, x in enumerate(between) if x.point is not None)
    places = list[tuple[int, _Side]]()
    at, n = 0, 0
    for one in sorted(x for x in sides if not x.is_behind):
        while n < len(points) and points[n][0] < one.k:
            at, n = max(at, points[n][1] + 1), n + 1
        places.append((at, one))
    front, at, n = at, len(between), len(points)
    behind = list[tuple[int, _Side]]()
    for one in sorted((x for x in sides if x.is_behind), reverse=True):
        while n and points[n - 1][0] > one.k:
            at, n = min(at, points[n - 1][1]), n - 1
        behind.append((max(at, front), one))
    places += behind[::-1]
    found, last = list[Piece | _Side](), 0
    for at, one in places:
        found += [*between[last:at], one]
        last = at
    return [*found, *between[last:]]


def _marked(found: Iterable[Piece | _Side], pieces: Sequence[Piece]) -> list[Piece]:
    """Return a translation whose sides have marks, so that they divide no mark if possible."""
    found = list(found)
    following, marks = list[Marks | None](), None
    for x in reversed(found):
        following.append(marks)
        marks = x.marks if isinstance(x, Piece) else marks
    result, before = list[Piece](), None
    for x, behind in zip(found, reversed(following), strict=True):
        if isinstance(x, Piece):
            before = x.marks
            result.append(x)
            continue
        own = pieces[x.k].marks
        left = own if before is None else before
        right = own if behind is None else behind
        inner = right if x.is_behind else left
        result.append(Piece('', max(common(own, inner), common(left, right), key=len), x.k))
    return result
