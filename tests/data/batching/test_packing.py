"""Packed batches: each pair once an epoch, little padding, the same batches for every resume."""

import numpy as np
import pytest

from transformer_jax.data.batching import order, packing
from transformer_jax.data.batching.buckets import LengthCounts
from transformer_jax.data.batching.order import MixedOrder
from transformer_jax.data.batching.plan import BatchPlan, Stage
from transformer_jax.data.batching.token_store import JoinedSentences, packed, sentences_from


def news(pairs, seed=0):
    """Return log-normal lengths as of news."""
    random = np.random.RandomState(seed)
    source = np.clip(np.exp(random.normal(np.log(26), 0.55, pairs)), 2, 300)
    target = np.clip(source * np.exp(random.normal(0.1, 0.17, pairs)), 2, 300)
    return source.astype(int), target.astype(int)


def captions(pairs):
    random = np.random.RandomState(1)
    source = np.clip(np.exp(random.normal(np.log(14), 0.35, pairs)), 2, 40).astype(int)
    return source, np.clip(source * np.exp(random.normal(0, 0.1, pairs)), 2, 40).astype(int)


def between_20_and_50(pairs):
    random = np.random.RandomState(2)
    return random.randint(20, 40, pairs), random.randint(20, 50, pairs)


def make_plan(lengths, **changes):
    settings = {'max_length': 256, 'tokens_per_batch': 4096, 'num_buckets': 4, 'seed': 1}
    return BatchPlan(*lengths, **settings | changes, packing=True)


def check_fits(batch, lengths):
    """Check that the pairs of each row fit in it, and come before its -1."""
    real = batch.ids >= 0
    assert len(real) == batch.bucket.rows
    assert (np.diff(real.astype(int), axis=1) <= 0).all()
    for side, room in zip(lengths, batch.bucket[1:], strict=True):
        assert np.where(real, side[batch.ids], 0).sum(axis=1).max() <= room


def ids_of(batches):
    ids = np.concatenate([batch.ids.ravel() for batch in batches])
    return ids[ids >= 0]


def test_each_pair_that_fits_is_once_in_each_epoch():
    lengths = news(5000)
    plan = make_plan(lengths, max_length=120)
    fits = np.flatnonzero(np.maximum(*lengths) <= 120)
    assert plan.dropped == 5000 - len(fits) > 0
    for epoch in (0, 1):
        batches = plan.epoch(epoch)
        assert len(batches) == plan.batches_per_epoch == sum(plan.uses.values())
        assert {batch.bucket for batch in batches} == {*plan.buckets}
        for batch in batches:
            check_fits(batch, lengths)
        assert np.array_equal(np.sort(ids_of(batches)), fits)
    assert plan.batch(plan.batches_per_epoch + 3).ids.tolist() == batches[3].ids.tolist()


def test_a_pair_has_other_neighbours_in_the_next_epoch():
    plan = make_plan(news(5000))
    neighbours = [
        {frozenset(row[row >= 0]) for batch in plan.epoch(epoch) for row in batch.ids}
        for epoch in (0, 1)
    ]
    assert len(neighbours[0] & neighbours[1]) < 0.02 * len(neighbours[0])


@pytest.mark.parametrize('corpus', [news, captions, between_20_and_50])
def test_less_than_3_percent_of_an_epoch_is_padding(corpus):
    lengths = corpus(60_000)
    plan = make_plan(lengths)
    assert len(plan.buckets) == 1
    assert plan.buckets[0].rows % 8 == 0
    assert plan.buckets[0].rows * max(plan.buckets[0][1:]) <= 4096
    assert 0 < plan.padding < 0.03
    batches, (_, *rooms) = plan.epoch(0), plan.buckets[0]
    positions = len(batches) * plan.buckets[0].rows * sum(rooms)
    assert plan.padding == pytest.approx(
        1 - sum(side[ids_of(batches)].sum() for side in lengths) / positions
    )


@pytest.mark.parametrize(
    'lengths',
    [
        ([7], [9]),
        ([256, 256], [2, 256]),
        ([2, 256, 2, 256, 3], [256, 2, 256, 2, 200]),
        ([5] * 1000, [256] * 1000),
    ],
)
def test_odd_lengths_are_packed(lengths):
    lengths = [np.array(side) for side in lengths]
    batches = make_plan(lengths).epoch(0)
    for batch in batches:
        check_fits(batch, lengths)
    assert np.array_equal(np.sort(ids_of(batches)), np.arange(len(lengths[0])))


def test_very_long_pairs_are_packed():
    random = np.random.RandomState(0)
    lengths = random.randint(2, 20_000, (2, 300))
    plan = make_plan(lengths, max_length=20_000, tokens_per_batch=8 * 20_000)
    assert np.array_equal(np.sort(ids_of(plan.epoch(0))), np.arange(300))


def test_rounds_of_an_epoch_have_each_pair_once_and_steps_are_located(monkeypatch):
    monkeypatch.setattr(order, '_MOST', 2000)
    monkeypatch.setattr(packing, '_MOST', 2000)
    lengths = captions(5000)
    plan = make_plan(lengths)
    assert not plan.rounds_are_epochs
    batches = plan.epoch(0)
    assert np.array_equal(np.sort(ids_of(batches)), np.arange(5000))
    assert plan.steps_of(1) == len(batches)
    assert abs(plan.batches_per_epoch - len(batches)) <= 3
    for step in (0, 20, len(batches) - 1):
        assert make_plan(lengths).batch(step).ids.tolist() == batches[step].ids.tolist()


def test_a_mixture_and_spellings_are_packed():
    lengths = captions(600)
    plan = make_plan(
        lengths,
        stages=[Stage(MixedOrder([100, 200], [0.5, 0.5], seed=0))],
        spellings=[0.5],
    )
    assert plan.pairs == 300
    ids = ids_of(plan.round(0))
    assert abs(np.count_nonzero(ids % 300 < 100) - 150) <= 1
    assert 100 < np.count_nonzero(ids >= 300) < 200
    for batch in plan.round(1):
        check_fits(batch, lengths)


def test_the_rows_depend_on_the_lengths_and_not_on_their_order():
    lengths = np.stack(news(2000))
    bucket, batches = packing.packed_bucket(LengthCounts.of(*lengths, 256), 4096)
    fits = lengths[:, lengths.max(axis=0) <= 256]
    rows = packing.rows_needed(*fits, bucket)
    assert rows == packing.rows_needed(*fits[:, ::-1], bucket)
    assert batches == -(-rows // bucket.rows)


def test_packed_sentences_stand_one_after_another_with_their_numbers():
    lines = [np.array(x) for x in ([5, 1], [6, 7, 1], [8, 1], [9, 9, 9, 1])]
    joined = JoinedSentences([sentences_from(lines[:2]), sentences_from(lines[2:])])
    for sentences in (sentences_from(lines), joined):
        tokens, segments = packed(sentences, np.array([[2, 1, -1], [3, -1, -1], [-1] * 3]), 6)
        assert tokens.tolist() == [[8, 1, 6, 7, 1, 0], [9, 9, 9, 1, 0, 0], [0] * 6]
        assert segments.tolist() == [[1, 1, 2, 2, 2, 0], [1, 1, 1, 1, 0, 0], [0] * 6]
        assert tokens.dtype == segments.dtype == np.int32
