"""Texts with marks: what marks some words of a text marks the same words of its translation.

Words are those of `str.split`, as in alignments. So in languages that have no blanks between words,
a mark in a sentence marks the whole sentence.
"""

import bisect
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from transformer_jax.translating.placeholders.patterns import (
    find_placeholders,
    value_spans,
    without_placeholders,
)

# What surrounds a character, the outermost first: elements of HTML, or the format of a document.
Marks = tuple[Hashable, ...]
# Pairs (source word, output word), counted from 0.
Alignment = Iterable[tuple[int, int]]
_BLANKS = re.compile(r'\s\s+|[^\S ]')
_CORE = re.compile(r'\w')
_CLOSING = re.compile(r'[,.;:!?)\]»”]')
_WORD = re.compile(r'([^\w{]*+)((?:.*[\w}])?)([^\w}]*+)', re.DOTALL)


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
      text: its words, with a blank between each two; in placeholders, the blanks stay.
      has_letters: whether there is something to translate.
    """

    def __init__(self, pieces: Iterable[Piece]):
        """Take the parts of a text that is translated as a whole."""
        self.pieces = list(pieces)
        self._blanks, joined = _without_blanks(self.pieces)
        self._joined = joined
        self._whole = ''.join(piece.text for piece in joined)
        self._spans = _spans(self._whole)
        self.text = _collapsed(self._whole)
        self.has_letters = any(map(str.isalpha, without_placeholders(self.text)))

    def translated(self, output: str, alignment: Alignment) -> list[Piece]:
        """Return the translation with its marks.

        Blanks and points before the first word and after the last one stay there.

        Args:
          output: translation of `text`.
          alignment: pairs (word of `text`, word of `output`). Of several pairs of an output word,
            the first counts. An unaligned word gets the marks that both neighbours share.
        """
        if not self._spans:
            return self.pieces
        found = [*itertools.chain(*self.translated_words(output, alignment))]
        return with_whole_placeholders(found, self.pieces)

    def translated_words(self, output: str, alignment: Alignment) -> list[list[Piece]]:
        """Return `translated` for a text with words, divided before the blank of each further word.

        An output without words is one list, of the points.
        """
        head, points, tail = self._sections()
        words = self._words()
        targets = _spans(output)
        if not targets:
            kept = [*head, *(self.pieces[k] for _, k in points), *tail]
            return [kept + [piece for _, piece in _lost(words, kept)]]
        sources: list[int | None] = [None] * len(targets)
        for source, target in sorted(alignment, reverse=True):
            sources[target] = source
        nearest = Nearest(sources)
        cores = _cores(words, sources, nearest)
        placed = self._placed(points, nearest, [output[a:b] for a, b in targets])
        found, end = list[list[Piece]](), 0
        for t, (begin, stop) in enumerate(targets):
            source = None if sources[t] is None else words[sources[t]]
            is_last = t == len(targets) - 1
            behind = words[-1].after if is_last else common(cores[t], cores[t + 1])
            parts = _parts(output[begin:stop], cores[t], source, behind)
            pieces = _inserted(parts, placed.get(t, []))
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

    def _sections(self) -> tuple[list[Piece], list[tuple[int, int]], list[Piece]]:
        """Return what is before the first word, the points among words, what is after the last.

        A point is a place in the text and an index of the pieces.
        """
        first, last = self._spans[0][0], self._spans[-1][1]
        head, points, tail = list[Piece](), list[tuple[int, int]](), list[Piece]()
        at = 0
        for k, piece in enumerate(self._joined):
            if piece.point is not None:
                if at <= first:
                    head.append(piece)
                elif at >= last:
                    tail.append(piece)
                else:
                    points.append((at, k))
            if text := piece.text[: max(0, first - at)]:
                head.append(Piece(text, piece.marks))
            if text := piece.text[max(0, last - at) :]:
                tail.append(Piece(text, piece.marks))
            at += len(piece.text)
        return head, points, tail

    def _words(self) -> list[_Word]:
        marks = [piece.marks for piece in self._joined for _ in piece.text]
        return [_word(self._whole[a:b], marks[a:b]) for a, b in self._spans]

    def _placed(
        self, points: Sequence[tuple[int, int]], nearest: 'Nearest', outputs: Sequence[str]
    ) -> dict[int, list[tuple[int, list[Piece]]]]:
        """Return the pieces that points put into each output word, with their place in it.

        A point that touches the word before it stays with that, any other with the next word.
        """
        found = dict[int, list[tuple[int, list[Piece]]]]()
        begins = [begin for begin, _ in self._spans]
        marks = [piece.marks for piece in self._joined for _ in piece.text] if points else []
        for at, k in points:
            piece = self.pieces[k]
            blank = Piece(' ', common(piece.marks, marks[at]))
            word = bisect.bisect_left(begins, at) - 1
            begin, stop = self._spans[word]
            if at > stop:
                target, place = nearest(word + 1)[0], 0
                pieces = [piece, blank] if self._whole[at].isspace() else [piece]
            else:
                pieces = [blank, piece] if k in self._blanks else [piece]
                targets = nearest(word)
                target = next(
                    (t for t in reversed(targets) if _CORE.search(outputs[t])), targets[-1]
                )
                place = _place(outputs[target], self._whole[begin:stop], at - begin)
            found.setdefault(target, []).append((place, pieces))
        return found


class Nearest:
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
        # Of two, the one with more: one of them is often the translation of this word.
        counts = {source: len(self._targets[source]) for source in around}
        return self._targets[min(around, key=lambda x: (abs(x - word), -counts[x]))]


def _spans(text: str) -> list[tuple[int, int]]:
    """Return where each word of `text.split()` begins and ends."""
    found, end = [], 0
    for word in text.split():
        begin = text.index(word, end)
        end = begin + len(word)
        found.append((begin, end))
    return found


def _collapsed(text: str) -> str:
    """Return a text with one blank in the place of several, except in placeholders."""
    if not _BLANKS.search(text):
        return text.strip()
    parts, end = list[str](), 0
    for placeholder in find_placeholders(text):
        parts.append(_BLANKS.sub(' ', text[end : placeholder.begin]))
        parts += (' ' if x.isspace() else x for x in text[placeholder.begin : placeholder.end])
        end = placeholder.end
    return ''.join([*parts, _BLANKS.sub(' ', text[end:])]).strip()


def _divided(word: str) -> tuple[str, str, str]:
    """Return the punctuation before a word, the word, and the punctuation after it."""
    before, core, after = _WORD.fullmatch(word).groups()
    # A vowel sign or an accent is no letter for `re`, but belongs to its letter.
    rest = after.lstrip(''.join({x for x in after if unicodedata.category(x)[0] == 'M'}) or '\0')
    signs = len(after) - len(rest) if core else 0
    return before, core + after[:signs], after[signs:]


def _word(text: str, marks: Sequence[Marks]) -> _Word:
    before, core, _ = map(len, _divided(text))
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


def _without_blanks(pieces: Sequence[Piece]) -> tuple[set[int], list[Piece]]:
    """Remove a blank if only a point separates it from following punctuation: 'see <img> , too'.

    Returns:
      The indices of the points that need a blank before them, and the pieces.
    """
    blanks, joined = set[int](), list(pieces)
    last, point = None, None  # the last piece with a text, and the first point after it
    for k, piece in enumerate(pieces):
        if piece.point is not None:
            point = k if point is None else point
        elif piece.text:
            if last is not None and point is not None and _CLOSING.match(piece.text):
                before = joined[last].text.rstrip()
                if before and before != joined[last].text:
                    joined[last] = joined[last]._replace(text=before)
                    blanks.add(point)
            last, point = k, None
    return blanks, joined


def _place(output: str, source: str, at: int) -> int:
    """Return where in an output word a point is that is in a word of the text, or at its end."""
    if output == source:
        return at
    if at < len(source) and not _CORE.search(source[at:]) and _CORE.search(output):
        return len(output) - len(_divided(output)[2])  # before its punctuation
    return len(output)


def _inserted(parts: Sequence[Piece], points: list[tuple[int, list[Piece]]]) -> list[Piece]:
    """Return the parts of a word with points in them, each of which has a place in the word."""
    points = sorted(points, key=lambda point: point[0])
    found, at = list[Piece](), 0
    for part in parts:
        begin = 0
        while points and points[0][0] < at + len(part.text):
            place, pieces = points.pop(0)
            if text := part.text[begin : place - at]:
                found.append(part._replace(text=text))
            found += pieces
            begin = max(begin, place - at)
        found.append(part._replace(text=part.text[begin:]))
        at += len(part.text)
    return found + [piece for _, pieces in points for piece in pieces]


def _parts(word: str, core: Marks, source: _Word | None, behind: Marks | None) -> list[Piece]:
    """Return an output word, whose punctuation is marked as that of its source word is.

    Args:
      word: the output word.
      core: its marks.
      source: its source word.
      behind: the marks of punctuation behind it, if its source word has none; None takes `core`.
    """
    before, middle, after = _divided(word)
    of_before, of_after = core, core if behind is None else behind
    if not middle:
        of_before = of_after
    if source is not None:
        is_copied = word == source.text
        if (source.is_mixed or is_copied) and (parts := _marked_within(word, source)):
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
    """Return an output word that is its source word, or begins or ends as that, as in 'CO2'.

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


