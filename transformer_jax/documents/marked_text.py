"""Texts with marks: what marks some words of a text marks the same words of its translation.

Words are those of `str.split`, as in alignments. So in languages that have no blanks between words,
a mark in a sentence marks the whole sentence.
"""

import bisect
import itertools
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

# What surrounds a character, the outermost first: elements of HTML, or the format of a document.
Marks = tuple[Hashable, ...]
# Pairs (source word, output word), counted from 0.
Alignment = Iterable[tuple[int, int]]
_WORD = re.compile(r'(\W*)(.*?)(\W*)', re.DOTALL)


class Piece(NamedTuple):
    """A part of a text.

    Attributes:
      text: its characters.
      marks: what surrounds it.
      point: something that has a place but no text, such as a picture; None for a text.
    """

    text: str
    marks: Marks = ()
    point: Any = None


class Element(NamedTuple):
    """What a mark is in a file.

    Attributes:
      start: is written before what it marks.
      end: is written after that.
    """

    start: str
    end: str


class _Word(NamedTuple):
    """A word of a text.

    Attributes:
      text: its characters.
      marks: of each character.
      before: the marks of the punctuation before it; None if there is none.
      core: the marks of most other characters.
      is_mixed: whether these have different marks.
      after: the marks of the punctuation after it; None if there is none.
    """

    text: str
    marks: Sequence[Marks]
    before: Marks | None
    core: Marks
    is_mixed: bool
    after: Marks | None


class MarkedText:
    """A text with marks.

    Attributes:
      pieces: its parts.
      text: its words, with a blank between each two.
    """

    def __init__(self, pieces: Iterable[Piece]):
        """Take the parts of a text that is translated as a whole."""
        self.pieces = list(pieces)
        self._whole = ''.join(piece.text for piece in self.pieces)
        self._spans = _spans(self._whole)
        self.text = ' '.join(self._whole.split())

    def translated(self, output: str, alignment: Alignment) -> list[Piece]:
        """Return the translation with its marks.

        Blanks and points before the first word and after the last one stay there.

        Args:
          output: translation of `text`.
          alignment: pairs (word of `text`, word of `output`). Of several pairs of an output word,
            the first counts. One without a pair is marked as both of its neighbours are.
        """
        if not self._spans:
            return self.pieces
        return [*itertools.chain(*self.translated_words(output, alignment))]

    def translated_words(self, output: str, alignment: Alignment) -> list[list[Piece]]:
        """Return `translated` for a text with words, divided before the blank of each further word.

        An output without words is one list, of the points.
        """
        head, points, tail = self._sections()
        words = self._words()
        targets = _spans(output)
        if not targets:
            kept = [*head, *(piece for _, piece in points), *tail]
            return [kept + [piece for _, piece in _lost(words, kept)]]
        sources: list[int | None] = [None] * len(targets)
        for source, target in sorted(alignment, reverse=True):
            sources[target] = source
        nearest = _Nearest(sources)
        cores = _cores(words, sources, nearest)
        before, after = self._placed(points, nearest)
        found, end = list[list[Piece]](), 0
        for t, (begin, stop) in enumerate(targets):
            source = None if sources[t] is None else words[sources[t]]
            parts = _parts(output[begin:stop], cores[t], source)
            pieces = [*before.get(t, ()), *parts, *after.get(t, ())]
            if t:
                of_both = common(found[-1][-1].marks, parts[0].marks)
                pieces.insert(0, Piece(output[end:begin], of_both))
            found.append(pieces)
            end = stop
        for s, piece in _lost(words, [*itertools.chain(*found)]):
            found[nearest(s)[-1]].append(piece)
        found[0][:0] = head
        found[-1] += tail
        return found

    def _sections(self) -> tuple[list[Piece], list[tuple[int, Piece]], list[Piece]]:
        """Return what is before the first word, the points among words, what is after the last."""
        first, last = self._spans[0][0], self._spans[-1][1]
        head, points, tail = list[Piece](), list[tuple[int, Piece]](), list[Piece]()
        at = 0
        for piece in self.pieces:
            if piece.point is not None:
                if at <= first:
                    head.append(piece)
                elif at >= last:
                    tail.append(piece)
                else:
                    points.append((at, piece))
            if text := piece.text[: max(0, first - at)]:
                head.append(Piece(text, piece.marks))
            if text := piece.text[max(0, last - at) :]:
                tail.append(Piece(text, piece.marks))
            at += len(piece.text)
        return head, points, tail

    def _words(self) -> list[_Word]:
        marks = [piece.marks for piece in self.pieces for _ in piece.text]
        return [_word(self._whole[a:b], marks[a:b]) for a, b in self._spans]

    def _placed(
        self, points: Sequence[tuple[int, Piece]], nearest: '_Nearest'
    ) -> tuple[dict[int, list[Piece]], dict[int, list[Piece]]]:
        """Return the pieces before and after each output word that the points give.

        A point that touches the word before it stays with that, any other with the next word.
        """
        before, after = dict[int, list[Piece]](), dict[int, list[Piece]]()
        begins = [begin for begin, _ in self._spans]
        for at, piece in points:
            word = bisect.bisect_left(begins, at)
            if self._whole[at - 1].isspace():
                blank = [Piece(' ', piece.marks)] if self._whole[at].isspace() else []
                before.setdefault(nearest(word)[0], []).extend([piece, *blank])
            else:
                after.setdefault(nearest(word - 1)[-1], []).append(piece)
        return before, after


