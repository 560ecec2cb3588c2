"""Packing: several short pairs in one row, so that one shape serves all pairs; pure NumPy.

Rows are filled all at once, the longest pairs first. Which lengths share a row depends on the
lengths only, so an epoch has as many rows as every other; the shuffle says which pairs have them.
"""

import numpy as np

from transformer_jax.data.batching.buckets import (
    ROW_MULTIPLE,
    Batch,
    Bucket,
    LengthCounts,
    rows_for,
)

# Attention costs less in short rows, but what is left of them is seldom the length of a pair.
_PAIRS_OF_ROW = 4, 6, 8
_PADDING = 0.02  # share of the positions of rows with which the shortest are taken
_MOST = 1 << 20  # pairs that are packed to count the rows of an epoch
_PARTS = 4  # of the rows, by their space; within a part, pairs balance the sides of rows
_LAST = 2  # pairs for each row, the shortest, that fill exactly what the others have left
_MOST_LENGTHS = 1024  # of the table of these pairs; longer ones are counted in coarser units


def packed_bucket(counts: LengthCounts, tokens_per_batch: int) -> tuple[Bucket, int]:
    """Return the shape of packed batches, and about how many an epoch has.

    A row holds the longest sentence, and some of the mean length if tokens_per_batch allows. Its
    sides are as long as the corpus has tokens of each, so that both are full at the same time.

    Args:
      counts: the pairs.
      tokens_per_batch: positions of a batch, for each side.
    """
    kinds, numbers = counts.kinds[:2], counts.kinds[2]
    longest, tokens = kinds.max(axis=1), kinds @ numbers
    share = max(1.0, numbers.sum() / _MOST)
    lengths = np.repeat(kinds, np.ceil(numbers / share).astype(int), axis=1)
    for pairs in _PAIRS_OF_ROW:
        per_token = np.maximum(longest, pairs * tokens / numbers.sum()) / tokens
        wanted = np.ceil(per_token.max() * tokens / 8).astype(int) * 8
        sides = np.maximum(longest, np.minimum(wanted, tokens_per_batch // ROW_MULTIPLE)).tolist()
        bucket = Bucket(rows_for(max(sides), tokens_per_batch), *sides)
        count = rows_needed(*lengths, bucket)
        if lengths.sum() >= (1 - _PADDING) * count * sum(sides):
            break
    rows = min(bucket.rows, -(-count // ROW_MULTIPLE) * ROW_MULTIPLE)
    batches = int(np.ceil(tokens.sum() / lengths.sum() * count / rows))
    return bucket._replace(rows=rows), batches


def rows_needed(sources: np.ndarray, targets: np.ndarray, bucket: Bucket) -> int:
    """Return how many rows `packed_batches` makes of pairs of these lengths."""
    return len(sources) and int(pack(sources, targets, *bucket[1:]).max()) + 1


def pack(
    sources: np.ndarray, targets: np.ndarray, source_length: int, target_length: int
) -> np.ndarray:
    """Return the row of each pair, counted from 0 without a gap.

    Args:
      sources: [pairs] int, source lengths in tokens with EOS.
      targets: [pairs] int, target lengths.
      source_length: tokens that a row can hold of sources, at least the longest.
      target_length: tokens that a row can hold of targets, at least the longest.
    """
    lengths = np.stack([sources, targets]).astype(np.int64)
    # In units in which both sides of a row are as long.
    units = np.array([[target_length], [source_length]])
    sizes, capacity = lengths * units, source_length * target_length
    rows = np.full(len(sources), -1, np.int64)
    # Pairs of the same lengths are adjacent, so that the rows do not depend on the pairs' order.
    left = np.lexsort((sizes[0], -sizes.sum(axis=0)))
    first = 0
    while len(left):
        count = -(-int(sizes[:, left].sum(axis=1).max()) // capacity)
        free = np.full((2, count), capacity)
        dealt = max(count, len(left) - _LAST * count)
        for begin in range(0, dealt, count):
            _deal(left[begin : min(begin + count, dealt)], sizes, free, rows, first)
        left = left[rows[left] < 0]
        _fill(left, lengths, free // units, rows, first)
        left = left[rows[left] < 0]
        first += count
    return rows


def _deal(pairs: np.ndarray, sizes: np.ndarray, free: np.ndarray, rows: np.ndarray, first: int):
    """Put each pair in another row, if it fits; changes `free` and `rows`.

    Long pairs go to rows with much space. Among these, the pair with the longest source for its
    target goes to the row with most space for sources.

    Args:
      pairs: at most as many as rows, the longest first.
      sizes: [2, all pairs].
      free: [2, open rows].
      rows: [all pairs].
      first: number of the first open row.
    """
    open_rows = np.argsort(-free.sum(axis=0), kind='stable')[: len(pairs)]
    part = np.arange(len(pairs)) * _PARTS // len(pairs)

    def balanced(sides: np.ndarray) -> np.ndarray:
        return np.lexsort((sides[0] - sides[1], part))

    pairs = pairs[balanced(sizes[:, pairs])]
    open_rows = open_rows[balanced(free[:, open_rows])]
    fits = (sizes[:, pairs] <= free[:, open_rows]).all(axis=0)
    free[:, open_rows[fits]] -= sizes[:, pairs[fits]]
    rows[pairs[fits]] = first + open_rows[fits]


def _fill(pairs: np.ndarray, lengths: np.ndarray, free: np.ndarray, rows: np.ndarray, first: int):
    """Put in each row the longest pair that fits, again and again; changes `rows`.

    Args:
      pairs: those that are left.
      lengths: [2, all pairs].
      free: [2, open rows], in tokens.
      rows: [all pairs].
      first: number of the first open row.
    """
    if not len(pairs):
        return
    unit = -(-int(lengths[:, pairs].max()) // _MOST_LENGTHS)
    needed = -(-lengths[:, pairs] // unit)
    longest = needed.max(axis=1, keepdims=True)
    shape = tuple(longest[:, 0] + 1)
    free = free // unit
    kinds = np.ravel_multi_index(tuple(needed), shape)
    order = np.argsort(kinds, kind='stable')
    pairs, needed = pairs[order], needed[:, order]
    left = np.bincount(kinds, minlength=shape[0] * shape[1])
    ends = np.cumsum(left)
    # The longer kind is the greater number, and the remainder names the kind.
    numbers = np.add.outer(*map(np.arange, shape)).ravel() * left.size + np.arange(left.size)
    open_rows = np.arange(free.shape[1])
    while True:
        best = np.where(left > 0, numbers, -1).reshape(shape)
        best = np.maximum.accumulate(np.maximum.accumulate(best, axis=0), axis=1)
        wanted = best[tuple(np.minimum(free[:, open_rows], longest))]
        open_rows, wanted = open_rows[wanted >= 0], wanted[wanted >= 0] % left.size
        if not len(open_rows):
            return
        order = np.argsort(wanted, kind='stable')
        wanted = wanted[order]
        place = np.arange(len(wanted)) - np.searchsorted(wanted, wanted)
        given = place < left[wanted]
        wanted, place, takers = wanted[given], place[given], open_rows[order[given]]
        taken = ends[wanted] - left[wanted] + place
        rows[pairs[taken]] = first + takers
        free[:, takers] -= needed[:, taken]
        left -= np.bincount(wanted, minlength=left.size)


def packed_batches(
    ids: np.ndarray,
    sources: np.ndarray,
    targets: np.ndarray,
    bucket: Bucket,
    random: np.random.RandomState,
) -> list[Batch]:
    """Return shuffled batches of packed rows; every pair is in exactly one.

    Args:
      ids: [pairs] numbers of the pairs, shuffled.
      sources: [pairs] source lengths.
      targets: [pairs] target lengths.
      bucket: the shape.
      random: of the shuffle of rows.

    Returns:
      Batches whose ids are [rows, most pairs of a row], each row ended with -1.
    """
    rows = pack(sources, targets, *bucket[1:])
    count = int(rows.max(initial=-1)) + 1
    places = random.permutation(count)[rows]
    ordered = ids[np.argsort(places, kind='stable')]
    sizes = np.bincount(places, minlength=-(-count // bucket.rows) * bucket.rows)
    batches, begin = [], 0
    for of_rows in sizes.reshape(-1, bucket.rows):
        filled = np.arange(of_rows.max()) < of_rows[:, None]
        batch = np.full(filled.shape, -1, np.int64)
        batch[filled] = ordered[begin : begin + of_rows.sum()]
        begin += of_rows.sum()
        batches.append(Batch(bucket, batch))
    return batches
