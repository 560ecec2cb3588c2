"""Training batches on the devices, placed one step ahead."""

import contextlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
from jax.sharding import Mesh

from transformer_jax.data.batching.buckets import Bucket
from transformer_jax.data.batching.loader import training_batches
from transformer_jax.data.batching.plan import BatchPlan
from transformer_jax.data.batching.subword_sampling import SubwordSampler
from transformer_jax.data.batching.token_store import TokenStore
from transformer_jax.sharding import local_rows, shard_batch


def device_batches(
    store: TokenStore,
    plan: BatchPlan,
    rows: Mapping[Bucket, int],
    mesh: Mesh,
    start_step: int = 0,
    subword_sampler: SubwordSampler | None = None,
) -> Iterator[tuple[Bucket, dict[str, jax.Array]]]:
    """Yield the batches from step `start_step` on, without end.

    Args:
      store: the tokenised pairs.
      plan: the pairs of each batch.
      rows: the rows of each bucket on the devices; those beyond the bucket's own are empty.
      mesh: the devices; each process reads only the rows of its own devices.
      start_step: the first step to deliver, counted from 0.
      subword_sampler: segments each sentence again; None takes the tokens of the store.

    Yields:
      The bucket, and the arrays of `training_batches`, with `rows` rows.
    """

    def process_rows(bucket: Bucket, values: np.ndarray) -> np.ndarray:
        padded = np.full((rows[bucket], *values.shape[1:]), -1)
        padded[: len(values)] = values
        return padded[local_rows(mesh, rows[bucket])]

    batches = training_batches(store, plan, start_step, process_rows, subword_sampler)

    def place_next() -> tuple[Bucket, dict[str, jax.Array]]:
        bucket, arrays = next(batches)
        return bucket, shard_batch(arrays, mesh, rows[bucket])

    with contextlib.closing(batches), ThreadPoolExecutor(1) as pool:
        following = pool.submit(place_next)
        while True:
            batch = following.result()
            following = pool.submit(place_next)  # during the step on this batch
            yield batch
