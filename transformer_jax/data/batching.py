"""Buckets and the batch plan, which lists the pairs of each batch; pure NumPy.

The plan is a function of the pairs' lengths, the seed and the epoch. It does not depend on devices,
processes, or the step at which a run was stopped. Lengths are in tokens and include EOS.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

# With a multiple of 8 rows, 1, 2, 4 and 8 data shards see the same batch.
ROW_MULTIPLE = 8
# `batches_by_length` rounds lengths up to this to powers of two: padding costs less than another
# compilation.
_COARSE = 256


class Bucket(NamedTuple):
    """A static shape of batches.

    Attributes:
      rows: sentence pairs of a batch.
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
      ids: [rows] int64 pair numbers, -1 for an empty row.
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


def batches_by_length(
    lengths: np.ndarray, positions: int, most: int | None = None
) -> Iterator[Batch]:
    """Yield batches of all pairs, the longest first, in few shapes that no plan has fixed.

    If a pair does not fit into memory, this shows in the first batch.

    Args:
      lengths: [pairs] int, the length of the longer side of each pair.
      positions: of a batch, for each side; a pair that is longer is alone.
      most: limit of a batch's length, such as the positions of a model; None for no limit.
    """
    count = max(ROW_MULTIPLE, 1 << (len(lengths) - 1).bit_length())
    order = np.argsort(-lengths, kind='stable')
    while len(order):
        length = round_length(int(lengths[order[0]]), most, _COARSE)
        rows = min(rows_for(length, positions), max(1, positions // length), count)
        ids = np.full(rows, -1)
        ids[: len(order[:rows])] = order[:rows]
        yield Batch(Bucket(rows, length, length), ids)
        order = order[rows:]


def _checked_lengths(
    source_lengths: Sequence[int] | np.ndarray, target_lengths: Sequence[int] | np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the lengths of both sides as arrays; those of one side stand for both."""
    checked = []
    for name, lengths in (('source_lengths', source_lengths), ('target_lengths', target_lengths)):
        if lengths is None and checked:
            break
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


def make_buckets(
    source_lengths: Sequence[int] | np.ndarray,
    target_lengths: Sequence[int] | np.ndarray | None = None,
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
    source_lengths, target_lengths = _checked_lengths(source_lengths, target_lengths)
    fits = (source_lengths <= max_length) & (target_lengths <= max_length)
    if not fits.any():
        raise ValueError(f'no pair fits into {max_length} tokens.')
    sources, targets = (
        lengths[fits].astype(np.int64) for lengths in (source_lengths, target_lengths)
    )
    longest = int(max(sources.max(), targets.max()))
    # [3, kinds]: both lengths of each kind of pair, and the number of such pairs.
    kinds, counts = np.unique(sources * (longest + 1) + targets, return_counts=True)
    whole = np.stack([*divmod(kinds, longest + 1), counts])
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
    most = -(-len(sources) // ROW_MULTIPLE) * ROW_MULTIPLE
    return tuple(
        Bucket(min(int(full_rows[max(s, t)]), most), s, t)
        for s, t in sorted(shapes, key=lambda st: (sum(st), st))
    )


def plan_epoch(
    source_lengths: Sequence[int] | np.ndarray,
    target_lengths: Sequence[int] | np.ndarray | None,
    buckets: tuple[Bucket, ...],
    *,
    seed: int,
    epoch: int,
) -> list[Batch]:
    """Return the shuffled batches of one epoch; every pair that fits is in exactly one.

    Pairs that do not fill a batch of their bucket move to the next bucket that can hold them, so
    that almost no batch has empty rows.

    Args:
      source_lengths: [pairs] int, in tokens with EOS.
      target_lengths: [pairs] int; None if there is one side only.
      buckets: from `make_buckets`, the smallest first.
      seed: of the shuffle.
      epoch: counted from 0.

    Returns:
      The batches in the order of training. Their number is the same in every epoch.

    Raises:
      ValueError: as `make_buckets`, for the lengths.
    """
    source_lengths, target_lengths = _checked_lengths(source_lengths, target_lengths)
    # The stream of RandomState is frozen, and a resumed run may have another version of NumPy.
    random = np.random.RandomState([seed & 0xFFFFFFFF, seed >> 32, epoch])
    order = random.permutation(len(source_lengths))
    smallest = np.full(len(order), -1, np.int32)
    for index in reversed(range(len(buckets))):
        _, source_length, target_length = buckets[index]
        smallest[(source_lengths <= source_length) & (target_lengths <= target_length)] = index
    smallest = smallest[order]

    waiting: list[list[np.ndarray]] = [[] for _ in buckets]
    batches = []
    for index, bucket in enumerate(buckets):
        ids = np.concatenate([*waiting[index], order[smallest == index]]).astype(np.int64)
        full = len(ids) // bucket.rows
        batches += [
            Batch(bucket, part) for part in ids[: full * bucket.rows].reshape(full, bucket.rows)
        ]
        left = ids[full * bucket.rows :]
        larger = next(
            (
                k
                for k in range(index + 1, len(buckets))
                if buckets[k].source_length >= bucket.source_length
                and buckets[k].target_length >= bucket.target_length
            ),
            None,
        )
        if larger is not None:
            waiting[larger].append(left)
        elif len(left):
            empty = np.full(bucket.rows - len(left), -1, np.int64)
            batches.append(Batch(bucket, np.concatenate([left, empty])))
    return [batches[k] for k in random.permutation(len(batches))]


class BatchPlan:
    """The batches of a whole training; the batch of step k is a function of (seed, k).

    Attributes:
      buckets: the shapes, the smallest first.
      batches_per_epoch: number of batches, the same in every epoch.
      dropped: number of pairs that are too long for every bucket.
      target_tokens: target tokens of an epoch.
      padding: share of an epoch's positions, source and target, that are padding.
    """

    def __init__(
        self,
        source_lengths: Sequence[int] | np.ndarray,
        target_lengths: Sequence[int] | np.ndarray | None = None,
        *,
        max_length: int,
        tokens_per_batch: int,
        num_buckets: int,
        seed: int,
        sentences_per_batch: int = 0,
    ):
        """Choose the buckets and plan the first epoch; see `make_buckets` and `plan_epoch`.

        Args:
          source_lengths: as for `make_buckets`, like all but the last.
          target_lengths: None if there is one side only; it then counts as both.
          max_length: tokens.
          tokens_per_batch: positions of a batch, for each side.
          num_buckets: largest number of shapes.
          seed: of the shuffle.
          sentences_per_batch: as for `make_buckets`.

        Raises:
          ValueError: as `make_buckets`.
        """
        source_lengths, target_lengths = _checked_lengths(source_lengths, target_lengths)
        self.buckets = make_buckets(
            source_lengths,
            target_lengths,
            max_length=max_length,
            tokens_per_batch=tokens_per_batch,
            num_buckets=num_buckets,
            sentences_per_batch=sentences_per_batch,
        )
        self._lengths = source_lengths, target_lengths
        self._seed = seed
        self.dropped = int(((source_lengths > max_length) | (target_lengths > max_length)).sum())
        first = self.epoch(0)
        self.batches_per_epoch = len(first)
        positions = sum(b.rows * (b.source_length + b.target_length) for b, _ in first)
        ids = np.concatenate([batch.ids[batch.ids >= 0] for batch in first])
        self.target_tokens = int(target_lengths[ids].sum())
        tokens = int(source_lengths[ids].sum()) + self.target_tokens
        self.padding = 1.0 - tokens / positions

    def epoch(self, epoch: int) -> list[Batch]:
        """Return the batches of one epoch, in order."""
        return plan_epoch(*self._lengths, self.buckets, seed=self._seed, epoch=epoch)

    def locate(self, step: int) -> tuple[int, int]:
        """Return the epoch of step `step` (counted from 0), and its index in that epoch."""
        return divmod(step, self.batches_per_epoch)
