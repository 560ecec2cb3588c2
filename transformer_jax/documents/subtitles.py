"""Subtitles in the format SubRip (.srt): times, numbers and formats stay.

A sentence that goes on in the next subtitle is translated as a whole. Its translation is divided
where the alignment of the words says so.
"""

import bisect
import datetime
import functools
import html
import itertools
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from transformer_jax.documents.markup import Element, rendered
from transformer_jax.documents.subtitle_tags import (
    ENTITY,
    MOST_OPEN,
    TAG,
    Tag,
    follow,
    has_letters,
    plain,
    tag_of,
    unescaped,
)
from transformer_jax.errors import UserError, shown
from transformer_jax.translating.outputs import Translation
from transformer_jax.translating.placeholders.marked_text import MarkedText, Marks, Piece

# Files come from people who may mean harm. The time of these expressions is linear in a text.
_SIGN = '[,.:，．。：]'
_TIME = rf'([0-9]++){_SIGN}([0-9]++){_SIGN}([0-9]++){_SIGN}?+([0-9]*+)'
# A subtitle starts with a blank line, a number or both, then a line with two times. If that line is
# damaged, the groups of the times are None.
_HEAD = re.compile(
    rf'\n(?:\n?(-?[0-9]++\.?[0-9]*+)\s*)?\n'
    rf'(?:(?P<times>{_TIME} *+-[ -] *+> *+{_TIME}(?: [^\n]*+)?)[^\n]*+(?:\n|\Z)'
    rf'|{_TIME} *+[-=\u2013\u2014]*+ *+(?:[>\u2192]|{_TIME}))'
)
_LINE_END = re.compile(r'\n|\\N|<br ?/?>', re.IGNORECASE)
# Where the screen shows a line, and the dash that says that another person speaks.
_BEFORE = re.compile(r'(?:\{\\(?!(?:\\?[ibus]1)+\})[^{}]*\})*')
_DASH = re.compile(r'[-\u2013\u2014]\s*')
_SENTENCE_END_REVERSED = re.compile(r'\W*?[.!?…。！？:;"”»)\]♪]')
# Lines and tags that a file may have; a film has far fewer.
_MOST_PARTS = 200_000
_MOST_JOINED = 4
_MOST_PAUSE = datetime.timedelta(seconds=1)
_LINE = 42  # characters, a usual limit


class _Cue(NamedTuple):
    """A subtitle.

    Attributes:
      number: what the file counts it as, '' if it has none.
      times: the line of its times, and of what follows them.
      start: when it appears.
      end: when it disappears.
      content: its lines.
    """

    number: str
    times: str
    start: datetime.timedelta
    end: datetime.timedelta
    content: str


class _Line(NamedTuple):
    """What one person says in a subtitle.

    Attributes:
      cue: index of the subtitle.
      before: what stays before the text.
      text: with tags.
      lines: number of lines that it has.
    """

    cue: int
    before: str
    text: str
    lines: int


class Subtitles:
    """The texts of a file of subtitles.

    Attributes:
      texts: each what one person says, often a sentence.
      needs_alignment: True, see `Document`.
    """

    needs_alignment = True

    def __init__(self, source: str):
        """Find the texts.

        Raises:
          UserError: if the file is no SubRip file, or is too large.
        """
        self._line_end = '\r\n' if '\r\n' in source else '\n'
        # Some programs write '\r\r\n'.
        source = source.replace('\r\r\n', '\n').replace('\r\n', '\n')
        if sum(map(source.count, ('\n', '\\N', '<', '{'))) > _MOST_PARTS:
            raise UserError(
                f'the file has more than {_MOST_PARTS:,} lines and tags: divide it into several.'
            )
        self._cues = _cues(source)
        self._end = source[len(source.rstrip('\n')) :]
        self._groups = [_Group(lines) for lines in self._grouped()]
        self.texts = [group.text.text for group in self._groups if group.text.has_letters]

    def translated(self, outputs: Sequence[Translation], language: str = '') -> str:
        """Return the subtitles with a translation, with alignment, in the place of each text."""
        of_cue: list[list[str]] = [[] for _ in self._cues]
        remaining = iter(outputs)
        for group in self._groups:
            if not group.text.has_letters:
                for line in group.lines:
                    of_cue[line.cue].append(line.before + line.text)
                continue
            texts = group.translated(next(remaining))
            for line, text in zip(group.lines, texts, strict=True):
                of_cue[line.cue].append(line.before + text)
        text = '\n\n'.join(
            _composed(cue._replace(content='\n'.join(texts)) if texts else cue)
            for cue, texts in zip(self._cues, of_cue, strict=True)
        )
        return (text + self._end).replace('\n', self._line_end)

    def _grouped(self) -> list[list[_Line]]:
        """Return the lines that are translated together."""
        groups: list[list[_Line]] = []
        for k, cue in enumerate(self._cues):
            for n, line in enumerate(_lines(k, cue.content)):
                before = groups[-1] if groups else []
                goes_on = (
                    n == 0
                    and k > 0
                    and 0 < len(before) < _MOST_JOINED
                    and before[-1].cue == k - 1
                    and cue.start - self._cues[k - 1].end <= _MOST_PAUSE
                    and has_letters(before[-1].text)
                    and not _SENTENCE_END_REVERSED.match(plain(before[-1].text)[::-1])
                    and _begins_within(line)
                )
                if goes_on:
                    before.append(line)
                else:
                    groups.append([line])
        return groups


