"""Dropout (Srivastava et al., 2014) from 16 random bits for each element."""

import math

import jax
import jax.numpy as jnp
from jax.extend.random import threefry2x32_p


def dropout(x: jax.Array, rate: float, key: jax.Array) -> jax.Array:
    """Set random elements to zero and scale the rest, so that the mean stays the same.

    Drawing random bits is most of the cost of dropout. `jax.random.bits` uses 64 of Threefry's bits
    per element, this function 16.

    Args:
      x: [..., C].
      rate: share of elements set to zero, at least 0 and below 1; rounded to a multiple of 2^-16.
      key: a JAX random key.

    Returns:
      [..., C], in the dtype of `x`.

    Raises:
      ValueError: if `rate` is out of range.
    """
    if not 0.0 <= rate < 1.0:
        raise ValueError(f'the dropout rate {rate} must be at least 0 and below 1.')
    kept = max(1, round((1.0 - rate) * 2**16))
    if kept == 2**16:
        return x
    shape = (*x.shape[:-1], -(-x.shape[-1] // 4))
    counts = jax.lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)
    key_words = jax.random.bits(key, (2,), jnp.uint32)  # for any kind of key
    words = threefry2x32_p.bind(*key_words, counts, jnp.zeros_like(counts))
    parts = [part < kept for word in words for part in (word & 0xFFFF, word >> 16)]
    keep = jnp.concatenate(parts, axis=-1)[..., : x.shape[-1]]
    return jnp.where(keep, x * (2**16 / kept), 0).astype(x.dtype)
