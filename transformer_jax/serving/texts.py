"""Divides texts into sentences that fit the compiled programs, and joins their translations."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from transformer_jax.inference.segments import SegmentedText, SentenceSplitter, split_text


class TextSplitter:
    """Divides texts of one language.

    A sentence of too many tokens is divided between words, and a word of too many in itself, so
    that nothing is cut away.
    """

    def __init__(self, language: str, lengths: Callable[[list[str]], list[int]], most: int):
        """Load the rules of the language.

        Args:
          language: its code.
          lengths: returns the tokens of each text, EOS included.
          most: the most tokens of a part, EOS included.
        """
        self._split = SentenceSplitter(language)
        self._lengths, self._most = lengths, most

    def __call__(self, text: str) -> SegmentedText:
        """Return the parts of a text."""
        whole = split_text(text, self._split)
        segments: list[str] = []
        separators = [whole.separators[0]]
        for segment, after in zip(whole.segments, whole.separators[1:], strict=True):
            if not any(map(str.isalpha, segment)):  # numbers and signs stay as they are
                separators[-1] += segment + after
                continue
            *parts, last = self._parts(segment)
            for part in parts:
                segments.append(part.text)
                separators.append(part.after)
            segments.append(last.text)
            separators.append(last.after + after)
        return SegmentedText(tuple(segments), tuple(separators))

    def _parts(self, segment: str) -> Iterator['_Part']:
        (length,) = self._lengths([segment])
        if length <= self._most or len(segment) == 1:
            yield _Part(segment, '')
            return
        middle = len(segment) // 2
        # Divide at the blank that is nearest to the middle.
        blanks = [k for k, character in enumerate(segment) if character.isspace()]
        at = min(blanks, key=lambda k: abs(k - middle), default=middle)
        first, second = segment[:at].rstrip(), segment[at:].lstrip()
        if not first or not second:
            first, second = segment[:middle], segment[middle:]
        *parts, last = self._parts(first)
        yield from parts
        between = segment[len(first) : len(segment) - len(second)]
        yield last._replace(after=between)
        yield from self._parts(second)


class _Part(NamedTuple):
    text: str
    after: str
