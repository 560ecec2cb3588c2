"""A text whose placeholders the model does not see, and its translation, which has them again.

In the place of a number or a name the model sees another one, its stand-in, which it copies; signs
are left out. Where an output lacks a stand-in, and for signs, the alignment of the words says where
the placeholder goes. So each is in the translation exactly once.
"""

import bisect
import functools
import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

from transformer_jax.translating.outputs import Translation
from transformer_jax.translating.placeholders.marked_text import MarkedText, Nearest, Piece

_WORD = re.compile(r'\S+')
_CORE = re.compile(r'\w(?:.*\w)?', re.DOTALL)


class Masked(NamedTuple):
    """A placeholder of a text.

    Attributes:
      begin: where it begins in the text.
      end: where it ends.
      stand_in: what the model sees in its place; '' if it sees nothing.
    """

    begin: int
    end: int
    stand_in: str


class _Part(NamedTuple):
    """A part of a translation: a placeholder, or characters of the output.

    Attributes:
      text: its characters.
      word: the word of the output.
      placeholder: the index of the placeholder; None for the output itself.
    """

    text: str
    word: int
    placeholder: int | None = None


class MaskedText:
    """A text with stand-ins.

    Attributes:
      text: what the model sees.
    """

    def __init__(self, text: str, masked: Sequence[Masked]):
        """Take a text and its placeholders, in their order; no two have the same stand-in."""
        self._placeholders = [text[x.begin : x.end] for x in masked]
        self._stand_ins = {x.stand_in: k for k, x in enumerate(masked) if x.stand_in}
        self._has_signs = len(self._stand_ins) < len(masked)
        # Where in the text each character, other than blanks, of what the model sees comes from.
        pieces, origins, end = list[Piece](), list[int](), 0
        for k, x in enumerate([*masked, Masked(len(text), len(text), '')]):
            pieces.append(Piece(text[end : x.begin]))
            origins += (at for at in range(end, x.begin) if not text[at].isspace())
            if k < len(masked):
                pieces.append(Piece(x.stand_in) if x.stand_in else Piece('', (), k))
            origins += [x.begin] * len(x.stand_in)
            end = x.end
        self._marked = MarkedText(pieces)
        self.text = self._marked.text
        begins = [word.start() for word in _WORD.finditer(text)]
        # The word of the text that each word of the model, and each placeholder, begins in.
        self._words, at = list[int](), 0
        for word in self.text.split():
            self._words.append(bisect.bisect_right(begins, origins[at]) - 1)
            at += len(word)
        self._first_words = [bisect.bisect_right(begins, x.begin) - 1 for x in masked]

    def needs_alignment(self, output: str) -> bool:
        """Return whether `restored` needs the alignment of an output."""
        return self._has_signs or not self.is_complete(output)

    def is_complete(self, output: str) -> bool:
        """Return whether an output has each stand-in exactly once."""
        found = [match[0] for match in self._pattern.finditer(output)]
        return len(found) == len({*found}) == len(self._stand_ins)

    def restored(self, output: Translation, align: bool) -> Translation:
        """Return an output with the placeholders.

        Args:
          output: of `text`, with its alignment if it needs one or `align`.
          align: whether to align the words of the whole text with those of the whole output.
        """
        alignment = output.alignment or ()
        words = self._parts(output.text, alignment)
        self._add_lost(words, output.text, alignment)
        parts = [part for word in words for part in word]
        text = ''.join(part.text for part in parts).strip()
        found = self._aligned(parts, alignment) if align else None
        return output._replace(text=text, alignment=found)

    @functools.cached_property
    def _pattern(self) -> re.Pattern[str]:
        """Finds stand-ins, and placeholders that a forced beginning has."""
        names = '|'.join(map(re.escape, self._stand_ins))
        copied = '|'.join(re.escape(self._placeholders[k]) for k in self._stand_ins.values())
        # Neither a part of a longer number, nor, where it is a name, of a longer word.
        return re.compile(
            rf'(?<![0-9])(?:(?<![A-Za-z])(?=\D)|(?=\d))(?:{names})'
            rf'(?:(?<=\d)(?![0-9]|[.,]\d)|(?<=\D)(?![0-9A-Za-z]))|{copied}'
        )

    @functools.cached_property
    def _by_text(self) -> dict[str, list[int]]:
        """The placeholders that each match of `_pattern` can be."""
        found = {stand_in: [k] for stand_in, k in self._stand_ins.items()}
        for k in self._stand_ins.values():
            found.setdefault(self._placeholders[k], []).append(k)
        return found

    @functools.cached_property
    def _word_of(self) -> dict[int, int]:
        """The word of `text` that has the stand-in of each placeholder."""
        return {
            self._stand_ins[match[0]]: word
            for word, text in enumerate(self.text.split())
            for match in self._pattern.finditer(text)
            if match[0] in self._stand_ins
        }

    def _parts(self, output: str, alignment: Sequence[tuple[int, int]]) -> list[list[_Part]]:
        """Return the parts of each word, in which those stand-ins are replaced that are there."""
        words, present = list[list[_Part]](), set[int]()
        for t, pieces in enumerate(self._marked.translated_words(output, alignment)):
            parts, dropped = list[_Part](), False
            for point, group in itertools.groupby(pieces, lambda piece: piece.point):
                if point is not None:
                    parts.append(_Part(self._placeholders[point], t, point))
                    continue
                text, end = ''.join(piece.text for piece in group), 0
                for match in self._pattern.finditer(text) if self._stand_ins else ():
                    parts.append(_Part(text[end : match.start()], t))
                    end = match.end()
                    of_text = self._by_text[match[0]]
                    placeholder = next((k for k in of_text if k not in present), None)
                    if placeholder is None:
                        dropped = True
                    else:
                        present.add(placeholder)
                        parts.append(_Part(self._placeholders[placeholder], t, placeholder))
                parts.append(_Part(text[end:], t))
            if dropped and not _CORE.search(''.join(part.text for part in parts)):
                parts = [part._replace(text=part.text.strip()) for part in parts]
            words.append(parts)
        return words

    def _add_lost(
        self, words: list[list[_Part]], output: str, alignment: Sequence[tuple[int, int]]
    ) -> None:
        """Add the placeholders whose stand-in an output lacks.

        They replace the words that are aligned with the stand-in, such as a number in letters.
        Without such words they follow the word that is nearest.
        """
        present = {part.placeholder for word in words for part in word}
        # A forced beginning may have a placeholder of several words.
        lost = [
            k
            for k in self._stand_ins.values()
            if k not in present and not self._is_forced(k, output)
        ]
        sources: list[int | None] = [None] * len(words)
        for s, t in alignment:
            sources[t] = s
        nearest = Nearest(sources)
        for k in lost:
            s = self._word_of[k]
            own = [t for t, source in enumerate(sources) if source == s and _has_core(words[t])]
            first = last = own[-1] if own else nearest(s)[-1]
            while first - 1 in own:
                first -= 1
            texts = [''.join(part.text for part in word) for word in words[first : last + 1]]
            before, core, after = _divided(texts[0])
            placeholder = _Part(self._placeholders[k], last, k)
            if own:
                added = [_Part(before, last), placeholder, _Part(_divided(texts[-1])[2], last)]
            elif not _has_core(words[last]):
                added = [_Part(' ', last), placeholder, *words[last]]
            elif s:
                added = [_Part(before + core + ' ', last), placeholder, _Part(after, last)]
            else:
                added = [_Part(before, last), placeholder, _Part(f' {core}{after}', last)]
            words[first : last + 1] = [*([] for _ in texts[1:]), added]

    def _is_forced(self, k: int, output: str) -> bool:
        return ' ' in self._placeholders[k] and self._placeholders[k] in output

    def _aligned(
        self, parts: Sequence[_Part], alignment: Sequence[tuple[int, int]]
    ) -> tuple[tuple[int, int], ...]:
        """Return pairs (word of the whole text, word of the whole output)."""
        sources: dict[int, list[int]] = {}
        for s, t in alignment:
            sources.setdefault(t, []).append(self._words[s])
        starts = [0, *itertools.accumulate(len(part.text) for part in parts)]
        first_words, pairs = dict[int, int](), set[tuple[int, int]]()
        for k, word in enumerate(_WORD.finditer(''.join(part.text for part in parts))):
            begin = bisect.bisect_right(starts, word.start()) - 1
            within = parts[begin : bisect.bisect_left(starts, word.end())]
            part = next((x for x in within if x.placeholder is not None), within[0])
            if part.placeholder is None:
                pairs.update((s, k) for s in sources.get(part.word, ()))
            else:
                first = first_words.setdefault(part.placeholder, k)
                pairs.add((self._first_words[part.placeholder] + k - first, k))
        return tuple(sorted(pairs))


def _has_core(word: Sequence[_Part]) -> bool:
    """Whether a word has a letter or digit, and no placeholder."""
    return all(part.placeholder is None for part in word) and any(
        _CORE.search(part.text) for part in word
    )


def _divided(text: str) -> tuple[str, str, str]:
    """Return what is before the letters and digits of a word, these, and what is after them."""
    core = _CORE.search(text)
    if core is None:
        return text, '', ''
    return text[: core.start()], core[0], text[core.end() :]
