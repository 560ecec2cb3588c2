"""Dropout (Srivastava et al., 2014) from 16 random bits for each element."""

import math

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.extend.random import threefry2x32_p


def dropout(x: jax.Array, rate: float, key: jax.Array) -> jax.Array:
    """Zeroes elements at random and scales the rest, so that the mean stays.

    Drawing random bits is most of what dropout costs. Of the bits that Threefry makes,
    `jax.random.bits` spends 64 on an element, this spends 16.

    Args:
      x: [..., C].
      rate: share of elements to zero, at least 0 and below 1; taken to the nearest 65536th.
      key: a JAX random key.

    Returns:
      [..., C], of x's dtype.

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
    key_words = jax.random.bits(key, (2,), jnp.uint32)  # whatever kind of key it is
    words = threefry2x32_p.bind(*key_words, counts, jnp.zeros_like(counts))
    parts = [part < kept for word in words for part in (word & 0xFFFF, word >> 16)]
    keep = jnp.concatenate(parts, axis=-1)[..., : x.shape[-1]]
    return jnp.where(keep, x * (2**16 / kept), 0).astype(x.dtype)


class Dropout(nn.Module):
    """`dropout` with a key of the rng 'dropout'.

    Attributes:
      rate: share of elements to zero.
    """

    rate: float

    @nn.compact
    def __call__(self, x: jax.Array, *, deterministic: bool) -> jax.Array:
        """[..., C] to [..., C]; unchanged if `deterministic`."""
        if deterministic or self.rate == 0.0:
            return x
        return dropout(x, self.rate, self.make_rng('dropout'))
