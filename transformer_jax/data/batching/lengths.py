"""Lengths of stored sentences, worked out when they are asked for."""

from collections.abc import Iterator, Sequence

import numpy as np

_CHUNK = 1 << 20  # sentences


class Lengths:
    """Lengths in tokens with EOS, which are never all in memory.

    It is indexed as an array of them would be, by a slice or by an array of numbers.
    """

    def __init__(self, offsets: Sequence[np.ndarray]):
        """Take the offsets of one or several sets of sentences, whose numbers go on.

        Args:
          offsets: for each set [sentences + 1] int64, the start of each sentence and the total.
        """
        self._offsets = offsets
        self._starts = np.cumsum([0, *(len(x) - 1 for x in offsets)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, index: slice | np.ndarray) -> np.ndarray:
        ids = np.arange(*index.indices(len(self))) if isinstance(index, slice) else index
        if len(self._offsets) == 1:
            (offsets,) = self._offsets
            return offsets[ids + 1] - offsets[ids]
        lengths = np.empty(len(ids), np.int64)
        sets = np.searchsorted(self._starts, ids, side='right') - 1
        for k in np.unique(sets):
            own = np.flatnonzero(sets == k)
            places = ids[own] - self._starts[k]
            lengths[own] = self._offsets[k][places + 1] - self._offsets[k][places]
        return lengths


def chunks(
    *lengths: Lengths | np.ndarray, count: int | None = None
) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield parts of lengths, of a million sentences each, for sets of any size.

    Args:
      lengths: one or several sets of as many sentences.
      count: number of sentences, from the first on; None for all.
    """
    count = len(lengths[0]) if count is None else count
    for start in range(0, count, _CHUNK):
        end = min(start + _CHUNK, count)
        yield tuple(np.asarray(side[start:end], np.int64) for side in lengths)
