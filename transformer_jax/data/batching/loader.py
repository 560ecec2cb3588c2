"""Training batches: tf.data gathers and pads the pairs that the batch plan lists, ahead of time.

Sentences are read where they lie, in mapped files. Until TensorFlow is imported, or if it is not
installed, a plain thread makes the same batches.
"""

import contextlib
import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from transformer_jax.data._tensorflow import import_tensorflow
from transformer_jax.data.batching.buckets import Batch, Bucket, ProcessRows, all_rows
from transformer_jax.data.batching.plan import BatchPlan
from transformer_jax.data.batching.subword_sampling import SubwordSampler
from transformer_jax.data.batching.token_store import TokenStore, packed

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
      padding. If pairs are packed, also 'source_segments' and 'target_segments' of the same shapes:
      the number of each token's pair in its row, counted from 1; 0 for padding.
    """
    following_round, index = plan.locate(start_step)

    def planned(first: int) -> tuple[list[Any], int]:
        """Return the input of `read` for the batches from round `first` on, and the next round."""
        result: list[Any] = []
        number = first
        while len(result) < _MIN_BATCHES:
            batches = plan.round(number)
            if subword_sampler is None:
                result += [
                    batch._replace(ids=process_rows(batch.bucket, batch.ids)) for batch in batches
                ]
            else:
                result += [(batch, number, place) for place, batch in enumerate(batches)]
            number += 1
        return result, number

    with ThreadPoolExecutor(1) as planner, ThreadPoolExecutor(1) as loader:
        batches, following_round = planned(following_round)
        batches = batches[index:]
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
            following = planner.submit(planned, following_round)  # plan ahead during training
            yield from read(batches)
            batches, following_round = following.result()


def load_tensorflow() -> None:
    """Import TensorFlow if it is installed, so that the first batch comes from tf.data."""
    with contextlib.suppress(ImportError):
        import_tensorflow()


def _tensorflow_is_loaded() -> bool:
    return 'tensorflow' in sys.modules


def _sampled_batches(subword_sampler: SubwordSampler, process_rows: ProcessRows):
    def sample(planned: tuple[Batch, int, int]) -> tuple[Bucket, Arrays]:
        return planned[0].bucket, subword_sampler.arrays(*planned, process_rows)

    return lambda batches: _ahead(sample, batches)


def _stored_batches(store: TokenStore):
    try:
        import_tensorflow()
    except ImportError:
        _logger.warning('tensorflow is not installed: a plain thread feeds the batches.')
        return lambda batches: thread_batches(store, batches)
    return lambda batches: tf_data_batches(store, batches)


def tf_data_batches(store: TokenStore, batches: list[Batch]) -> Iterator[tuple[Bucket, Arrays]]:
    """Gather `batches` with tf.data.

    Args:
      store: the tokenised pairs.
      batches: of the plan, with the ids of this process's rows.

    Yields:
      As `training_batches`.
    """
    tf = import_tensorflow()
    if not batches:
        return

    names = list(_gathered(store, batches[0]))

    def gather(number: np.ndarray) -> list[np.ndarray]:
        return list(_gathered(store, batches[int(number)]).values())

    dataset = tf.data.Dataset.range(len(batches)).map(
        lambda number: tf.numpy_function(gather, [number], [tf.int32] * len(names)),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    arrays = dataset.prefetch(_PREFETCH).as_numpy_iterator()
    for batch, values in zip(batches, arrays, strict=True):
        yield batch.bucket, dict(zip(names, values, strict=True))


def _gathered(store: TokenStore, batch: Batch) -> Arrays:
    _, source_length, target_length = batch.bucket
    if batch.ids.ndim == 1:
        return {
            'source': store.source.padded(batch.ids, source_length),
            'target': store.target.padded(batch.ids, target_length),
        }
    source, source_segments = packed(store.source, batch.ids, source_length)
    target, target_segments = packed(store.target, batch.ids, target_length)
    return {
        'source': source,
        'target': target,
        'source_segments': source_segments,
        'target_segments': target_segments,
    }


def thread_batches(store: TokenStore, batches: list[Batch]) -> Iterator[tuple[Bucket, Arrays]]:
    """Gather `batches` with NumPy in one thread; yields as `training_batches`."""

    yield from _ahead(lambda batch: (batch.bucket, _gathered(store, batch)), batches)


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