def _cores(words: Sequence[_Word], sources: Sequence[int | None], nearest: Nearest) -> list[Marks]:
    """Return the marks of each output word."""
    found = [None if s is None else words[s].core for s in sources]
    # If none of a mark's words is aligned, the mark goes to the nearest output word.
    present = {mark for marks in found if marks for mark in marks}
    for s, word in enumerate(words):
        if not present.issuperset(word.core):
            t = nearest(s)[-1]
            if common(found[t] or (), word.core) == (found[t] or ()):
                found[t] = word.core
                present.update(word.core)
    following, behind = list[Marks | None](), None  # the next marks after each word
    for marks in reversed(found):
        following.append(behind)
        behind = behind if marks is None else marks
    for t, behind in enumerate(reversed(following)):
        if found[t] is None:
            before = found[t - 1] if t else None  # filled already
            known = [x for x in (before, behind) if x is not None]
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


def with_whole_placeholders(
    pieces: Sequence[Piece], source: Sequence[Piece], begins: Collection[Any] = ()
) -> list[Piece]:
    """Return a translation in which no point is in a place for a value, and no mark divides one.

    Args:
      pieces: the translation.
      source: the text, in which points and marks may be where they like.
      begins: the points that move in front of a place; others move behind it.
    """
    divided = {text for text, inner in _in_places(source) if len(inner) > 1}
    found = list[Piece]()
    for place, inner in _in_places(pieces):
        if len(inner) == 1 or not place or place in divided:
            found += inner
            continue
        points = [x for x in inner if not x.text]
        found += (x for x in points if x.point is not None and x.point in begins)
        found.append(Piece(place, max((x.marks for x in inner if x.text), key=len)))
        found += (x for x in points if x.point is None or x.point not in begins)
    return found


def _in_places(pieces: Sequence[Piece]) -> Iterator[tuple[str, list[Piece]]]:
    """Yield each place for a value, and the pieces in it; '' and each piece between two places."""
    text = ''.join(piece.text for piece in pieces)
    spans = value_spans(text)[::-1]
    inner, at = list[Piece](), 0
    for piece in pieces:
        if not piece.text:
            if inner:
                inner.append(piece)
            else:
                yield '', [piece]
        stop = at + len(piece.text)
        while at < stop:
            begin, end = spans[-1] if spans else (len(text),) * 2
            to = min(end if at >= begin else begin, stop)
            part, at = piece._replace(text=text[at:to]), to
            if at <= begin:
                yield '', [part]
                continue
            inner.append(part)
            if at == end:
                spans.pop()
                yield text[begin:end], inner
                inner = []


def common(*marks: Marks) -> Marks:
    """Return the marks with which all of these begin."""
    first, *others = marks
    return first[: min((_same(first, other) for other in others), default=len(first))]


def _same(first: Sequence[Any], second: Sequence[Any]) -> int:
    """Return the number of items with which both begin."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((k for k, (a, b) in pairs if a != b), min(len(first), len(second)))
