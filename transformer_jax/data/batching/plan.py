"""The batch plan, which lists the pairs of each batch; pure NumPy.

The plan is a function of the pairs' lengths, the seed and the step. It does not depend on devices,
processes, or the step at which a run was stopped. Lengths are in tokens and include EOS.
"""

import bisect
import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from transformer_jax.data.batching.buckets import (
    AnyLengths,
    Batch,
    Bucket,
    LengthCounts,
    buckets_for,
    checked_lengths,
)
from transformer_jax.data.batching.order import EpochOrder, MixedOrder
from transformer_jax.data.batching.packing import packed_batches, packed_bucket, rows_needed
from transformer_jax.runtime.signals import stop_if_requested


class Stage(NamedTuple):
    """A part of the training.

    Attributes:
      order: the pairs of each of its rounds.
      until: its last step; None if it has no end.
    """

    order: EpochOrder | MixedOrder
    until: int | None = None


class _Round(NamedTuple):
    """A round of a stage, with its first step and the one after its last, counted from 0."""

    stage: int
    number: int
    first: int
    end: int


def plan_epoch(
    source_lengths: AnyLengths,
    target_lengths: AnyLengths | None,
    buckets: tuple[Bucket, ...],
    *,
    seed: int,
    epoch: int,
) -> list[Batch]:
    """Return the shuffled batches of one epoch; every pair that fits is in exactly one.

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
    sides = checked_lengths(source_lengths, target_lengths)
    random = _random(seed, epoch)
    order = random.permutation(len(sides[0]))
    return _plan_round(order, _smallest(*(x[order] for x in sides), buckets), buckets, random)


def _random(seed: int, *place: int) -> np.random.RandomState:
    # The stream of RandomState is frozen, and a resumed run may have another version of NumPy.
    return np.random.RandomState([seed & 0xFFFFFFFF, seed >> 32, *place])


def _plan_round(
    order: np.ndarray,
    smallest: np.ndarray,
    buckets: tuple[Bucket, ...],
    random: np.random.RandomState,
) -> list[Batch]:
    """Return the shuffled batches of some pairs; every pair that fits is in exactly one.

    Pairs that do not fill a batch of their bucket move to the next bucket that can hold them, so
    that almost no batch has empty rows.

    Args:
      order: [pairs] numbers of the pairs, shuffled.
      smallest: [pairs] the index of the smallest bucket that holds each, or -1.
      buckets: the smallest first.
      random: of the shuffle of batches.
    """
    waiting: list[list[np.ndarray]] = [[] for _ in buckets]
    batches = []
    for index, bucket in enumerate(buckets):
        rows = np.concatenate([*waiting[index], order[smallest == index]]).astype(np.int64)
        full = len(rows) // bucket.rows
        batches += [
            Batch(bucket, part) for part in rows[: full * bucket.rows].reshape(full, bucket.rows)
        ]
        left = rows[full * bucket.rows :]
        larger = _next_larger(index, buckets)
        if larger is not None:
            waiting[larger].append(left)
        elif len(left):
            empty = np.full(bucket.rows - len(left), -1, np.int64)
            batches.append(Batch(bucket, np.concatenate([left, empty])))
    return [batches[k] for k in random.permutation(len(batches))]


def _smallest(sources: np.ndarray, targets: np.ndarray, buckets: tuple[Bucket, ...]) -> np.ndarray:
    """Return [pairs] the index of the smallest bucket that holds each pair, or -1."""
    smallest = np.full(len(sources), -1, np.int32)
    for index in reversed(range(len(buckets))):
        _, source_length, target_length = buckets[index]
        smallest[(sources <= source_length) & (targets <= target_length)] = index
    return smallest


def _next_larger(index: int, buckets: tuple[Bucket, ...]) -> int | None:
    """Return the next bucket that holds all that bucket `index` holds, or None."""
    _, source_length, target_length = buckets[index]
    return next(
        (
            k
            for k in range(index + 1, len(buckets))
            if buckets[k].source_length >= source_length
            and buckets[k].target_length >= target_length
        ),
        None,
    )


def _batches_of(counts: np.ndarray, buckets: tuple[Bucket, ...]) -> list[int]:
    """Return how many batches of each bucket `_plan_round` makes.

    Args:
      counts: [buckets] pairs for which the bucket is the smallest one.
      buckets: the smallest first.
    """
    pairs, made = [int(count) for count in counts], []
    for index, bucket in enumerate(buckets):
        full, left = divmod(pairs[index], bucket.rows)
        larger = _next_larger(index, buckets)
        if larger is not None:
            pairs[larger] += left
        made.append(full + (larger is None and left > 0))
    return made


class BatchPlan:
    """The batches of a whole training; the batch of step k is a function of (seed, k).

    Attributes:
      pairs: number of pairs.
      buckets: the shapes, the smallest first.
      uses: number of batches of each bucket in an epoch, that is, if every pair is seen once.
      batches_per_epoch: their sum. Of more than a million pairs, epochs are planned in rounds, and
        have a few batches more.
      dropped: number of pairs that are too long for every bucket.
      target_tokens: target tokens of an epoch.
      padding: share of an epoch's positions, source and target, that are padding.
    """

    def __init__(
        self,
        source_lengths: AnyLengths,
        target_lengths: AnyLengths | None = None,
        *,
        max_length: int,
        tokens_per_batch: int,
        num_buckets: int,
        seed: int,
        sentences_per_batch: int = 0,
        stages: Sequence[Stage] = (),
        spellings: Sequence[float] = (),
        packing: bool = False,
    ):
        """Choose the buckets; see `make_buckets`.

        Args:
          source_lengths: as for `make_buckets`, like all but the last four.
          target_lengths: None if there is one side only; it then counts as both.
          max_length: tokens.
          tokens_per_batch: positions of a batch, for each side.
          num_buckets: largest number of shapes.
          seed: of the shuffle.
          sentences_per_batch: as for `make_buckets`.
          stages: the order of the pairs; by default each is seen once in each epoch.
          spellings: shares of the pairs that are seen in other spellings. The lengths are then
            those of all pairs, and after them those of all pairs in each spelling.
          packing: one shape, with several pairs in a row; see `packed_bucket`.

        Raises:
          ValueError: as `make_buckets`.
        """
        self._lengths = checked_lengths(source_lengths, target_lengths)
        self.pairs = len(self._lengths[0]) // (1 + len(spellings))
        self._spellings = np.cumsum(spellings)
        counts = LengthCounts.of(*self._lengths, max_length, self.pairs)
        self._packing = packing
        if packing:
            bucket, batches = packed_bucket(counts, tokens_per_batch)
            self.buckets = (bucket,)
            # A row is longer than a sentence may be.
            self._limits = (Bucket(bucket.rows, *counts.kinds[:2].max(axis=1)),)
            uses = [batches]
        else:
            self.buckets = self._limits = buckets_for(
                counts,
                tokens_per_batch=tokens_per_batch,
                num_buckets=num_buckets,
                sentences_per_batch=sentences_per_batch,
            )
            smallest = _smallest(*counts.kinds[:2], self.buckets)
            of_bucket = np.bincount(smallest, counts.kinds[2], len(self.buckets))
            uses = _batches_of(of_bucket, self.buckets)
        self._seed = seed
        self._stages = stages or [Stage(EpochOrder(self.pairs, seed))]
        self._rounds: list[_Round] = []
        self._lock = threading.Lock()  # because several threads may ask for the next round
        self.dropped = counts.dropped
        source_tokens, self.target_tokens = counts.tokens
        self.uses = dict(zip(self.buckets, uses, strict=True))
        self.batches_per_epoch = sum(self.uses.values())
        positions = sum(
            n * b.rows * (b.source_length + b.target_length) for b, n in self.uses.items()
        )
        self.padding = 1.0 - (source_tokens + self.target_tokens) / positions

    def epoch(self, epoch: int) -> list[Batch]:
        """Return the batches of one epoch, in order."""
        count = self._stages[0].order.rounds_per_epoch
        return [b for k in range(count) for b in self.round(epoch * count + k)]

    def steps_of(self, epochs: int) -> int:
        """Return the number of steps of some epochs."""
        if self.rounds_are_epochs:
            return epochs * self.batches_per_epoch
        last = epochs * self._stages[0].order.rounds_per_epoch - 1
        for number in range(last):
            stop_if_requested()
            self._round(number)
        return self._round(last).end

    def round(self, number: int) -> list[Batch]:
        """Return the batches of a round, in order: of an epoch, or of a part of it.

        Args:
          number: of the round, counted from 0; see `locate`.
        """
        if self.rounds_are_epochs:
            stage, local, steps = 0, number, self.batches_per_epoch
        else:
            stage, local, first, end = self._round(number)
            steps = end - first
        order, smallest, random = self._shuffled(stage, local)
        if self._packing:
            ids = order[smallest == 0]
            lengths = (side[ids] for side in self._lengths)
            return packed_batches(ids, *lengths, self.buckets[0], random)[:steps]
        return _plan_round(order, smallest, self.buckets, random)[:steps]

    def _shuffled(
        self, stage: int, number: int
    ) -> tuple[np.ndarray, np.ndarray, np.random.RandomState]:
        """Return the pairs of a round of a stage, the smallest bucket of each, and its draws."""
        random = _random(self._seed, number, stage) if stage else _random(self._seed, number)
        ids = self._stages[stage].order.ids(number)
        order = ids[random.permutation(len(ids))]
        smallest = _smallest(*(side[order] for side in self._lengths), self._limits)
        if len(self._spellings):
            drawn = np.searchsorted(self._spellings, random.random_sample(len(order)), 'right')
            # The last number is that of the pairs as they are, which come first.
            other = order + self.pairs * ((drawn + 1) % (len(self._spellings) + 1))
            of_other = _smallest(*(side[other] for side in self._lengths), self._limits)
            fits = of_other >= 0  # a spelling in more tokens may be too long
            order, smallest = np.where(fits, other, order), np.where(fits, of_other, smallest)
        return order, smallest, random

    def locate(self, step: int) -> tuple[int, int]:
        """Return the round of step `step` (counted from 0), and its index in that round."""
        if self.rounds_are_epochs:
            return divmod(step, self.batches_per_epoch)
        while not self._rounds or self._rounds[-1].end <= step:
            stop_if_requested()
            self._round(len(self._rounds))
        number = bisect.bisect_right(self._rounds, step, key=lambda found: found.end)
        return number, step - self._rounds[number].first

    def batch(self, step: int) -> Batch:
        """Return the batch of a step, counted from 0."""
        number, index = self.locate(step)
        return self.round(number)[index]

    @property
    def rounds_are_epochs(self) -> bool:
        """Whether every round is an epoch, with the same number of batches."""
        alone = len(self._stages) == 1 and not len(self._spellings)
        return alone and self._stages[0].order.rounds_per_epoch == 1

    def _round(self, number: int) -> _Round:
        """Return a round, after counting the batches of the rounds before it."""
        # It asks for no stop: a thread plans during training, which first saves its state.
        with self._lock:
            while len(self._rounds) <= number:
                self._rounds.append(self._next_round())
        return self._rounds[number]

    def _next_round(self) -> _Round:
        last = self._rounds[-1] if self._rounds else _Round(0, -1, 0, 0)
        stage, local = last.stage, last.number + 1
        if last.end == self._stages[stage].until:
            stage, local = stage + 1, 0
        until = self._stages[stage].until
        order, smallest, _ = self._shuffled(stage, local)
        if self._packing:
            (bucket,) = self.buckets
            lengths = (side[order[smallest == 0]] for side in self._lengths)
            count = -(-rows_needed(*lengths, bucket) // bucket.rows)
        else:
            counts = np.bincount(smallest[smallest >= 0], minlength=len(self.buckets))
            count = sum(_batches_of(counts, self.buckets))
        end = last.end + count
        return _Round(stage, local, last.end, end if until is None else min(end, until))