class _Nearest:
    """Finds the output words of a word of the text, or of the one nearest to it that has any."""

    def __init__(self, sources: Sequence[int | None]):
        self._targets: dict[int, list[int]] = {}
        for target, source in enumerate(sources):
            if source is not None:
                self._targets.setdefault(source, []).append(target)
        self._sources = sorted(self._targets)
        self._last = len(sources) - 1

    def __call__(self, word: int) -> list[int]:
        at = bisect.bisect_left(self._sources, word)
        around = self._sources[max(0, at - 1) : at + 1]
        if not around:
            return [min(word, self._last)]
        return self._targets[min(around, key=lambda source: abs(source - word))]


def _spans(text: str) -> list[tuple[int, int]]:
    """Return where each word of `text.split()` begins and ends."""
    found, end = [], 0
    for word in text.split():
        begin = text.index(word, end)
        end = begin + len(word)
        found.append((begin, end))
    return found


def _word(text: str, marks: Sequence[Marks]) -> _Word:
    before, core, _ = (len(x) for x in _WORD.fullmatch(text).groups())
    if not core:  # all of it is punctuation, which `_WORD` has put into `before`
        return _Word(text, marks, None, Counter(marks).most_common(1)[0][0], False, None)
    end = before + core
    return _Word(
        text,
        marks,
        marks[0] if before else None,
        Counter(marks[before:end]).most_common(1)[0][0],
        len({*marks[before:end]}) > 1,
        marks[-1] if end < len(marks) else None,
    )


def _parts(word: str, core: Marks, source: _Word | None) -> list[Piece]:
    """Return an output word, whose punctuation is marked as that of its source word is."""
    before, middle, after = _WORD.fullmatch(word).groups()
    of_before = of_after = core
    if source is not None:
        if source.is_mixed and (parts := _marked_within(word, source)):
            return parts
        if source.before is not None:
            of_before = source.before
        if source.after is not None:
            of_after = source.after
            if not middle:  # a word of punctuation, such as the French ' !'
                of_before = source.after
    parts = Piece(before, of_before), Piece(middle, core), Piece(after, of_after)
    return [part for part in parts if part.text]


def _marked_within(word: str, source: _Word) -> list[Piece]:
    """Return an output word that begins or ends as its source word does, as in 'CO2'.

    Returns:
      Nothing if a mark would be lost.
    """
    marks = [source.core] * len(word)
    for k in range(_same(word, source.text)):
        marks[k] = source.marks[k]
    for k in range(1, 1 + _same(word[::-1], source.text[::-1])):
        marks[-k] = source.marks[-k]
    groups = itertools.groupby(zip(word, marks, strict=True), key=lambda pair: pair[1])
    is_whole = {*source.marks} <= {*marks}
    return [Piece(''.join(c for c, _ in x), of_x) for of_x, x in groups] if is_whole else []


def _cores(words: Sequence[_Word], sources: Sequence[int | None], nearest: _Nearest) -> list[Marks]:
    """Return the marks of each output word."""
    found = [None if s is None else words[s].core for s in sources]
    # A mark whose words have no translation marks the word that is nearest to them.
    present = {mark for marks in found if marks for mark in marks}
    for s, word in enumerate(words):
        if not present.issuperset(word.core):
            t = nearest(s)[0]
            if common(found[t] or (), word.core) == (found[t] or ()):
                found[t] = word.core
                present.update(word.core)
    for t, marks in enumerate(found):
        if marks is None:
            known = found[t - 1 : t] if t else []  # filled already
            known += [x for x in found[t + 1 :] if x is not None][:1]
            found[t] = common(*(known or [word.core for word in words]))
    # One word that divides the words of a mark is marked, too.
    for t in range(1, len(found) - 1):
        around = common(found[t - 1], found[t + 1])
        if found[t] == around[: len(found[t])]:
            found[t] = around
    return found


def _lost(words: Sequence[_Word], pieces: Iterable[Piece]) -> list[tuple[int, Piece]]:
    """Return an empty piece for each mark that marks nothing in a translation, and its word.

    Args:
      words: the words of the text.
      pieces: the translation.
    """
    present = {mark for piece in pieces for mark in piece.marks}
    found = []
    for s, word in enumerate(words):
        for marks in dict.fromkeys(word.marks):
            if not present.issuperset(marks):
                found.append((s, Piece('', marks)))
                present.update(marks)
    return found


def common(*marks: Marks) -> Marks:
    """Return the marks with which all of these begin."""
    first, *others = marks
    return first[: min((_same(first, other) for other in others), default=len(first))]


def _same(first: Sequence[Any], second: Sequence[Any]) -> int:
    """Return the number of items with which both begin."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((k for k, (a, b) in pairs if a != b), min(len(first), len(second)))


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
