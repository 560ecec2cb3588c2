"""A set of texts that takes eight bytes for each, for texts that do not fit in memory."""

import hashlib

import numpy as np

_RECENT = 1 << 20


class HashSet:
    """The 64-bit hashes of texts; of 100 million, two are taken for one with a chance of 0.03 %."""

    def __init__(self):
        self._recent: set[int] = set()
        self._sorted = np.zeros(0, np.uint64)

    def __contains__(self, text: str) -> bool:
        return self._holds(_hash(text))

    def add(self, text: str) -> bool:
        """Add a text; return whether it is new."""
        hashed = _hash(text)
        if self._holds(hashed):
            return False
        self._recent.add(hashed)
        if len(self._recent) > _RECENT:
            recent = np.fromiter(self._recent, np.uint64, len(self._recent))
            self._sorted = np.concatenate([self._sorted, recent])
            self._sorted.sort(kind='stable')  # fast, since most of it is sorted already
            self._recent.clear()
        return True

    def _holds(self, hashed: int) -> bool:
        if hashed in self._recent:
            return True
        place = int(np.searchsorted(self._sorted, np.uint64(hashed)))
        return place < len(self._sorted) and int(self._sorted[place]) == hashed


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), 'big')