class _Group:
    """Lines of subtitles that are translated together.

    Attributes:
      lines: the lines.
      text: their text.
    """

    def __init__(self, lines: Sequence[_Line]):
        self.lines = lines
        self._elements: list[Element] = []
        self._open: Marks = ()  # tags of one line may end in the next
        self._names: list[str] = []
        pieces: list[Piece] = []
        self._ends: list[int] = []  # the number of words up to the end of each line
        has_entities = any(ENTITY.search(line.text) for line in lines)
        self._escape = functools.partial(html.escape, quote=False) if has_entities else str
        for line in lines:
            if pieces:
                pieces.append(Piece(' '))
            pieces += self._pieces(line.text)
            self._ends.append(len(''.join(piece.text for piece in pieces).split()))
        self.text = MarkedText(pieces)

    def translated(self, output: Translation) -> list[str]:
        """Return the translation of each line."""
        line_of = [0] * max(1, len(output.text.split()))
        for source, target in output.alignment or ():
            line_of[target] = sum(end <= source for end in self._ends)
        words: list[list[Piece]] = []
        for k, pieces in enumerate(self.text.translated_words(output.text, output.alignment or ())):
            # Signs such as the French ' ?' stay in the line of their word.
            if words and not any(map(str.isalnum, ''.join(piece.text for piece in pieces))):
                words[-1] += pieces
                line_of[k] = -1
            else:
                words.append(pieces)
        line_of = [line for line in line_of if line >= 0]
        ends = _divided(line_of, len(self.lines))
        begins = [0, *ends[:-1]]
        return [
            self._wrapped(words[begin:end], line.lines)
            for line, begin, end in zip(self.lines, begins, ends, strict=True)
        ]

    def _pieces(self, text: str) -> list[Piece]:
        found: list[Piece] = []
        for k, part in enumerate(TAG.split(text)):
            tag = tag_of(part) if k % 2 else None
            if not k % 2:
                is_first = not any(piece.text or piece.point for piece in found)
                if is_first and (dash := _DASH.match(part)):
                    found.append(Piece('', self._open, dash[0]))
                    part = part[dash.end() :]
                if part:
                    found.append(Piece(unescaped(part), self._open))
            elif tag is None or (
                len(self._names) >= MOST_OPEN if tag.is_start else tag.name not in self._names
            ):
                found.append(Piece('', self._open, part))
            elif tag.is_start:
                self._open += (len(self._elements),)
                self._names.append(tag.name)
                self._elements.append(Element(part, tag.end))
            else:
                while self._names.pop() != tag.name:
                    self._open = self._open[:-1]
                self._open = self._open[:-1]
        return found

    def _wrapped(self, words: Sequence[Sequence[Piece]], lines: int) -> str:
        """Return words as text, in lines of similar length."""
        sizes = [sum(len(piece.text) for piece in word) for word in words]
        lines = max(lines, min(2, math.ceil(sum(sizes) / _LINE)))
        widths = range(math.ceil(sum(sizes) / lines), sum(sizes))
        more = bisect.bisect_left(widths, True, key=lambda x: len(_breaks(sizes, x)) < lines)
        breaks = _breaks(sizes, widths.start + more)
        pieces = []
        for k, word in enumerate(words):
            if k in breaks or (k == 0 and word[:1] and word[0].text.isspace()):
                word = [Piece('\n' if k else '', word[0].marks), *word[1:]]
            pieces += word
        return rendered(pieces, self._elements, self._escape)


