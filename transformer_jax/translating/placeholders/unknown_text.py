"""Emoji, and words in scripts that a model does not know, which are copied."""

import functools
import re
import unicodedata
from collections.abc import Iterator

from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.translating.placeholders.patterns import Kind, Placeholder

_EMOJI = re.compile('[\u231a-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]')
# What joins emoji to one, or says how one is shown. With the last, a digit is an emoji.
_JOINERS = '\u200d\ufe0e\ufe0f\u20e3\U000e0020-\U000e007f'
_KEYCAP = re.compile('[0-9#*]\ufe0f?\u20e3')
_JOINER = re.compile(f'[{_JOINERS}]')
_ASCII = frozenset(map(chr, range(128)))


class UnknownText:
    """Finds what the vocabulary of a model has no characters for."""

    def __init__(self, vocabulary: Vocabulary):
        """Take the vocabulary of the texts."""
        self._vocabulary = vocabulary
        self._unknown = set[str]()

    @functools.cached_property
    def _known(self) -> set[str]:
        """Characters that need no closer look; those that turn out to be known are added."""
        return {x for x in self._vocabulary.characters if not _EMOJI.match(x)} | _ASCII

    def is_known(self, character: str) -> bool:
        """Return whether the vocabulary has a character, or what it is normalised to."""
        if character in self._known or character in self._unknown:
            return character in self._known
        normal = unicodedata.normalize('NFKC', character)
        forms = [normal, normal.lower(), normal.casefold()]
        if character.isalpha():  # a letter without its accent is of the same script
            forms.append(unicodedata.normalize('NFKD', character)[0])
        found = not _EMOJI.match(character) and any(
            self._vocabulary.characters.issuperset(x.replace(' ', '')) for x in forms
        )
        (self._known if found else self._unknown).add(character)
        return found

    def find(self, text: str) -> list[Placeholder]:
        """Return words and signs that are unknown, those beside each other as one."""
        if text.isascii() or self._known.issuperset(text):
            return []
        found: list[Placeholder] = []
        for run in self._runs(text):
            before = found[-1] if found else None
            if before is not None and before.kind == run.kind:
                between = text[before.end : run.begin]
                if not any(map(str.isalnum, between)) and (
                    run.kind == Kind.NAME or not between.strip()
                ):
                    found[-1] = before._replace(end=run.end)
                    continue
            found.append(run)
        return found

    def _runs(self, text: str) -> Iterator[Placeholder]:
        """Yield signs, and words of which the vocabulary lacks more than half of the letters."""
        at = 0
        while at < len(text):
            begin = at
            if keycap := _KEYCAP.match(text, at):
                at = keycap.end()
                yield Placeholder(begin, at, Kind.SIGN)
            elif text[at].isalnum():
                script, counts = _script(text[at]), [0, 0]
                while at < len(text) and _is_within(text[at], script):
                    counts[self.is_known(text[at])] += text[at].isalnum()
                    at += 1
                if counts[False] > counts[True]:
                    yield Placeholder(begin, at, Kind.NAME)
            elif self._is_sign(text[at]):
                at += 1
                while at < len(text) and (_JOINER.match(text, at) or self._is_sign(text[at])):
                    at += 1
                yield Placeholder(begin, at, Kind.SIGN)
            else:
                at += 1

    def _is_sign(self, character: str) -> bool:
        """Whether a character is an emoji or another symbol that the vocabulary lacks."""
        return unicodedata.category(character) in _SYMBOLS and not self.is_known(character)


_SYMBOLS = frozenset(['Sc', 'Sk', 'Sm', 'So', 'Co', 'Cn'])


def _is_within(character: str, script: str) -> bool:
    if unicodedata.category(character).startswith('M'):
        return True  # a vowel sign, or the accent of a letter
    return character.isalnum() and _script(character) == script


@functools.lru_cache(maxsize=4096)
def _script(character: str) -> str:
    """Return the first word of a letter's name, which is that of its script."""
    if character.isascii():
        return 'LATIN'
    return unicodedata.name(character, '').partition(' ')[0]
