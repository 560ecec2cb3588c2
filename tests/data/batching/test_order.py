"""Shuffles are computed, the same everywhere, and show every pair as often as they should."""

from collections import Counter

import numpy as np
import pytest

from transformer_jax.data.batching import order
from transformer_jax.data.batching.order import EpochOrder, MixedOrder, shuffled

KEY = np.array([7], np.uint64)


@pytest.mark.parametrize('size', [1, 2, 3, 7, 64, 1000, 4097])
def test_each_shuffle_has_every_number_once(size):
    found = shuffled(np.arange(3 * size), size, KEY).reshape(3, size)
    assert (np.sort(found) == np.arange(size)).all()
    if size > 7:
        assert not (found[0] == found[1]).all() and not (found[0] == np.arange(size)).all()


def test_any_part_of_a_shuffle_can_be_asked_for():
    whole = shuffled(np.arange(3000), 1000, KEY)
    assert (shuffled(np.arange(1700, 2300), 1000, KEY) == whole[1700:2300]).all()


def test_shuffles_are_the_same_in_every_version():
    # A run may resume with another version of NumPy and must get the same batches.
    assert shuffled(np.arange(12), 10, KEY).tolist() == [2, 4, 6, 1, 3, 5, 8, 7, 9, 0, 6, 3]


def test_shuffled_numbers_stand_anywhere_with_equal_chances():
    places = np.stack([shuffled(np.arange(k * 50, k * 50 + 50), 50, KEY) for k in range(4000)])
    counts = np.stack([np.bincount(column, minlength=50) for column in places.T])
    # 80 are expected; a chi-squared of 2,500 counts has this mean and a deviation of 70.
    assert abs(((counts - 80) ** 2 / 80).sum() - 49 * 49) < 4 * 70


def test_the_rounds_of_an_epoch_have_every_pair_once(monkeypatch):
    monkeypatch.setattr(order, '_MOST', 300)
    of_epochs = EpochOrder(1000, seed=3)
    assert of_epochs.rounds_per_epoch == 4
    for epoch in (0, 5):
        rounds = [of_epochs.ids(4 * epoch + k) for k in range(4)]
        assert [len(ids) for ids in rounds] == [250] * 4
        assert sorted(np.concatenate(rounds)) == list(range(1000))
    assert (of_epochs.ids(0) != of_epochs.ids(4)).any()
    assert (of_epochs.ids(0) != EpochOrder(1000, seed=4).ids(0)).any()


def test_a_mixture_has_its_shares_and_shows_the_pairs_of_a_corpus_equally_often(monkeypatch):
    monkeypatch.setattr(order, '_MOST', 100)
    mixed = MixedOrder([1000, 7, 500], [0.6, 0.3, 0.1], seed=1)
    rounds = [mixed.ids(k) for k in range(50)]
    for k, ids in enumerate(rounds):
        found = np.bincount(np.searchsorted([1000, 1007], ids, side='right'), minlength=3)
        assert np.abs(found - [60, 30, 10]).max() <= 1, k
    counts = Counter(np.concatenate(rounds).tolist())
    for first, end in ((0, 1000), (1000, 1007), (1007, 1507)):
        of_corpus = [counts[i] for i in range(first, end)]
        assert max(of_corpus) - min(of_corpus) <= 1


def test_stages_of_a_mixture_begin_with_other_pairs():
    first, second = (MixedOrder([100, 100], [1, 1], seed=1, stage=k).ids(0) for k in (0, 1))
    assert (first != second).any()


def test_a_corpus_with_a_share_of_0_is_not_seen():
    assert MixedOrder([10, 10], [1, 0], seed=1).ids(3).max() < 10
