"""The order in which training sees pairs; shuffles are computed and not stored.

A round is what is planned at once: an epoch of up to a million pairs, part of an epoch of more, or
that many pairs of a mixture. Its pairs are a function of the seed and of the round.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

_MOST = 1 << 20  # pairs of a round
_FEISTEL_ROUNDS = 6
_GOLDEN = 0x9E3779B97F4A7C15


class EpochOrder:
    """Every pair once in each epoch.

    Attributes:
      rounds_per_epoch: number of rounds.
    """

    def __init__(self, pairs: int, seed: int):
        """Take the number of pairs, and the seed of the shuffles."""
        self._pairs, self._key = pairs, _mixed(np.array([seed], np.uint64))
        self.rounds_per_epoch = max(1, -(-pairs // _MOST))

    def ids(self, number: int) -> np.ndarray:
        """Return the pairs of a round.

        Those of an only round are in their own order, because the plan shuffles each round.
        """
        if self.rounds_per_epoch == 1:
            return np.arange(self._pairs)
        epoch, place = divmod(number, self.rounds_per_epoch)
        first, end = (self._pairs * k // self.rounds_per_epoch for k in (place, place + 1))
        return shuffled(epoch * self._pairs + np.arange(first, end), self._pairs, self._key)


class MixedOrder:
    """Pairs of several corpora in given shares, each corpus again and again in new shuffles.

    After any number of rounds, no corpus has had a pair more or less than its share.

    Attributes:
      rounds_per_epoch: 0, since corpora do not end together.
    """

    rounds_per_epoch = 0

    def __init__(self, sizes: Sequence[int], shares: Sequence[float], seed: int, stage: int = 0):
        """Mix corpora, whose pairs have numbers that go on from one to the next.

        Args:
          sizes: pairs of each corpus.
          shares: of each corpus in the pairs of training; their sum need not be 1.
          seed: of the shuffles.
          stage: part of the training, so that no two begin with the same pairs.
        """
        self._sizes = sizes
        self._starts = np.cumsum([0, *sizes])
        self._shares = [Fraction(x) / sum(map(Fraction, shares)) for x in shares]
        self._keys = [
            _mixed(_mixed(np.array([seed], np.uint64)) + np.uint64((stage << 32) + k + 1))
            for k in range(len(sizes))
        ]
        self._pairs = min(_MOST, sum(sizes))

    def ids(self, number: int) -> np.ndarray:
        """Return the pairs of a round, corpus by corpus."""
        parts = []
        for size, start, share, key in zip(
            self._sizes, self._starts[:-1], self._shares, self._keys, strict=True
        ):
            first, end = (int(share * self._pairs * k) for k in (number, number + 1))
            if end > first:
                parts.append(start + shuffled(np.arange(first, end), size, key))
        return np.concatenate(parts)


def shuffled(positions: np.ndarray, size: int, key: np.ndarray) -> np.ndarray:
    """Return elements of shuffle 0 + shuffle 1 + ..., each a permutation of range(size).

    The shuffle is a Feistel network, which permutes a power of four; a result that is too large
    goes through it again, until it is not (Black and Rogaway, 2002).

    Args:
      positions: [n] int64, counted from 0.
      size: numbers of a shuffle.
      key: [1] uint64.
    """
    epochs, places = np.divmod(positions, size)
    keys = _mixed(key + epochs.astype(np.uint64) * np.uint64(_GOLDEN))
    half = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
    mask = np.uint64((1 << int(half)) - 1)

    def permuted(x: np.ndarray, keys: np.ndarray) -> np.ndarray:
        left, right = x >> half, x & mask
        for k in range(_FEISTEL_ROUNDS):
            keyed = _mixed(keys + right + np.uint64(k * _GOLDEN % 2**64))
            left, right = right, left ^ (keyed & mask)
        return left << half | right

    numbers = permuted(places.astype(np.uint64), keys)
    while len(outside := np.flatnonzero(numbers >= size)):
        numbers[outside] = permuted(numbers[outside], keys[outside])
    return numbers.astype(np.int64)


def _mixed(x: np.ndarray) -> np.ndarray:
    """Return uint64 numbers whose bits all depend on all bits of `x` (SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
