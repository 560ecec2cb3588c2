"""Divides a text into lines or sentences, and joins their translations as the text was."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from transformer_jax.data.language_codes import language_of
from transformer_jax.errors import UserError
from transformer_jax.translating.placeholders.paired_marks import (
    BEFORE_WORDS,
    as_part,
    divided,
    may_divide,
)
from transformer_jax.translating.placeholders.patterns import find_placeholders
from transformer_jax.translating.target_languages import tagged

# The line ends of text files. The other characters at which `str.splitlines` divides (U+2028,
# U+0085, form feed, ...) also occur within sentences, and the command `translate` keeps them there.
_LINE_ENDS = re.compile('([\r\n]+)')
_BLANK = re.compile(r'\s')


class SegmentedText(NamedTuple):
    """The parts of a text to translate, and everything between them.

    Attributes:
      segments: lines or sentences, without blanks at their ends; none of them is empty.
      separators: blanks and line ends before the first segment, between segments, and after the
        last one; always one more than `segments`.
      tags: what names the target language of each segment, '' for nothing; none if a text is split
        without regard to tags.
    """

    segments: tuple[str, ...]
    separators: tuple[str, ...]
    tags: tuple[str, ...] = ()

    def joined(self, outputs: Sequence[str]) -> list[str]:
        """Return a separator, the first output, a separator, the second output, ..., a separator.

        Together they are the text with `outputs` in the place of its segments. Chinese and Japanese
        have no blank between sentences. An output that does not end with a wide character, as
        theirs do, gets a blank there.

        Args:
          outputs: one for each segment; the segments themselves give the text back.

        Raises:
          ValueError: if there is not one output for each segment.
        """
        parts = [self.separators[0]]
        for k, (segment, output) in enumerate(zip(self.segments, outputs, strict=True), 1):
            separator = self.separators[k]
            if may_divide(parts[-1]) or may_divide(separator):
                output = as_part(output, segment)
            is_glued = k < len(self.segments) and not separator
            if is_glued and _ends_wide(segment) and not _ends_wide(output):
                separator = ' '
            parts += output, separator
        return parts

    def tagged(self) -> list[str]:
        """Return the segments, each behind its tag."""
        return [*map(tagged, self.tags, self.segments)]

    def join(self, outputs: Sequence[str]) -> str:
        """Return the text with `outputs` in the place of its segments, see `joined`."""
        return ''.join(self.joined(outputs))


def split_lines(text: str) -> SegmentedText:
    r"""Return the lines of a text that are not blank; lines end with \n, \r\n or \r."""
    # The usual text is one line, without blanks around it.
    if '\n' not in text and '\r' not in text and text and text == text.strip():
        return SegmentedText((text,), ('', ''))
    return _segmented(_LINE_ENDS.split(text))


class SentenceSplitter:
    """Divides texts of one language into sentences, by the rules of the package sentencex."""

    def __init__(self, language: str):
        """Load the package.

        Args:
          language: code of the language, for example 'en' or 'zh-TW'. The rules of English apply
            to languages that sentencex does not know.

        Raises:
          UserError: if the package is not installed.
        """
        try:
            import sentencex
        except ModuleNotFoundError:
            raise UserError(
                "paragraphs needs the package sentencex: pip install -e '.[paragraphs]'."
            ) from None
        self._segment = sentencex.segment
        self._language = language_of(language)

    def __call__(self, text: str) -> SegmentedText:
        """Return the sentences of a text, each of which is within a line of `split_lines`.

        Args:
          text: a text without lone surrogates.
        """
        lines = _LINE_ENDS.split(text)
        return _segmented(sentence for line in lines for sentence in self._sentences(line))

    def _sentences(self, line: str) -> Iterator[str]:
        """Yield the sentences of a line, which together are the line."""
        begin = end = 0
        within = {at for x in find_placeholders(line) for at in range(x.begin + 1, x.end)}
        # Version 1.0.32 fails at some blanks that are not ASCII, for example in 'Z\u00a0.'.
        for piece in self._segment(self._language, _BLANK.sub(' ', line)):
            end += len(piece)
            if not _needs_more(piece) and end not in within:
                yield line[begin:end]
                begin = end
        yield line[begin:]


def _needs_more(piece: str) -> bool:
    """Whether a sentence goes on after `piece`, although sentencex divides the text there.

    After the number of a list item ("1.") and after an initial ("M. Dupont"), two sentences in one
    segment harm a translation less than a sentence in two.
    """
    *_, last = ['', *piece.split()]
    is_initial = len(last) == 2 and last[0].isupper() and last[1] == '.'
    return is_initial or not any(map(str.isalpha, piece))


def _segmented(pieces: Iterable[str]) -> SegmentedText:
    """Return the pieces without blanks at their ends as segments, and all blanks as separators."""
    segments, separators, blanks = [], [], ''
    for piece in pieces:
        if not (segment := piece.strip()):
            blanks += piece
            continue
        before = len(piece) - len(piece.lstrip())
        segments.append(segment)
        separators.append(blanks + piece[:before])
        blanks = piece[before + len(segment) :]
    return SegmentedText(tuple(segments), (*separators, blanks))


def _ends_wide(text: str) -> bool:
    """Whether a text ends with a character of a script that has no blank between sentences."""
    return unicodedata.east_asian_width(text[-1:] or ' ') in 'FWH'


def split_text(
    text: str,
    splitter: SentenceSplitter | None,
    tag: str = '',
    divide: Callable[[str, str], tuple[str, str]] | None = None,
) -> SegmentedText:
    """Split a text into sentences, or without a splitter into lines, if it has several.

    Args:
      text: a text.
      splitter: of sentences.
      tag: names the target language of the segments before the first tag in the text.
      divide: returns the tag that holds for a segment, and the segment without it; see
        `TargetLanguages.divide`. A tag holds for the segments from there on.
    """
    if divide is not None:
        # Before the search for sentences, which would take '<<' for quotation marks.
        tag, text = divide(text, tag)
    if splitter is not None:
        found = splitter(text)
    elif '\n' in text or '\r' in text:
        found = split_lines(text)
    else:
        found = SegmentedText((text,), ('', ''))
    return found if divide is None else _with_tags(found, tag, divide)


def divide_templates(text: SegmentedText) -> SegmentedText:
    """Return a text whose segments are divided at commands of templates, see `paired_marks`.

    The commands become separators, together with the punctuation behind them.
    """
    segments, tags, separators = list[str](), list[str](), [text.separators[0]]
    every_tag = text.tags or ('',) * len(text.segments)
    for segment, tag, after in zip(text.segments, every_tag, text.separators[1:], strict=True):
        parts = divided(segment)
        if len(parts) == 1:
            segments.append(segment)
            tags.append(tag)
            separators.append(after)
            continue
        for k, part in enumerate(parts):
            begin = BEFORE_WORDS.match(part).end() if k else 0
            words = part[begin:].rstrip()
            if k % 2 or not any(map(str.isalnum, words)):
                separators[-1] += part
                continue
            separators[-1] += part[:begin]
            segments.append(words)
            tags.append(tag)
            separators.append(part[begin + len(words) :])
        separators[-1] += after
    return SegmentedText(tuple(segments), tuple(separators), text.tags and tuple(tags))


def _with_tags(
    text: SegmentedText, tag: str, divide: Callable[[str, str], tuple[str, str]]
) -> SegmentedText:
    segments, tags, separators = [], [], [text.separators[0]]
    for segment, after in zip(text.segments, text.separators[1:], strict=True):
        tag, rest = divide(segment, tag)
        if segment and not rest:  # a tag alone
            separators[-1] += after
            continue
        segments.append(rest)
        tags.append(tag)
        separators.append(after)
    return SegmentedText(tuple(segments), tuple(separators), tuple(tags))
