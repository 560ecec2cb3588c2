"""Ids to batches: the token store, the plan, buckets of lengths, the loader.

The names are imported when they are first used, because TensorFlow takes time.
"""

from typing import TYPE_CHECKING

from transformer_jax.lazy import lazy_exports

if TYPE_CHECKING:
    from transformer_jax.data.batching.buckets import make_buckets as make_buckets
    from transformer_jax.data.batching.buckets import round_length as round_length
    from transformer_jax.data.batching.plan import BatchPlan as BatchPlan
    from transformer_jax.data.batching.plan import plan_epoch as plan_epoch

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        'transformer_jax.data.batching.buckets': ['make_buckets', 'round_length'],
        'transformer_jax.data.batching.plan': ['BatchPlan', 'plan_epoch'],
    },
)
