"""Divides texts into sentences that fit the compiled programs, and joins their translations."""

from collections.abc import Iterator
from typing import NamedTuple

from transformer_jax.serving.languages import Pair
from transformer_jax.translating.segments import (
    SegmentedText,
    SentenceSplitter,
    divide_templates,
    split_text,
)
from transformer_jax.translating.target_languages import tagged
from transformer_jax.translator import Translator


class TextSplitter:
    """Divides texts of one language, to be translated into another.

    A sentence of too many tokens is divided between words, and a word of too many in itself, so
    that nothing is cut away.
    """

    def __init__(self, pair: Pair, translator: Translator, most: int):
        """Load the rules of the language.

        Args:
          pair: codes of the languages.
          translator: translates between them.
          most: the most tokens of a part, EOS included.
        """
        self._split, self._most = SentenceSplitter(pair[0]), most
        self._vocabulary = translator.vocabulary.source
        languages = translator.segments.languages
        self._tag, self.divide = languages.tag(pair[1]), languages.divide

    def __call__(self, text: str) -> SegmentedText:
        """Return the parts of a text; a tag holds for the parts from there on."""
        whole = divide_templates(split_text(text, self._split, self._tag, self.divide))
        segments, tags = list[str](), list[str]()
        separators = [whole.separators[0]]
        for segment, after, tag in zip(
            whole.segments, whole.separators[1:], whole.tags, strict=True
        ):
            if not any(map(str.isalpha, segment)):  # numbers and signs stay as they are
                separators[-1] += segment + after
                continue
            *parts, last = self._parts(segment, tag)
            for part in parts:
                segments.append(part.text)
                separators.append(part.after)
            segments.append(last.text)
            separators.append(last.after + after)
            tags += [tag] * (1 + len(parts))
        return SegmentedText(tuple(segments), tuple(separators), tuple(tags))

    def _parts(self, segment: str, tag: str) -> Iterator['_Part']:
        (ids,) = self._vocabulary.encode([tagged(tag, segment)])
        if len(ids) <= self._most or len(segment) == 1:
            yield _Part(segment, '')
            return
        middle = len(segment) // 2
        # Divide at the blank that is nearest to the middle.
        blanks = [k for k, character in enumerate(segment) if character.isspace()]
        at = min(blanks, key=lambda k: abs(k - middle), default=middle)
        first, second = segment[:at].rstrip(), segment[at:].lstrip()
        if not first or not second:
            first, second = segment[:middle], segment[middle:]
        *parts, last = self._parts(first, tag)
        yield from parts
        between = segment[len(first) : len(segment) - len(second)]
        yield last._replace(after=between)
        yield from self._parts(second, tag)


class _Part(NamedTuple):
    text: str
    after: str
