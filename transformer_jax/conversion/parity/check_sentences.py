"""Sentences on which a conversion is checked: the run's dev set, a handful of our own, or drawn."""

import dataclasses
import logging
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from transformer_jax.conversion.original import Original
from transformer_jax.conversion.parity.ours import Ours
from transformer_jax.conversion.parity.peer import Pieces
from transformer_jax.data.corpora.corpus import load_split
from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.errors import UserError
from transformer_jax.translating.translation_metrics import score

_logger = logging.getLogger('transformer_jax')
# Longer ones would need much memory: all logits of a sentence are compared.
_MOST_TOKENS = 120
_MOST = 2000
_BUILT_IN = """\
The house is old.
Where is the nearest station?
I don't know what you mean.
She has been waiting for an hour.
Two men are playing chess in the park.
It was raining, so we stayed at home.
Please close the window!
How much does this book cost?
He said that he would come back tomorrow.
The meeting starts at 9:30 on Monday, 12 May.
A little girl in a red dress runs across the street.
They have lived in London since 1998.
Nobody understood the question.
My brother's car is faster than yours.
Would you like some more coffee?
The results were published in the journal last week.
This is the most beautiful town that I have ever seen.
Yes.
Although he was tired, he went on working until midnight.
We need bread, milk, eggs and about 2.5 kg of potatoes.
""".splitlines()


@dataclasses.dataclass(frozen=True)
class CheckSentences:
    """Sentences and what they are.

    Attributes:
      origin: what they are, in words.
      sources: raw texts.
      references: their translations; empty for sentences without translations.
    """

    origin: str
    sources: Sequence[str]
    references: Sequence[str]

    def pairs(self, ours: Ours, count: int | None = None) -> list[tuple[Pieces, Pieces]]:
        """Return the pieces of up to `count` sources and outputs to score; None for all.

        The output for a sentence without a translation is another sentence.
        """
        sources = ours.source_pieces(self.sources[:count])
        outputs = ours.target_pieces((self.references or self.sources[::-1])[:count])
        return list(zip(sources, outputs, strict=True))

    def bleu_lost(
        self, before: Sequence[str], after: Sequence[str], language: str
    ) -> dict[str, Any] | None:
        """Return BLEU of two lists of outputs of the first sentences; None without translations.

        Args:
          before: outputs with float32 weights.
          after: as many, with the weights that were written.
          language: of the outputs.
        """
        if not self.references:
            return None
        references = self.references[: len(before)]
        scores = [
            score(list(texts), references, target_language=language) for texts in (before, after)
        ]
        return {
            'before': round(scores[0].bleu, 2),
            'after': round(scores[1].bleu, 2),
            'signature': scores[0].bleu_signature,
        }

    @classmethod
    def of(cls, original: Original) -> 'CheckSentences':
        """Return the pairs of the dev set that are not too long, or else the built-in sentences."""
        pairs = _dev_pairs(original)
        vocabulary = original.vocabulary
        most = _MOST_TOKENS
        if original.config.model.max_sequence_length is not None:
            positions = original.config.model.max_sequence_length
            most = min(most, positions - original.config.decode.max_extra_length)
        lengths = zip(
            vocabulary.source.encode([source for source, _ in pairs]),
            vocabulary.target.encode([target for _, target in pairs]),
            strict=True,
        )
        pairs = [
            pair
            for pair, (source, target) in zip(pairs, lengths, strict=True)
            if 1 < len(source) <= most and len(target) <= most
        ]
        if pairs:
            return cls('the dev set', *zip(*pairs, strict=True))
        codes = vocabulary.source.language_codes[:1]
        texts = [' '.join([*codes, text]) for text in _BUILT_IN]
        lengths = map(len, vocabulary.source.encode(texts))
        texts = [text for text, length in zip(texts, lengths, strict=True) if length <= most]
        return cls('built-in sentences', texts, [])

    @classmethod
    def drawn(cls, vocabulary: Vocabulary, count: int, seed: int = 0) -> 'CheckSentences':
        """Return texts of 2 to 12 pieces that are drawn at random, whatever the language."""
        random = np.random.default_rng(seed)
        codes = vocabulary.language_codes
        special = {vocabulary.pad_id, vocabulary.eos_id, vocabulary.unknown_id}
        # Those of lower ids are more frequent in most vocabularies.
        ids = [i for i in range(min(vocabulary.size, 4000)) if i not in special]
        pieces = [piece for piece in vocabulary.pieces(ids) if not re.search('[<>]', piece)]
        texts: list[str] = []
        while len(texts) < count:
            text = ''.join(random.choice(pieces, random.integers(2, 13))).replace('▁', ' ').strip()
            if text:
                texts.append(f'{codes[len(texts) % len(codes)]} {text}' if codes else text)
        return cls('sentences of random pieces', texts, [])


def bleu_in_words(found: dict[str, Any] | None, search: str) -> str:
    """Return what `CheckSentences.bleu_lost` has found, for people."""
    if found is None:
        return 'BLEU was not measured, because the dev set of the run cannot be read here'
    return (
        f'BLEU of {search} {found["after"]:.2f}, with float32 weights {found["before"]:.2f} '
        f'({found["signature"]})'
    )


def _dev_pairs(original: Original) -> list[tuple[str, str]]:
    fingerprint = original.run.split_fingerprints.get('dev')
    if fingerprint is None:
        return []
    try:
        pairs = load_split(original.config.data, 'dev', fingerprint)
    except UserError as error:
        _logger.info('The dev set cannot be read: %s', error)
        return []
    return (pairs or [])[:_MOST]
