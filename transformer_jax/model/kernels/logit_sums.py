"""The sums over the vocabulary that a loss needs of its logits."""

import jax
import jax.numpy as jnp

from transformer_jax.model.kernels.platform import target_platform


def log_sum_exp_and_mean(logits: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return log(sum(exp(logits))) and the mean of the logits, over the last axis.

    Accelerators read the logits once; by way of their maximum they would read them twice.

    Args:
      logits: [..., V], floating point; -inf is allowed.

    Returns:
      Two arrays [...] float32.
    """
    exact = logits.astype(jnp.float32)
    if target_platform() == 'cpu':
        return jax.nn.logsumexp(exact, axis=-1), jnp.mean(exact, axis=-1)

    def merge(a, b):
        """Merge (m, sum(exp(x - m)), sum(x)) of two sets of logits."""
        largest = jnp.maximum(a[0], b[0])
        shared = a[1] * jnp.exp(a[0] - largest) + b[1] * jnp.exp(b[0] - largest)
        return largest, shared, a[2] + b[2]

    # A finite low number, because the difference of two infinite ones is NaN.
    low = jnp.float32(jnp.finfo(jnp.float32).min)
    start = low, jnp.float32(0), jnp.float32(0)
    parts = jnp.maximum(exact, low), jnp.ones_like(exact), exact
    largest, total, plain = jax.lax.reduce(parts, start, merge, (exact.ndim - 1,))
    return largest + jnp.log(total), plain / exact.shape[-1]
