"""Every pair that fits is in one batch of an epoch, in the same batch for the same seed."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from transformer_jax.data.batching import order
from transformer_jax.data.batching import plan as batching
from transformer_jax.data.batching.buckets import (
    Bucket,
    batches_by_length,
    make_buckets,
    padded_lengths,
    round_length,
    rows_for,
)
from transformer_jax.data.batching.order import MixedOrder
from transformer_jax.data.batching.plan import BatchPlan, Stage, plan_epoch
from transformer_jax.runtime.signals import Stopped


def lengths(pairs, seed=0):
    """Return log-normal, correlated lengths, as those of captions."""
    random = np.random.RandomState(seed)
    source = np.clip(np.exp(random.normal(np.log(14), 0.35, pairs)), 2, 80).astype(int)
    target = np.clip(source * np.exp(random.normal(0, 0.1, pairs)), 2, 80).astype(int)
    return source, target


def make_plan(pairs=3000, **changes):
    settings = {'max_length': 40, 'tokens_per_batch': 1024, 'num_buckets': 6, 'seed': 1}
    return BatchPlan(*lengths(pairs), **settings | changes)


def rows_of(batches):
    ids = np.concatenate([batch.ids for batch in batches])
    return ids[ids >= 0]


@pytest.mark.parametrize(
    ('length', 'tokens', 'rows'), [(10, 100, 8), (10, 160, 16), (10, 239, 16), (1000, 100, 8)]
)
def test_rows_are_a_multiple_of_8(length, tokens, rows):
    assert rows_for(length, tokens) == rows


def test_batches_of_a_number_of_sentences_have_that_many_rows_whatever_their_length():
    plan = make_plan(sentences_per_batch=48)
    assert {bucket.rows for bucket in plan.buckets} == {48} and len(plan.buckets) > 2
    batches = plan.epoch(0)
    fits = (np.maximum(*lengths(3000)) <= 40).sum()
    assert len(rows_of(batches)) == fits
    full = [batch for batch in batches if (batch.ids >= 0).all()]
    assert len(full) >= len(batches) - 1 == fits // 48


def test_lengths_are_rounded_to_few_values():
    assert [round_length(n) for n in (1, 8, 9, 13, 17, 25, 33, 49, 65, 97, 500)] == [
        *(8, 8, 12, 16, 24, 32, 48, 64, 96, 128, 512)
    ]
    assert [round_length(n, 100) for n in (96, 97, 100)] == [96, 100, 100]
    assert [round_length(n, coarse=32) for n in (7, 9, 17, 33, 49)] == [8, 16, 32, 48, 64]


def test_batches_by_length_hold_every_pair_once_the_longest_first():
    of_pairs = np.random.RandomState(0).randint(1, 300, 500)
    batches = list(batches_by_length(of_pairs, 2048, 300))
    assert sorted(rows_of(batches)) == list(range(500))
    longest = [of_pairs[ids[ids >= 0]].max() for _, ids in batches]
    assert longest == sorted(longest, reverse=True)
    for (rows, length, target_length), ids in batches:
        assert len(ids) == rows and of_pairs[ids[ids >= 0]].max() <= length == target_length <= 300
        assert rows * length <= 2048


def test_batches_by_length_have_few_shapes_however_many_pairs_there_are():
    shapes = {
        bucket
        for count in range(1, 200)
        for bucket, _ in batches_by_length(np.full(count, 30), 2048)
    }
    assert shapes == {Bucket(rows, 32, 32) for rows in (8, 16, 32, 64)}


def test_with_few_rows_the_shapes_are_known_beforehand():
    assert padded_lengths(130) == [8, 16, 32, 64, 128, 256]
    assert padded_lengths(130, most=100) == [8, 16, 32, 64, 100]
    shapes = {
        bucket
        for count in (1, 5, 8, 20)
        for length in range(1, 131)
        for bucket, _ in batches_by_length(np.full(count, length), 512, None, 8)
    }
    alone = [next(batches_by_length(np.array([x]), 512, None, 8)) for x in padded_lengths(130)]
    assert shapes == {batch.bucket for batch in alone}


def test_every_pair_that_fits_appears_once_and_no_other():
    source, target = lengths(3000)
    fits = np.flatnonzero((source <= 40) & (target <= 40))
    plan = make_plan()
    assert sorted(rows_of(plan.epoch(0))) == fits.tolist()
    assert plan.dropped == 3000 - len(fits) > 0


def test_batches_have_the_shapes_of_their_buckets():
    source, target = lengths(3000)
    plan = make_plan()
    for bucket, ids in plan.epoch(2):
        assert len(ids) == bucket.rows
        assert bucket.rows % 8 == 0
        real = ids[ids >= 0]
        assert source[real].max() <= bucket.source_length
        assert target[real].max() <= bucket.target_length


def test_seed_and_epoch_determine_the_batches():
    def ids(plan, epoch):
        return [batch.ids.tolist() for batch in plan.epoch(epoch)]

    assert ids(make_plan(), 3) == ids(make_plan(), 3)
    assert ids(make_plan(), 3) != ids(make_plan(), 4)
    assert ids(make_plan(), 3) != ids(make_plan(seed=2), 3)


def test_the_plan_is_the_same_in_every_version_of_numpy():
    # A run may resume with another version of NumPy and must get the same batches.
    source = np.array([3, 5, 2, 7, 4, 6, 3, 2, 5, 4])
    batches = plan_epoch(source, source, (Bucket(8, 4, 4), Bucket(8, 8, 8)), seed=7, epoch=1)
    assert [(b.bucket.source_length, b.ids.tolist()) for b in batches] == [
        (8, [4, 2, 6, 7, 0, 9, 3, 1]),
        (8, [5, 8, -1, -1, -1, -1, -1, -1]),
    ]


def test_all_epochs_have_the_same_number_of_batches():
    plan = make_plan()
    assert {len(plan.epoch(epoch)) for epoch in range(5)} == {plan.batches_per_epoch}


def test_a_step_is_located_by_epoch_and_index():
    plan = make_plan()
    assert plan.locate(0) == (0, 0)
    assert plan.locate(plan.batches_per_epoch * 2 + 3) == (2, 3)


def test_almost_no_row_is_empty():
    batches = make_plan().epoch(0)
    partial = [batch for batch in batches if (batch.ids < 0).any()]
    assert len(partial) <= 2


def test_padding_is_reported_correctly_and_at_most_12_percent():
    source, target = lengths(29_000)
    plan = BatchPlan(source, target, max_length=80, tokens_per_batch=4096, num_buckets=16, seed=0)
    batches = plan.epoch(0)
    real = source[rows_of(batches)].sum() + target[rows_of(batches)].sum()
    positions = sum(b.rows * (b.source_length + b.target_length) for b, _ in batches)
    assert plan.padding == pytest.approx(1 - real / positions)
    assert plan.padding <= 0.12


def test_more_buckets_leave_less_padding():
    padding = [make_plan(num_buckets=n).padding for n in (1, 3, 9)]
    assert padding == sorted(padding, reverse=True)
    assert len(make_plan(num_buckets=9).buckets) <= 9


def test_a_tiny_corpus_is_one_batch():
    three = np.array([2, 3, 4])
    plan = BatchPlan(three, three, max_length=9, tokens_per_batch=100, num_buckets=5, seed=0)
    assert plan.buckets == (Bucket(8, 4, 4),)  # not the 24 rows that fit into 100 tokens
    assert sorted(rows_of(plan.epoch(0))) == [0, 1, 2]


def test_shapes_depend_on_the_lengths_and_not_on_max_length():
    lengths = np.array([3, 4, 5] * 40)
    buckets = [
        make_buckets(lengths, lengths, max_length=n, tokens_per_batch=100, num_buckets=3)
        for n in (5, 10**6)  # a table of all pairs of lengths would take terabytes
    ]
    assert buckets[0] == buckets[1]


def test_memory_does_not_grow_with_the_square_of_the_length():
    lengths = np.array([3, 4, 50_000] * 40)
    kwargs = {'max_length': 10**6, 'tokens_per_batch': 100, 'num_buckets': 3}
    tracemalloc.start()
    try:
        assert make_buckets(lengths, lengths[::-1], **kwargs)[-1].source_length == 50_000
        assert (
            tracemalloc.get_traced_memory()[1] < 10 * 2**20
        )  # a table of all pairs of lengths takes 19 GiB
    finally:
        tracemalloc.stop()


def test_lengths_that_all_exceed_the_limit_are_refused():
    with pytest.raises(ValueError, match='no pair fits into 5 tokens'):
        make_buckets(
            np.array([6]), np.array([2]), max_length=5, tokens_per_batch=100, num_buckets=1
        )


def test_lists_and_one_side_are_taken():
    source, target = lengths(500)
    options = {'max_length': 40, 'tokens_per_batch': 512, 'num_buckets': 4}
    both = make_buckets(source, target, **options)
    assert make_buckets(source.tolist(), target.tolist(), **options) == both
    assert make_buckets(source, **options) == make_buckets(source, source, **options)
    plan, twice = (BatchPlan(*x, seed=1, **options) for x in ((source,), (source, source)))
    assert plan.padding == twice.padding and plan.dropped == twice.dropped
    assert [b.tolist() for _, b in plan.epoch(3)] == [b.tolist() for _, b in twice.epoch(3)]


@pytest.mark.parametrize(
    'sides, message',
    [
        (([[3, 4], [5]],), r'source_lengths must be .* give \[len\(ids\) for ids in sentences\]'),
        (([3, 4], [5.0, 6.0]), 'target_lengths must be a whole number for each sentence'),
        (([3, 4], [5]), 'source_lengths has 2 sentences, but target_lengths 1'),
    ],
)
def test_what_are_no_lengths_is_named(sides, message):
    with pytest.raises(ValueError, match=message):
        make_buckets(*sides, max_length=9, tokens_per_batch=64, num_buckets=2)


@pytest.fixture
def small_rounds(monkeypatch):
    monkeypatch.setattr(order, '_MOST', 700)


def ids_of(batches):
    return [batch.ids.tolist() for batch in batches]


def test_an_epoch_of_several_rounds_has_every_pair_once_in_almost_as_few_batches(small_rounds):
    plan = make_plan()
    epochs = [plan.epoch(k) for k in (0, 1)]
    fits = np.flatnonzero(np.maximum(*lengths(3000)) <= 40).tolist()
    assert [sorted(rows_of(epoch)) for epoch in epochs] == [fits, fits]
    assert ids_of(epochs[0]) != ids_of(epochs[1])
    assert plan.steps_of(2) == sum(map(len, epochs))
    assert 0 <= len(epochs[0]) - plan.batches_per_epoch <= 5  # one for each round


def test_a_step_is_located_in_its_round(small_rounds):
    rounds = [batch for k in range(12) for batch in make_plan().round(k)]
    for step in (0, 1, 63, 40, len(rounds) - 1):
        plan = make_plan()
        number, index = plan.locate(step)
        assert plan.round(number)[index].ids.tolist() == rounds[step].ids.tolist()
        assert plan.batch(step).ids.tolist() == rounds[step].ids.tolist()


def test_stages_end_at_their_steps():
    mixes = [MixedOrder([1000, 2000], shares, 1, k) for k, shares in enumerate([(1, 0), (1, 3)])]
    stages = [Stage(mixes[0], 70), Stage(mixes[1])]
    steps = [make_plan(stages=stages).batch(k) for k in range(200)]
    assert max(rows_of(steps[:70])) < 1000
    second = rows_of(steps[70:])
    assert np.mean(second >= 1000) == pytest.approx(0.75, abs=0.03)
    later = make_plan(stages=stages)
    number, index = later.locate(199)
    assert later.round(number)[index].ids.tolist() == steps[199].ids.tolist()
    last, index = later.locate(69)
    assert (len(later.round(last)), later.locate(70)) == (index + 1, (last + 1, 0))


def test_a_stop_ends_locating_but_no_round_that_is_planned_during_training(
    small_rounds, monkeypatch
):
    def stop():
        raise Stopped('Stopped by SIGTERM.')

    monkeypatch.setattr(batching, 'stop_if_requested', stop)
    plan = make_plan()
    assert plan.round(2)
    for long_work in (lambda: plan.locate(10_000), lambda: plan.steps_of(9)):
        with pytest.raises(Stopped):
            long_work()


def test_threads_that_ask_for_rounds_at_the_same_time_get_the_same_plan(small_rounds):
    plan, alone = make_plan(), make_plan()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(plan.round, [5] * 8 + [9] * 8))
    assert all(ids_of(batches) == ids_of(alone.round(5)) for batches in found[:8])
    assert all(ids_of(batches) == ids_of(alone.round(9)) for batches in found[8:])
    assert plan.locate(150) == alone.locate(150)
