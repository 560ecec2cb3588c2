"""Lengths of stored sentences are those of an array."""

import numpy as np
import pytest

from transformer_jax.data.batching import lengths as module
from transformer_jax.data.batching.lengths import Lengths, chunks

ALL = np.array([3, 1, 4, 1, 5, 9, 2, 6])


@pytest.mark.parametrize('sets', [[8], [3, 5], [1, 0, 7]])
def test_they_are_indexed_like_an_array(sets):
    parts = np.split(ALL, np.cumsum(sets)[:-1])
    lengths = Lengths([np.cumsum([0, *part]) for part in parts])
    assert len(lengths) == 8
    for index in (slice(0, 8), slice(2, 5), np.array([7, 0, 3, 3]), np.zeros(0, int)):
        assert lengths[index].tolist() == ALL[index].tolist()


def test_chunks_are_all_of_them_in_order(monkeypatch):
    monkeypatch.setattr(module, '_CHUNK', 3)
    found = list(chunks(ALL, Lengths([np.cumsum([0, *ALL])])))
    assert [len(source) for source, _ in found] == [3, 3, 2]
    assert np.concatenate([target for _, target in found]).tolist() == ALL.tolist()
