"""Training batches on the devices, one ahead of the step that takes it."""

import contextlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
from jax.sharding import Mesh

from transformer_jax.data.batching import BatchPlan, Bucket
from transformer_jax.data.loader import training_batches
from transformer_jax.data.subword_sampling import SubwordSampler
from transformer_jax.data.token_store import TokenStore
from transformer_jax.sharding import local_rows, shard_batch


def device_batches(
    store: TokenStore,
    plan: BatchPlan,
    rows: Mapping[Bucket, int],
    mesh: Mesh,
    start_step: int = 0,
    subword_sampler: SubwordSampler | None = None,
) -> Iterator[tuple[Bucket, dict[str, jax.Array]]]:
    """The batches of the steps from `start_step` (counted from 0) on, without end.

    Args:
      store: the tokenised pairs.
      plan: which pairs make up which batch.
      rows: of each bucket's batches, its own filled up for the devices.
      mesh: the devices; each process reads the rows that its own hold.
      start_step: the first step to deliver.
      subword_sampler: draws the pieces of each sentence; None takes them from the store.

    Yields:
      The bucket of each batch, and 'source' [rows, S] and 'target' [rows, T], int32 ids, 0 where
      there is nothing.
    """
    filled = {bucket.rows: count for bucket, count in rows.items()}
    held = {size: local_rows(mesh, count) for size, count in filled.items()}

    def held_ids(ids: np.ndarray) -> np.ndarray:
        all_ids = np.full(filled[len(ids)], -1)
        all_ids[: len(ids)] = ids
        return all_ids[held[len(ids)]]

    buckets = {(b.source_length, b.target_length): b for b in rows}

    feed = training_batches(store, plan, start_step, held_ids, subword_sampler)

    def place() -> tuple[Bucket, dict[str, jax.Array]]:
        batch = next(feed)
        bucket = buckets[batch['source'].shape[1], batch['target'].shape[1]]
        return bucket, shard_batch(batch, mesh, rows[bucket])

    with contextlib.closing(feed), ThreadPoolExecutor(1) as placer:
        following = placer.submit(place)
        while True:
            batch = following.result()
            following = placer.submit(place)  # while the step runs
            yield batch
