"""Dropout (Srivastava et al., 2014) from 16 random bits for each element."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
from jax.extend.random import threefry2x32_p


@functools.partial(jax.tree_util.register_dataclass, data_fields=['words'], meta_fields=['kept'])
@dataclasses.dataclass(frozen=True)
class KeepBits:
    """The random bits of dropout.

    Attributes:
      words: two arrays [..., C / 4, rounded up] uint32; each word has 16 bits for two elements.
      kept: an element stays if its 16 bits are below this number.
    """

    words: tuple[jax.Array, jax.Array]
    kept: int


def keep_bits(shape: tuple[int, ...], rate: float, key: jax.Array) -> KeepBits | None:
    """Draw the random bits of dropout; None if all elements stay.

    Drawing random bits is most of the cost of dropout. `jax.random.bits` uses 64 of Threefry's bits
    per element, this function 16.

    Args:
      shape: [..., C], of what is dropped.
      rate: share of elements set to zero, at least 0 and below 1; rounded to a multiple of 2^-16.
      key: a JAX random key.

    Raises:
      ValueError: if `rate` is out of range.
    """
    if not 0.0 <= rate < 1.0:
        raise ValueError(f'the dropout rate {rate} must be at least 0 and below 1.')
    kept = max(1, round((1.0 - rate) * 2**16))
    if kept == 2**16:
        return None
    shape = (*shape[:-1], -(-shape[-1] // 4))
    counts = jax.lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)
    key_words = jax.random.bits(key, (2,), jnp.uint32)  # for any kind of key
    return KeepBits(threefry2x32_p.bind(*key_words, counts, jnp.zeros_like(counts)), kept)


def drop(x: jax.Array, keep: KeepBits | None) -> jax.Array:
    """Set the elements that `keep` names to zero, and scale the rest, so that the mean stays.

    Args:
      x: [..., C], any floating dtype.
      keep: from `keep_bits`; None changes nothing.

    Returns:
      [..., C], in the dtype of `x`.
    """
    if keep is None:
        return x
    parts = [p < keep.kept for word in keep.words for p in (word & 0xFFFF, word >> 16)]
    keeps = jnp.concatenate(parts, axis=-1)[..., : x.shape[-1]]
    return jnp.where(keeps, x * (2**16 / keep.kept), 0).astype(x.dtype)


def dropout(x: jax.Array, rate: float, key: jax.Array) -> jax.Array:
    """Return `drop(x, keep_bits(x.shape, rate, key))`."""
    return drop(x, keep_bits(x.shape, rate, key))
