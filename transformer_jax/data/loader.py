"""Batches for the training step: tf.data gathers and pads what the plan says, ahead of time.

Whole batches go through tf.data, as graph operations only: a batch costs one gather a side. Until
TensorFlow is there, a plain thread makes the same batches.
"""

import contextlib
import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from transformer_jax.data.batching import Batch, BatchPlan
from transformer_jax.data.subword_sampling import SubwordSampler
from transformer_jax.data.token_store import Sentences, TokenStore

Arrays = dict[str, np.ndarray]
Held = Callable[[np.ndarray], np.ndarray]
_PREFETCH = 8  # batches
# Batches, at least, that are handed to tf.data at once: each time costs it 80 ms, in which a small
# corpus has many epochs.
_AT_ONCE = 500
_logger = logging.getLogger('transformer_jax')


def training_batches(
    store: TokenStore,
    plan: BatchPlan,
    start_step: int,
    held: Held = np.asarray,
    subword_sampler: SubwordSampler | None = None,
) -> Iterator[Arrays]:
    """The batches of the steps from `start_step` (counted from 0) on, without end.

    Args:
      store: the tokenised pairs.
      plan: which pairs make up which batch.
      start_step: the first step to deliver.
      held: from the pair numbers of a batch to those this process wants, -1 for an empty row.
      subword_sampler: draws the pieces of each sentence; None takes them from the store.

    Yields:
      'source' [rows, S] and 'target' [rows, T], int32 ids, 0 where there is nothing.
    """
    epoch, place = plan.locate(start_step)
    epochs = -(-_AT_ONCE // plan.batches_per_epoch)

    def planned(first: int) -> list[Any]:
        """What `read` is given for each batch of the `epochs` epochs from `first` on."""
        result = []
        for epoch in range(first, first + epochs):
            batches = plan.epoch(epoch)
            if subword_sampler is None:
                result += [batch._replace(ids=held(batch.ids)) for batch in batches]
            else:
                result += [(batch, epoch, index) for index, batch in enumerate(batches)]
        return result

    with ThreadPoolExecutor(1) as planner, ThreadPoolExecutor(1) as loader:
        batches = planned(epoch)[place:]
        if subword_sampler is not None:
            read = _drawer(subword_sampler, held)
        elif _tensorflow_is_loaded():
            read = _reader(store)
        else:
            # Its import takes Python for seconds, which the first steps do not wait for.
            by_thread, taken = thread_batches(store, batches), 1
            yield next(by_thread)
            loading = loader.submit(_reader, store)
            for arrays in by_thread:
                if loading.done():
                    break
                yield arrays
                taken += 1
            batches, read = batches[taken:], loading.result()
        while True:
            epoch += epochs
            following = planner.submit(planned, epoch)  # while these are trained on
            yield from read(batches)
            batches = following.result()


def _drawer(subword_sampler: SubwordSampler, held: Held):
    def draw(place: tuple[Batch, int, int]) -> Arrays:
        return subword_sampler.arrays(*place, held)

    return lambda places: _ahead(draw, places)


def _tensorflow_is_loaded() -> bool:
    return 'tensorflow' in sys.modules


def load_tensorflow() -> None:
    """Imports TensorFlow where it is installed, for the first batch to come from tf.data."""
    with contextlib.suppress(ImportError):
        from transformer_jax.data._tensorflow import import_tensorflow

        import_tensorflow()


def _reader(store: TokenStore):
    try:
        from transformer_jax.data._tensorflow import import_tensorflow

        tf = import_tensorflow()
    except ImportError:
        _logger.warning('tensorflow is not installed: a plain thread feeds the batches.')
        return lambda batches: thread_batches(store, batches)
    sides = {
        name: (tf.constant(sentences.tokens), tf.constant(sentences.offsets))
        for name, sentences in (('source', store.source), ('target', store.target))
    }
    return lambda batches: tf_data_batches(sides, batches)


def tf_data_batches(sides, batches: list[Batch]) -> Iterator[Arrays]:
    """Gathers `batches` with tf.data.

    Args:
      sides: 'source' and 'target', each a pair of tensors: tokens and offsets of `Sentences`.
      batches: of the plan.

    Yields:
      As `training_batches`.
    """
    from transformer_jax.data._tensorflow import import_tensorflow

    tf = import_tensorflow()
    if not batches:
        return
    ids = tf.constant(np.concatenate([batch.ids for batch in batches]))
    ends = tf.constant(np.cumsum([0] + [len(batch.ids) for batch in batches]))
    lengths = {
        'source': tf.constant([batch.bucket.source_length for batch in batches]),
        'target': tf.constant([batch.bucket.target_length for batch in batches]),
    }

    def gather(index):
        rows = ids[ends[index] : ends[index + 1]]
        result = {}
        for name, (tokens, offsets) in sides.items():
            start = tf.gather(offsets, tf.maximum(rows, 0))
            count = tf.where(rows >= 0, tf.gather(offsets, tf.maximum(rows, 0) + 1) - start, 0)
            column = tf.range(tf.cast(lengths[name][index], tf.int64))[None, :]
            real = column < count[:, None]
            where = tf.where(real, start[:, None] + column, 0)
            result[name] = tf.where(real, tf.cast(tf.gather(tokens, where), tf.int32), 0)
        return result

    dataset = tf.data.Dataset.range(len(batches)).map(
        gather, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
    )
    yield from dataset.prefetch(_PREFETCH).as_numpy_iterator()


def thread_batches(store: TokenStore, batches: list[Batch]) -> Iterator[Arrays]:
    """The same with NumPy in one thread, for machines without tensorflow."""

    def gather(batch: Batch) -> Arrays:
        def side(sentences: Sentences, length: int) -> np.ndarray:
            return sentences.padded(batch.ids, length)

        return {
            'source': side(store.source, batch.bucket.source_length),
            'target': side(store.target, batch.bucket.target_length),
        }

    yield from _ahead(gather, batches)


def _ahead(make: Callable[[Any], Arrays], items: Iterable) -> Iterator[Arrays]:
    """`make` of each item, in order, made ahead of time in a thread."""
    with ThreadPoolExecutor(1) as pool:
        made: deque = deque()
        for item in items:
            made.append(pool.submit(make, item))
            if len(made) > _PREFETCH:
                yield made.popleft().result()
        while made:
            yield made.popleft().result()
