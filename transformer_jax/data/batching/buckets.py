"""Buckets: the few static shapes that batches have; pure NumPy.

Lengths are in tokens and include EOS.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from transformer_jax.data.batching.lengths import Lengths, chunks

# With a multiple of 8 rows, 1, 2, 4 and 8 data shards see the same batch.
ROW_MULTIPLE = 8
# `batches_by_length` rounds lengths up to this to powers of two: padding costs less than another
# compilation.
_COARSE = 256


# Sequences of whole numbers, or those of a store.
AnyLengths = Sequence[int] | np.ndarray | Lengths


class Bucket(NamedTuple):
    """A static shape of batches.

    Attributes:
      rows: rows of a batch, each a sentence pair, or several if they are packed.
      source_length: S, positions of the source.
      target_length: T, positions of the target.
    """

    rows: int
    source_length: int
    target_length: int


class Batch(NamedTuple):
    """One batch of the plan.

    Attributes:
      bucket: its shape.
      ids: [rows] int64 pair numbers, -1 for an empty row; packed, [rows, pairs of a row].
    """

    bucket: Bucket
    ids: np.ndarray


# Selects this process's rows of a batch: from the bucket and the [rows] values of the whole batch
# to the values of the rows that this process reads, -1 for an empty row.
ProcessRows = Callable[[Bucket, np.ndarray], np.ndarray]


def all_rows(bucket: Bucket, values: np.ndarray) -> np.ndarray:
    """Return all rows of a batch; the `ProcessRows` of a single process."""
    return values


def rows_for(length: int, tokens_per_batch: int) -> int:
    """Return how many rows of `length` positions fit, a multiple of 8 and at least 8."""
    return max(ROW_MULTIPLE, tokens_per_batch // length // ROW_MULTIPLE * ROW_MULTIPLE)


def round_length(length: int, most: int | None = None, coarse: int = 8) -> int:
    """Return the next of 8, 12, 16, 24, 32, 48, 64, ..., to use few shapes for unknown lengths.

    Args:
      length: tokens of a sentence.
      most: limit of the result, such as the positions of a model; None for no limit.
      coarse: a power of two; up to it the results are powers of two only.
    """
    rounded = 8
    while rounded < length:
        if rounded < coarse:
            rounded *= 2
        else:
            rounded = rounded * 3 // 2 if rounded & (rounded - 1) == 0 else rounded * 4 // 3
    return rounded if most is None else min(rounded, most)


def padded_lengths(longest: int, most: int | None = None) -> list[int]:
    """Return the lengths of the batches of `batches_by_length` for pairs of up to `longest`."""
    found = [round_length(1, most, _COARSE)]
    while found[-1] < min(longest, most or longest):
        found.append(round_length(found[-1] + 1, most, _COARSE))
    return found


def batches_by_length(
    lengths: np.ndarray, positions: int, most: int | None = None, max_rows: int | None = None
) -> Iterator[Batch]:
    """Yield batches of all pairs, the longest first, in few shapes that no plan has fixed.

    If a pair does not fit into memory, this shows in the first batch.

    Args:
      lengths: [pairs] int, the length of the longer side of each pair.
      positions: of a batch, for each side; a pair that is longer is alone.
      most: limit of a batch's length, such as the positions of a model; None for no limit.
      max_rows: the greatest number of rows; None for no limit. With `ROW_MULTIPLE`, the shape
        depends on the length only.
    """
    count = max(ROW_MULTIPLE, 1 << (len(lengths) - 1).bit_length())
    count = min(count, max_rows or count)
    order = np.argsort(-lengths, kind='stable')
    while len(order):
        length = round_length(int(lengths[order[0]]), most, _COARSE)
        rows = min(rows_for(length, positions), max(1, positions // length), count)
        ids = np.full(rows, -1)
        ids[: len(order[:rows])] = order[:rows]
        yield Batch(Bucket(rows, length, length), ids)
        order = order[rows:]


def checked_lengths(
    source_lengths: AnyLengths, target_lengths: AnyLengths | None
) -> tuple[np.ndarray | Lengths, np.ndarray | Lengths]:
    """Return the lengths of both sides; those of one side stand for both.

    Raises:
      ValueError: if they are not whole numbers, as many of each side.
    """
    checked = []
    for name, lengths in (('source_lengths', source_lengths), ('target_lengths', target_lengths)):
        if lengths is None and checked:
            break
        if isinstance(lengths, Lengths):
            checked.append(lengths)
            continue
        try:
            array = np.asarray(lengths)
        except ValueError:  # sentences of different lengths
            array = np.zeros(0)
        if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
            raise ValueError(
                f'{name} must be a whole number for each sentence, its tokens: give '
                '[len(ids) for ids in sentences].'
            )
        checked.append(array)
    source, target = checked[0], checked[-1]
    if len(source) != len(target):
        raise ValueError(
            f'source_lengths has {len(source):,} sentences, but target_lengths {len(target):,}: '
            'give one of each for a pair.'
        )
    return source, target


class LengthCounts(NamedTuple):
    """How many pairs there are of each kind; a kind is a length of each side.

    Attributes:
      kinds: [3, kinds] int64, source length, target length and number of pairs, of those that fit.
      dropped: number of pairs that are too long.
    """

    kinds: np.ndarray
    dropped: int

    @classmethod
    def of(
        cls,
        source_lengths: np.ndarray | Lengths,
        target_lengths: np.ndarray | Lengths,
        max_length: int,
        count: int | None = None,
    ) -> 'LengthCounts':
        """Count pairs, of which those with a side of more than `max_length` tokens are dropped.

        Args:
          source_lengths: of each pair, in tokens with EOS.
          target_lengths: likewise.
          max_length: tokens.
          count: number of pairs, from the first on; None for all.

        Raises:
          ValueError: if no pair is left.
        """
        keys, counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
        dropped = 0
        for sources, targets in chunks(source_lengths, target_lengths, count=count):
            fits = (sources <= max_length) & (targets <= max_length)
            dropped += len(fits) - int(fits.sum())
            found, number = np.unique(
                sources[fits] * (max_length + 1) + targets[fits], return_counts=True
            )
            keys, places = np.unique(np.concatenate([keys, found]), return_inverse=True)
            counts = np.bincount(places, np.concatenate([counts, number]), len(keys))
        if not len(keys):
            raise ValueError(f'no pair fits into {max_length} tokens.')
        return cls(np.stack([*divmod(keys, max_length + 1), counts.astype(np.int64)]), dropped)

    @property
    def tokens(self) -> tuple[int, int]:
        """The source tokens and the target tokens of the pairs that fit."""
        sources, targets, counts = self.kinds
        return int(sources @ counts), int(targets @ counts)


def make_buckets(
    source_lengths: AnyLengths,
    target_lengths: AnyLengths | None = None,
    *,
    max_length: int,
    tokens_per_batch: int,
    num_buckets: int,
    sentences_per_batch: int = 0,
) -> tuple[Bucket, ...]:
    """Choose shapes that leave little padding.

    Start from one shape for all pairs. Repeatedly split the shape whose split, by source or target
    length, saves the most positions. No split leaves a shape with less than one full batch. Memory
    grows with the number of pairs, not with their length.

    Args:
      source_lengths: [pairs] int, in tokens with EOS.
      target_lengths: [pairs] int; None if there is one side only, as for a language model.
      max_length: limit of either side; longer pairs are left out.
      tokens_per_batch: positions of a batch, for each side.
      num_buckets: largest number of shapes.
      sentences_per_batch: pairs of a batch, whatever their length; 0 for as many as
        tokens_per_batch allows.

    Returns:
      Buckets from the smallest to the largest. None has more rows than there are pairs, rounded up
      to a multiple of 8.

    Raises:
      ValueError: if no pair fits, or the lengths are not whole numbers, as many of each side.
    """
    sides = checked_lengths(source_lengths, target_lengths)
    counts = LengthCounts.of(*sides, max_length)
    return buckets_for(
        counts,
        tokens_per_batch=tokens_per_batch,
        num_buckets=num_buckets,
        sentences_per_batch=sentences_per_batch,
    )


def buckets_for(
    counts: LengthCounts, *, tokens_per_batch: int, num_buckets: int, sentences_per_batch: int
) -> tuple[Bucket, ...]:
    """Choose shapes as `make_buckets` does, for pairs that are counted."""
    whole = counts.kinds
    longest = int(whole[:2].max())
    lengths = range(1, longest + 1)
    rows = [sentences_per_batch or rows_for(length, tokens_per_batch) for length in lengths]
    full_rows = np.array([0, *rows])

    def shape(cell: np.ndarray) -> tuple[int, int]:
        """Return the longest source and the longest target of some kinds of pairs."""
        return int(cell[0].max()), int(cell[1].max())

    def best_split(cell: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
        """Return how many positions the best split saves, and its two cells."""
        best = (0, cell, cell)
        for own, other in ((0, 1), (1, 0)):  # the side to split by, and the other
            ordered = cell[:, np.argsort(cell[own], kind='stable')]
            below = np.cumsum(ordered[2])
            longest_below = np.maximum.accumulate(ordered[other])
            longest_above = np.maximum.accumulate(ordered[other, ::-1])[::-1]
            ends = np.flatnonzero(
                np.diff(ordered[own])
            )  # the last kind of each length except the longest
            low = ordered[own, ends], longest_below[ends], below[ends]
            high = ordered[own, -1], longest_above[ends + 1], below[-1] - below[ends]
            saved = below[-1] * sum(shape(cell)) - sum(n * (a + b) for a, b, n in (low, high))
            for a, b, n in (low, high):
                saved[n < full_rows[np.maximum(a, b)]] = 0
            if saved.max(initial=0) > best[0]:
                k = int(np.argmax(saved))
                cut = ends[k] + 1
                best = (int(saved[k]), ordered[:, :cut], ordered[:, cut:])
        return best

    leaves = [(whole, best_split(whole))]
    while len(leaves) < num_buckets:
        k = max(range(len(leaves)), key=lambda k: leaves[k][1][0])
        saved, first, second = leaves[k][1]
        if saved == 0:
            break
        leaves[k : k + 1] = [(first, best_split(first)), (second, best_split(second))]
    shapes = {shape(cell) for cell, _ in leaves}
    most = -(-int(whole[2].sum()) // ROW_MULTIPLE) * ROW_MULTIPLE
    return tuple(
        Bucket(min(int(full_rows[max(s, t)]), most), s, t)
        for s, t in sorted(shapes, key=lambda st: (sum(st), st))
    )
