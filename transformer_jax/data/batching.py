"""Buckets and the batch plan: which pairs make up which batch, in pure NumPy.

The plan is a function of the pairs' lengths, the seed and the epoch alone: not of devices, hosts,
or where a run was stopped. Lengths count tokens with the end mark.
"""

from typing import NamedTuple

import numpy as np

# So that 1, 2, 4 and 8 data shards see the same batch.
ROW_MULTIPLE = 8


class Bucket(NamedTuple):
    """A static shape of batches.

    Attributes:
      rows: sentence pairs.
      source_length: S, positions for the source.
      target_length: T, positions for the target.
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


def rows_for(length: int, tokens_per_batch: int) -> int:
    """Rows of `length` positions that fit, a multiple of 8 and at least 8."""
    return max(ROW_MULTIPLE, tokens_per_batch // length // ROW_MULTIPLE * ROW_MULTIPLE)


def round_length(length: int, most: int | None = None, coarse: int = 8) -> int:
    """The next of 8, 12, 16, 24, 32, 48, 64, ...: few shapes where lengths are not known ahead.

    Args:
      length: of a sentence.
      most: positions that a model has, for one that has not any number of them.
      coarse: a power of two up to which only powers of two count.
    """
    rounded = 8
    while rounded < length:
        if rounded < coarse:
            rounded *= 2
        else:
            rounded = rounded * 3 // 2 if rounded & (rounded - 1) == 0 else rounded * 4 // 3
    return rounded if most is None else min(rounded, most)


def make_buckets(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    *,
    max_length: int,
    tokens_per_batch: int,
    num_buckets: int,
) -> tuple[Bucket, ...]:
    """Chooses shapes that leave little padding.

    Starts from one shape for all pairs and again and again splits, by source or by target length,
    the one where a split saves the most positions. A split that would leave a shape without one
    full batch is not made. Memory is that of the pairs, however long they are.

    Args:
      source_lengths: [pairs] int.
      target_lengths: [pairs] int.
      max_length: pairs with a longer side are left out.
      tokens_per_batch: source and target positions, each, of a batch.
      num_buckets: most shapes.

    Returns:
      Buckets from the smallest to the largest, none with more rows than there are pairs.

    Raises:
      ValueError: if no pair fits.
    """
    fits = (source_lengths <= max_length) & (target_lengths <= max_length)
    if not fits.any():
        raise ValueError(f'no pair fits into {max_length} tokens.')
    sources, targets = (
        lengths[fits].astype(np.int64) for lengths in (source_lengths, target_lengths)
    )
    longest = int(max(sources.max(), targets.max()))
    # Kinds of pairs: both lengths, and how many there are of it.
    kinds, counts = np.unique(sources * (longest + 1) + targets, return_counts=True)
    whole = np.stack([*divmod(kinds, longest + 1), counts])
    full_rows = np.array([0, *(rows_for(n, tokens_per_batch) for n in range(1, longest + 1))])

    def shape(cell: np.ndarray) -> tuple[int, int]:
        """The longest source and the longest target of some kinds of pairs."""
        return int(cell[0].max()), int(cell[1].max())

    def best_split(cell: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
        """The most positions a split saves, and the two cells it makes."""
        best = (0, cell, cell)
        for own, other in ((0, 1), (1, 0)):  # the length to split by, and that of the other side
            ordered = cell[:, np.argsort(cell[own], kind='stable')]
            below = np.cumsum(ordered[2])
            longest_below = np.maximum.accumulate(ordered[other])
            longest_above = np.maximum.accumulate(ordered[other, ::-1])[::-1]
            ends = np.flatnonzero(np.diff(ordered[own]))  # the last kind of each length but one
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
        Bucket(min(rows_for(max(s, t), tokens_per_batch), most), s, t)
        for s, t in sorted(shapes, key=lambda st: (sum(st), st))
    )


def plan_epoch(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    buckets: tuple[Bucket, ...],
    *,
    seed: int,
    epoch: int,
) -> list[Batch]:
    """All batches of one epoch, shuffled; every pair that fits a bucket is in exactly one.

    The pairs that are left when a bucket's batches are full move on to the next bucket that holds
    them, so that almost no batch has empty rows.

    Args:
      source_lengths: [pairs] int.
      target_lengths: [pairs] int.
      buckets: from `make_buckets`, the smallest first.
      seed: of the shuffle.
      epoch: counted from 0.

    Returns:
      The batches in the order of training. Their number is the same in every epoch.
    """
    # RandomState, since its stream is frozen for good: a resumed run may meet another NumPy.
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
    """The batches of a whole training: step k's is a function of (seed, k).

    Attributes:
      buckets: the shapes, the smallest first.
      batches_per_epoch: the same in every epoch.
      dropped: pairs that no bucket holds.
      target_tokens: of an epoch.
      padding: share of an epoch's positions, source and target, that hold no token.
    """

    def __init__(
        self,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        *,
        max_length: int,
        tokens_per_batch: int,
        num_buckets: int,
        seed: int,
    ):
        """Chooses the buckets and plans the first epoch; see `make_buckets` and `plan_epoch`."""
        self.buckets = make_buckets(
            source_lengths,
            target_lengths,
            max_length=max_length,
            tokens_per_batch=tokens_per_batch,
            num_buckets=num_buckets,
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
        """The batches of one epoch, in order."""
        return plan_epoch(*self._lengths, self.buckets, seed=self._seed, epoch=epoch)

    def locate(self, step: int) -> tuple[int, int]:
        """The epoch of step `step` (counted from 0), and its place in it."""
        return divmod(step, self.batches_per_epoch)
