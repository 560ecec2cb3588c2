import itertools

import numpy as np

from transformer_jax.data.batching.plan import BatchPlan
from transformer_jax.data.batching.token_store import TokenStore, sentences_from
from transformer_jax.sharding import make_mesh
from transformer_jax.training.device_batches import device_batches


def test_batches_of_the_plan_are_on_the_devices_padded_with_empty_rows():
    random = np.random.default_rng(0)
    source, target = (
        sentences_from([np.full(n, k + 1) for k, n in enumerate(random.integers(2, 20, 300))])
        for _ in range(2)
    )
    plan = BatchPlan(
        source.lengths, target.lengths, max_length=20, tokens_per_batch=160, num_buckets=3, seed=0
    )
    mesh = make_mesh()
    rows = {bucket: bucket.rows + 8 for bucket in plan.buckets}
    batches = device_batches(TokenStore(source, target), plan, rows, mesh, start_step=4)
    for (bucket, batch), planned in zip(
        itertools.islice(batches, 6), plan.epoch(0)[4:10], strict=True
    ):
        assert bucket == planned.bucket
        assert batch['source'].shape == (rows[bucket], bucket.source_length)
        assert len(batch['target'].sharding.device_set) == 8
        # A sentence is made of its own number, counted from 1.
        expected = np.concatenate([planned.ids + 1, np.zeros(8)])
        np.testing.assert_array_equal(batch['source'][:, 0], expected)
