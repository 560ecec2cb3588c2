"""Training pairs segmented anew each time they are seen.

BPE-dropout (Provilkov et al., 2020): the same words in other pieces, drawn from the plan's seed, so
that step k's batch stays a function of (seed, k).
"""

from collections.abc import Callable, Collection

import numpy as np

from transformer_jax.data.batching import Batch
from transformer_jax.data.token_store import Sentences, TokenStore, sentences_from
from transformer_jax.data.vocabulary import Vocabulary
from transformer_jax.runtime.signals import stop_if_requested

_CHUNK = 10_000  # sentences drawn with one seed when lengths are planned
_PLANNED = 2  # draws whose longest is the length that a pair is planned with
_TRIES = 8  # draws that may turn out too long for their batch


class SubwordSampler:
    """Draws segmentations of a store's sentences.

    Attributes:
      rate: see `Vocabulary.sample`.
      drawn: of 'source' and 'target', the sides that are drawn; the other stays as it is stored.
    """

    def __init__(
        self,
        store: TokenStore,
        vocabulary: Vocabulary,
        *,
        rate: float,
        seed: int,
        drawn: Collection[str] = ('source', 'target'),
    ):
        """Wraps a store that `vocabulary` has made, the draws coming from `seed`."""
        self.rate, self.drawn = rate, drawn
        self._sides = {'source': store.source, 'target': store.target}
        self._vocabulary, self._seed = vocabulary, seed

    def planned_lengths(self, side: str, max_length: int) -> np.ndarray:
        """[sentences] int64 lengths to plan with, the longest of a few draws.

        What fits into `max_length` as it is in the store does so here.
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
                for k in range(_PLANNED)
            ]
            return np.max(draws, axis=0)

        # One after the other: SentencePiece's draws take turns anyway.
        drawn = np.concatenate([longest(start) for start in starts])
        stored = sentences.lengths
        return np.maximum(stored, np.minimum(drawn, max_length))

    def arrays(
        self, batch: Batch, epoch: int, index: int, held: Callable[[np.ndarray], np.ndarray]
    ) -> dict[str, np.ndarray]:
        """The arrays of a batch, 'source' [rows, S] and 'target' [rows, T], int32.

        A draw that is too long for the batch is drawn again; after some tries the sentence is left
        as it is in the store.

        Args:
          batch: of the plan.
          epoch: whose batch it is.
          index: of the batch in it.
          held: from what belongs to each row of the whole batch to the rows wanted, -1 for none.
        """
        rows = held(np.where(batch.ids < 0, -1, np.arange(len(batch.ids))))
        lengths = {'source': batch.bucket.source_length, 'target': batch.bucket.target_length}
        return {
            side: self._draw(side, batch.ids, length, epoch, index).padded(rows, length)
            if side in self.drawn
            else self._sides[side].padded(held(batch.ids), length)
            for side, length in lengths.items()
        }

    def _draw(self, side: str, ids: np.ndarray, length: int, epoch: int, index: int) -> Sentences:
        """A sentence for each of `ids`; an empty one for -1."""
        lines = [np.zeros(0, np.int32) if i < 0 else self._stored(side, i) for i in ids]
        # What is unknown has no text to draw from: such a sentence stays as it is stored.
        known = [len(line) > 0 and self._vocabulary.unknown_id not in line for line in lines]
        wanted = np.flatnonzero(known)
        texts = dict(
            zip(wanted, self._vocabulary.texts([lines[row] for row in wanted]), strict=True)
        )
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
        return self._vocabulary.sample(texts, self.rate, int(seed.generate_state(1)[0]))

    def _texts(self, side: str, ids: np.ndarray) -> list[str]:
        return self._vocabulary.texts([self._stored(side, i) for i in ids])

    def _stored(self, side: str, i: int) -> np.ndarray:
        sentences = self._sides[side]
        return np.asarray(
            sentences.tokens[sentences.offsets[i] : sentences.offsets[i + 1]], np.int32
        )