def _cues(source: str) -> list[_Cue]:
    """Return the subtitles of a file; raise a UserError if it is no SubRip file."""
    text = '\n\n' + source.removeprefix('\ufeff').lstrip()
    if text == '\n\n':
        return []
    cues, head = list[_Cue](), _HEAD.match(text)
    while head and head['times']:
        after = _HEAD.search(text, head.end())
        content = text[head.end() : after.start()] if after else text[head.end() :].rstrip('\n')
        number, times, *fields = head.groups('')
        try:
            start, end = _duration(fields[:4]), _duration(fields[4:8])
            cues.append(_Cue(number, times.rstrip(), start, end, content))
        except (ValueError, OverflowError) as error:
            raise _not_subrip(str(error)) from None
        head = after
    if head or not cues:
        begin = 2 if head is None else head.start(1) if head[1] else head.start() + 2
        line = source.count('\n', 0, len(source) - len(text) + begin) + 1
        raise _not_subrip(f'line {line}: {shown(text[begin : begin + 50].strip())}')
    return cues


def _duration(fields: Sequence[str]) -> datetime.timedelta:
    hours, minutes, seconds = map(int, fields[:3])
    rest = float(f'0.{fields[3][:9] or 0}')
    return datetime.timedelta(hours=hours, minutes=minutes, seconds=seconds + rest)


def _lines(cue: int, content: str) -> list[_Line]:
    """Return what each person says in a subtitle; a dash says that another one speaks."""
    found: list[list[str]] = []
    tags = list[Tag]()  # that are open
    for row in map(str.strip, _LINE_END.split(content)):
        if row and not found:
            found.append([row])
        elif row and _DASH.match(plain(row)):
            # A format around what two persons say is around both lines.
            found[-1][-1] += ''.join(tag.end for tag in reversed(tags))
            found.append([''.join(tag.start for tag in tags) + row])
        elif row:
            found[-1].append(row)
        follow(tags, row)
    lines = []
    for rows in found:
        before = _BEFORE.match(rows[0])[0]
        is_text = has_letters(' '.join(rows))
        text = (' ' if is_text else '\n').join(rows)[len(before) :]
        lines.append(_Line(cue, before, text, len(rows)))
    return lines


def _begins_within(line: _Line) -> bool:
    """Whether a line can go on with a sentence: not with a dash or a capital letter."""
    text = plain(line.text)
    is_capital = text[:1].isupper() and not re.match(r'I\b', text)  # which English writes so
    return not line.before and text[:1].isalpha() and not is_capital


def _not_subrip(reason: str) -> UserError:
    return UserError(
        f'these are no subtitles in the format SubRip ({reason}): convert the file, or correct it.'
    )


def _composed(cue: _Cue) -> str:
    """Return a subtitle as it is in a file."""
    number = cue.number and f'{cue.number}\n'
    return f'{number}{cue.times}\n{cue.content}'


def _divided(line_of: Sequence[int], lines: int) -> list[int]:
    """Return where each line ends, so that most words are in the line of their source words.

    Args:
      line_of: the line of the source word of each word.
      lines: number of lines; each gets a word, if there are enough.
    """
    count = len(line_of)
    least = [0.0] + [math.inf] * count  # cost of the words up to here, in the lines before
    ends: list[list[int]] = []
    for line in range(lines):
        costs = [0, *itertools.accumulate(abs(k - line) for k in line_of)]
        best, begin = [math.inf] * (count + 1), [0] * (count + 1)
        lowest, at = math.inf, 0  # over all places where the line can begin
        for end in range(min(line, count), count + 1):  # the lines before have a word each
            best[end], begin[end] = lowest + costs[end], at
            if least[end] - costs[end] < lowest:
                lowest, at = least[end] - costs[end], end
        best[count], begin[count] = lowest + costs[count], at  # it may be empty at the end only
        least = best
        ends.append(begin)
    found = [count]
    for begin in reversed(ends[1:]):
        found.append(begin[found[-1]])
    return found[::-1]


def _breaks(sizes: Sequence[int], width: int) -> set[int]:
    """Return the words that begin a line, if each line takes as many words as it can."""
    found, length = set(), 0
    for k, size in enumerate(sizes):
        if length and length + size > width:
            found.add(k)
            length = 0
        length += size
    return found
