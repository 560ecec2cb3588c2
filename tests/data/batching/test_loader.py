"""Both loaders give the batches of the plan, and the same batches after a resume."""

import itertools
import threading

import numpy as np
import pytest

from transformer_jax.data.batching import loader
from transformer_jax.data.batching.loader import load_tensorflow, thread_batches, training_batches
from transformer_jax.data.batching.plan import BatchPlan
from transformer_jax.data.batching.token_store import TokenStore, sentences_from


@pytest.fixture(scope='module')
def store():
    random = np.random.RandomState(0)

    def side():
        return sentences_from([random.randint(1, 99, n) for n in random.randint(2, 20, 200)])

    return TokenStore(side(), side())


@pytest.fixture(scope='module')
def plan(store):
    return BatchPlan(
        store.source.lengths,
        store.target.lengths,
        max_length=20,
        tokens_per_batch=320,
        num_buckets=3,
        seed=0,
    )


@pytest.fixture(autouse=True)
def _tensorflow_is_loaded():
    load_tensorflow()


def same(a, b):
    """Return whether two batches have the same bucket and arrays."""
    return a[0] == b[0] and all(np.array_equal(a[1][side], b[1][side]) for side in a[1])


@pytest.mark.parametrize('count', [1, 500])
def test_tf_data_and_the_thread_make_the_same_batches(store, plan, monkeypatch, count):
    monkeypatch.setattr(loader, '_MIN_BATCHES', count)
    by_thread = [
        *thread_batches(store, plan.epoch(0)),
        *itertools.islice(thread_batches(store, plan.epoch(1)), 3),
    ]
    by_tf_data = list(itertools.islice(training_batches(store, plan, 0), len(by_thread)))
    assert len(by_thread) == plan.batches_per_epoch + 3
    assert all(same(a, b) for a, b in zip(by_thread, by_tf_data, strict=True))
    assert {x.dtype for _, batch in by_tf_data for x in batch.values()} == {np.dtype('int32')}


@pytest.mark.parametrize('after', [1, 5, 1000])
def test_a_thread_makes_the_batches_until_tensorflow_is_loaded(store, plan, monkeypatch, after):
    loaded, by_tf_data = threading.Event(), []
    stored_batches = loader._stored_batches

    def late(store):
        loaded.wait()
        read = stored_batches(store)
        return lambda batches: (by_tf_data.append(len(batches)), read(batches))[1]

    monkeypatch.setattr(loader, '_tensorflow_is_loaded', lambda: False)
    monkeypatch.setattr(loader, '_stored_batches', late)
    monkeypatch.setattr(loader, '_MIN_BATCHES', 1)
    batches = training_batches(store, plan, 0)
    wanted = [*thread_batches(store, plan.epoch(0)), *thread_batches(store, plan.epoch(1))]
    for count, expected in enumerate(wanted):
        if count == min(after, plan.batches_per_epoch):
            assert not by_tf_data
            loaded.set()
        assert same(next(batches), expected)
    assert by_tf_data


def test_batches_hold_the_sentences_of_the_plan(store, plan):
    (bucket, batch), planned = next(training_batches(store, plan, 0)), plan.epoch(0)[0]
    assert bucket == planned.bucket
    assert batch['source'].shape == (planned.bucket.rows, planned.bucket.source_length)
    for row, pair in enumerate(planned.ids[planned.ids >= 0]):
        first, last = store.target.offsets[pair : pair + 2]
        sentence = batch['target'][row][: last - first]
        assert sentence.tolist() == store.target.tokens[first:last].tolist()
        assert not batch['target'][row][last - first :].any()


@pytest.mark.parametrize('skipped', [1, 7, 25])
def test_a_resumed_loader_continues_with_the_same_batches(store, plan, skipped):
    whole = itertools.islice(training_batches(store, plan, 0), skipped, skipped + 3)
    resumed = itertools.islice(training_batches(store, plan, skipped), 3)
    assert all(same(a, b) for a, b in zip(whole, resumed, strict=True))


def test_a_process_reads_only_its_own_rows(store, plan):
    bucket, whole = next(training_batches(store, plan, 0))
    for rows in (slice(0, 8), slice(8, None)):
        part = next(training_batches(store, plan, 0, lambda _, ids, rows=rows: ids[rows]))
        assert same(part, (bucket, {name: x[rows] for name, x in whole.items()}))


def test_without_tensorflow_a_thread_makes_the_batches_and_a_warning_is_logged(
    store, plan, monkeypatch, caplog
):
    def missing():
        raise ModuleNotFoundError('tensorflow')

    monkeypatch.setattr(loader, 'import_tensorflow', missing)
    wanted = [*thread_batches(store, plan.epoch(0)), *thread_batches(store, plan.epoch(1))]
    batches = training_batches(store, plan, 0)
    assert all(same(next(batches), expected) for expected in wanted)
    batches.close()
    assert caplog.text.count('tensorflow is not installed') == 1
