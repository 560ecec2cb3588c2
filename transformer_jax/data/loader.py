"""Training batches: tf.data gathers and pads the pairs that the batch plan lists, ahead of time.

tf.data works on whole batches and with graph operations only: each batch costs one gather per side.
Until TensorFlow is imported, or if it is not installed, a plain thread makes the same batches.
"""

import contextlib
import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from transformer_jax.data.batching import Batch, BatchPlan, Bucket, ProcessRows, all_rows
from transformer_jax.data.subword_sampling import SubwordSampler
from transformer_jax.data.token_store import TokenStore

Arrays = dict[str, np.ndarray]
_PREFETCH = 8  # batches
# tf.data receives at least this many batches at once, because it starts slowly and a small corpus
# has many short epochs.
_MIN_BATCHES = 500
_logger = logging.getLogger('transformer_jax')


def training_batches(
    store: TokenStore,
    plan: BatchPlan,
    start_step: int,
    process_rows: ProcessRows = all_rows,
    subword_sampler: SubwordSampler | None = None,
) -> Iterator[tuple[Bucket, Arrays]]:
    """Yield the batches from step `start_step` on, without end.

    Args:
      store: the tokenised pairs.
      plan: the pairs of each batch.
      start_step: the first step to deliver, counted from 0.
      process_rows: selects the rows of each batch that this process reads; all by default.
      subword_sampler: segments each sentence again; None takes the tokens of the store.

    Yields:
      The bucket, and 'source' [process rows, S] and 'target' [process rows, T], int32 ids, 0 for
      padding.
    """
    epoch, index = plan.locate(start_step)
    epochs = -(-_MIN_BATCHES // plan.batches_per_epoch)

    def planned(first: int) -> list[Any]:
        """Return the input of `read` for each batch of `epochs` epochs from `first` on."""
        result = []
        for epoch in range(first, first + epochs):
            batches = plan.epoch(epoch)
            if subword_sampler is None:
                result += [
                    batch._replace(ids=process_rows(batch.bucket, batch.ids)) for batch in batches
                ]
            else:
                result += [(batch, epoch, index) for index, batch in enumerate(batches)]
        return result

    with ThreadPoolExecutor(1) as planner, ThreadPoolExecutor(1) as loader:
        batches = planned(epoch)[index:]
        if subword_sampler is not None:
            read = _sampled_batches(subword_sampler, process_rows)
        elif _tensorflow_is_loaded():
            read = _stored_batches(store)
        else:
            # Importing TensorFlow takes seconds, so a thread makes the first batches meanwhile.
            by_thread, taken = thread_batches(store, batches), 1
            yield next(by_thread)
            loading = loader.submit(_stored_batches, store)
            for batch in by_thread:
                if loading.done():
                    break
                yield batch
                taken += 1
            batches, read = batches[taken:], loading.result()
        while True:
            epoch += epochs
            following = planner.submit(planned, epoch)  # plan ahead during training
            yield from read(batches)
            batches = following.result()


def load_tensorflow() -> None:
    """Import TensorFlow if it is installed, so that the first batch comes from tf.data."""
    with contextlib.suppress(ImportError):
        from transformer_jax.data._tensorflow import import_tensorflow

        import_tensorflow()


def _tensorflow_is_loaded() -> bool:
    return 'tensorflow' in sys.modules


def _sampled_batches(subword_sampler: SubwordSampler, process_rows: ProcessRows):
    def sample(planned: tuple[Batch, int, int]) -> tuple[Bucket, Arrays]:
        return planned[0].bucket, subword_sampler.arrays(*planned, process_rows)

    return lambda batches: _ahead(sample, batches)


def _stored_batches(store: TokenStore):
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


def tf_data_batches(sides, batches: list[Batch]) -> Iterator[tuple[Bucket, Arrays]]:
    """Gather `batches` with tf.data.

    Args:
      sides: 'source' and 'target', each a pair of tensors: tokens and offsets of `Sentences`.
      batches: of the plan, with the ids of this process's rows.

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
    arrays = dataset.prefetch(_PREFETCH).as_numpy_iterator()
    yield from zip((batch.bucket for batch in batches), arrays, strict=True)


def thread_batches(store: TokenStore, batches: list[Batch]) -> Iterator[tuple[Bucket, Arrays]]:
    """Gather `batches` with NumPy in one thread; yields as `training_batches`."""

    def gather(batch: Batch) -> tuple[Bucket, Arrays]:
        return batch.bucket, {
            'source': store.source.padded(batch.ids, batch.bucket.source_length),
            'target': store.target.padded(batch.ids, batch.bucket.target_length),
        }

    yield from _ahead(gather, batches)


def _ahead(make: Callable[[Any], Any], items: Iterable) -> Iterator[Any]:
    """Yield `make(item)` of each item, in order, made ahead of time in a thread."""
    with ThreadPoolExecutor(1) as pool:
        made: deque = deque()
        for item in items:
            made.append(pool.submit(make, item))
            if len(made) > _PREFETCH:
                yield made.popleft().result()
        while made:
            yield made.popleft().result()
