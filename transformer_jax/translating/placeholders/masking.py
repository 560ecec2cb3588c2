"""Translates segments so that their placeholders, emoji and unknown words are copied."""

import functools
from collections.abc import Sequence
from typing import Any

from transformer_jax.config import DecodeConfig
from transformer_jax.translating.outputs import Translation
from transformer_jax.translating.placeholders.masked_text import Masked, MaskedText
from transformer_jax.translating.placeholders.patterns import Kind, Placeholder, find_placeholders
from transformer_jax.translating.placeholders.unknown_text import UnknownText
from transformer_jax.translating.segment_translator import Segment, SegmentTranslator

# A model copies what it has often seen: names and numbers that are a piece of their own. These
# names are the same in many languages, and few languages inflect them; these numbers are seldom
# written in letters.
_NAMES = (
    'Google Boston Tom Microsoft Facebook Berlin Paris Chicago Madrid Toronto Oslo IBM BBC Linux X'
).split()
_NUMBERS = '25 24 36 27 31 26 43 86 34 95 38 46 73 83 94'.split()


class MaskingTranslator:
    """Translates segments with a `SegmentTranslator` that does not see their placeholders."""

    def __init__(self, segments: SegmentTranslator):
        """Do no work yet."""
        self._translate, self._vocabulary = segments, segments.vocabulary
        self._unknown = UnknownText(segments.vocabulary.source)

    def __call__(
        self,
        segments: Sequence[Segment],
        decode: DecodeConfig,
        *,
        align: bool = False,
        progress: bool = False,
        **options: Any,
    ) -> list[list[Translation]]:
        """Return the outputs of each segment, as a `SegmentTranslator` with these arguments does.

        A segment without a letter that the model knows is copied.
        """
        places = [self._find(segment.text) for segment in segments]
        copied = [k for k, x in enumerate(segments) if self._stays(x, places[k])]
        found = {k: [_copy(segments[k].text, align)] for k in copied}
        given = [k for k in range(len(segments)) if k not in found]
        masked = {k: self._masked(segments[k].text, places[k]) for k in given if places[k]}
        translate = functools.partial(self._translate, decode=decode, align=align, **options)
        outputs = translate([_with(segments[k], masked.get(k)) for k in given], progress=progress)
        found.update(zip(given, outputs, strict=True))
        # Where the best output lacks a stand-in, others may do better.
        again = [k for k, x in masked.items() if not x.is_complete(found[k][0].text)]
        others = [self._masked(segments[k].text, places[k], 1) for k in again]
        attempts = [_with(segments[k], x) for k, x in zip(again, others, strict=True)]
        outputs = translate(attempts) if attempts else []
        for k, other, of_other in zip(again, others, outputs, strict=True):
            if other.is_complete(of_other[0].text):
                masked[k], found[k] = other, of_other
        for k, text in masked.items():
            restored = [text.restored(output, align) for output in found[k]]
            found[k] = [*{output.text: output for output in restored[::-1]}.values()][::-1]
        return [found[k] for k in range(len(segments))]

    def _find(self, text: str) -> list[Placeholder]:
        """Return what is copied in a text."""
        found = find_placeholders(text)
        ends = [0, *(x.end for x in found)]
        begins = [*(x.begin for x in found), len(text)]
        for begin, end in zip(ends, begins, strict=True):
            unknown = self._unknown.find(text[begin:end])
            found += [x._replace(begin=begin + x.begin, end=begin + x.end) for x in unknown]
        return sorted(found)

    def _stays(self, segment: Segment, places: Sequence[Placeholder]) -> bool:
        """Whether a segment has something to show, but nothing to translate."""
        if segment.prefix is not None:
            return False
        text, end = '', 0
        for place in places:
            text += segment.text[end : place.begin]
            end = place.end
        text += segment.text[end:]
        if any(map(str.isalpha, text)):
            return not any(x.isalpha() and self._unknown.is_known(x) for x in text)
        return any(x.isprintable() and not x.isspace() for x in segment.text)

    def _masked(self, text: str, places: Sequence[Placeholder], attempt: int = 0) -> MaskedText:
        """Return a text with stand-ins: in another attempt, with others."""
        lower = text.lower()
        free = dict[Kind, list[str]]()
        for kind, ranked in self._ranked.items():
            names = [x for x in ranked if x.lower() not in lower]
            shift = attempt * sum(place.kind == kind for place in places)
            free[kind] = [*names[shift:], *names[:shift]]
        masked = []
        for place in places:
            names = free.get(place.kind)
            masked.append(Masked(place.begin, place.end, names.pop(0) if names else ''))
        return MaskedText(text, masked)

    @functools.cached_property
    def _ranked(self) -> dict[Kind, list[str]]:
        """The stand-ins that both vocabularies can spell, those of the fewest pieces first."""
        source, target = self._vocabulary.source, self._vocabulary.target
        code = source.language_codes[:1]

        def pieces(name: str) -> int:
            encoded = *source.encode([' '.join([*code, name])]), *target.encode([name])
            return sum(map(len, encoded))

        known = source.characters & target.characters
        return {
            kind: sorted((x for x in names if known.issuperset(x)), key=pieces)
            for kind, names in ((Kind.NAME, _NAMES), (Kind.NUMBER, _NUMBERS))
        }


def _with(segment: Segment, masked: MaskedText | None) -> Segment:
    if masked is None:
        return segment
    return segment._replace(text=masked.text, needs_alignment=masked.needs_alignment)


def _copy(text: str, align: bool) -> Translation:
    words = tuple((k, k) for k in range(len(text.split())))
    return Translation(text, 0.0, (), alignment=words if align else None)
