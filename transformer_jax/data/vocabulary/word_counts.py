"""Counts of the words of a text of any size, from which a vocabulary is trained."""

import zlib
from collections import Counter
from collections.abc import Iterable

from transformer_jax.runtime.signals import stop_if_requested

_MOST = 1 << 20  # different words in memory


def count_words(sentences: Iterable[str]) -> Counter[str]:
    """Return how often each word occurs; a word is what stands between spaces.

    Whenever the table is full, the rarer half of its words is dropped. Of equally rare words, as
    the sentences of a language without spaces are, it is a random half, always the same.

    Args:
      sentences: the text.
    """
    counts: Counter[str] = Counter()
    for sentence in sentences:
        stop_if_requested()
        counts.update(sentence.split(' '))
        if len(counts) > _MOST:
            counts = _commoner_half(counts)
    del counts['']
    return counts


def _commoner_half(counts: Counter[str]) -> Counter[str]:
    def rank(word: str) -> tuple[int, int, str]:
        return -counts[word], zlib.crc32(word.encode()), word

    kept = set(sorted(counts, key=rank)[: _MOST // 2])
    # In the order in which they were first seen, as without a limit.
    return Counter({word: count for word, count in counts.items() if word in kept})
