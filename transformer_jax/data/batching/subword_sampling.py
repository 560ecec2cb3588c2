"""Training pairs in new subword segmentations each time they are seen.

BPE-dropout (Provilkov et al., 2020) gives the same words in other pieces. The draws depend on the
plan's seed, so that the batch of step k stays a function of (seed, k).
"""

from collections.abc import Collection

import numpy as np

from transformer_jax.data.batching.buckets import Batch, ProcessRows, all_rows
from transformer_jax.data.batching.token_store import Sentences, TokenStore, sentences_from
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.runtime.signals import stop_if_requested

_CHUNK = 10_000  # sentences that share a seed when lengths are planned
_PLANNED_DRAWS = 2  # a sentence's planned length is that of the longest of these draws
_TRIES = 8  # draws of a sentence, while they are too long for its batch


class SubwordSampler:
    """Draws segmentations of a store's sentences.

    Attributes:
      rate: see `Vocabulary.sample`.
      drawn: the sides, 'source' or 'target', that are drawn; the other keeps its stored tokens.
    """

    def __init__(
        self,
        store: TokenStore,
        vocabulary: VocabularyPair,
        *,
        rate: float,
        seed: int,
        drawn: Collection[str] = ('source', 'target'),
    ):
        """Wrap a store that `vocabulary` has tokenised; `seed` determines the draws."""
        self.rate, self.drawn = rate, drawn
        self._sides = {'source': store.source, 'target': store.target}
        self._vocabularies = {'source': vocabulary.source, 'target': vocabulary.target}
        self._seed = seed

    def planned_lengths(self, side: str, max_length: int) -> np.ndarray:
        """Return [sentences] int64 lengths for the batch plan: the longest of a few draws.

        A sentence whose stored tokens fit into `max_length` also fits here.
        """
        sentences = self._sides[side]
        if side not in self.drawn:
            return sentences.lengths
        starts = range(0, len(sentences.lengths), _CHUNK)

        def longest(start: int) -> np.ndarray:
            texts = self._texts(side, np.arange(start, min(start + _CHUNK, len(sentences.lengths))))
            stop_if_requested()
            draws = [
                [len(ids) for ids in self._sample(texts, side, 0, start, k)]
                for k in range(_PLANNED_DRAWS)
            ]
            return np.max(draws, axis=0)

        # Not in parallel, because all threads share one seed of SentencePiece.
        drawn = np.concatenate([longest(start) for start in starts])
        stored = sentences.lengths
        return np.maximum(stored, np.minimum(drawn, max_length))

    def arrays(
        self, batch: Batch, epoch: int, index: int, process_rows: ProcessRows = all_rows
    ) -> dict[str, np.ndarray]:
        """Return 'source' [process rows, S] and 'target' [process rows, T], int32.

        A draw that is too long for the batch is repeated; after some tries the sentence keeps its
        stored tokens.

        Args:
          batch: of the plan, with the ids of all rows.
          epoch: of the batch.
          index: of the batch in its epoch.
          process_rows: selects the rows that this process reads.
        """
        rows = process_rows(batch.bucket, np.where(batch.ids < 0, -1, np.arange(len(batch.ids))))
        lengths = {'source': batch.bucket.source_length, 'target': batch.bucket.target_length}
        return {
            side: self._draw(side, batch.ids, length, epoch, index).padded(rows, length)
            if side in self.drawn
            else self._sides[side].padded(process_rows(batch.bucket, batch.ids), length)
            for side, length in lengths.items()
        }

    def _draw(self, side: str, ids: np.ndarray, length: int, epoch: int, index: int) -> Sentences:
        """Return a sentence for each of `ids`, an empty one for -1."""
        vocabulary = self._vocabularies[side]
        lines = [np.zeros(0, np.int32) if i < 0 else self._sides[side].sentence(i) for i in ids]
        # An unknown token has no text to draw from, so its sentence keeps its stored tokens.
        known = [len(line) > 0 and vocabulary.unknown_id not in line for line in lines]
        wanted = np.flatnonzero(known)
        texts = dict(zip(wanted, vocabulary.texts([lines[row] for row in wanted]), strict=True))
        for k in range(_TRIES):
            drawn = self._sample([texts[row] for row in wanted], side, 1 + epoch, index, k)
            for row, line in zip(wanted, drawn, strict=True):
                if len(line) <= length:
                    lines[row] = line
            wanted = [row for row, line in zip(wanted, drawn, strict=True) if len(line) > length]
            if not wanted:
                break
        return sentences_from(lines)

    def _sample(self, texts: list[str], side: str, *place: int) -> list[np.ndarray]:
        seed = np.random.SeedSequence([self._seed, list(self._sides).index(side), *place])
        return self._vocabularies[side].sample(texts, self.rate, int(seed.generate_state(1)[0]))

    def _texts(self, side: str, ids: np.ndarray) -> list[str]:
        return self._vocabularies[side].texts([self._sides[side].sentence(i) for i in ids])
