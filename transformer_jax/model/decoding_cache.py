"""What decoding remembers between steps, for all hypotheses of a batch of sentences."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from transformer_jax.model.attention import KVCache

# One KVCache per decoder layer.
Caches = tuple[KVCache, ...]


class DecodingCache(NamedTuple):
    """What decoding K hypotheses of each sentence has seen, with room for T tokens of each.

    Keys and values never move: place K t + k is that of what the k-th hypothesis was at position t,
    and `ancestors` says which of these each of today's hypotheses descends from. All K of a
    sentence are then queries on one set of keys.

    Attributes:
      self_attention: of each layer, a KVCache of S = T·K places.
      memory: of each layer, a KVCache of the S places of the encoder's output.
      memory_mask: [B, 1, 1, S] bool.
      ancestors: [B, K, T] int32, from 0 to K - 1; -1 at positions to come.
    """

    self_attention: Caches
    memory: Caches
    memory_mask: jax.Array
    ancestors: jax.Array


def with_room(cache: DecodingCache, length: int) -> DecodingCache:
    """The cache with room for T = `length` tokens of each hypothesis; it keeps those it has.

    Raises:
      ValueError: if it has room for more already.
    """
    _, hypotheses, room = cache.ancestors.shape
    if length < room:
        raise ValueError(f'length={length} must be at least the room there is, {room}.')

    def longer(x: jax.Array, axis: int, count: int, value: int = 0) -> jax.Array:
        padding = [(0, 0)] * x.ndim
        padding[axis] = (0, count)
        return jnp.pad(x, padding, constant_values=value)

    places = (length - room) * hypotheses
    return cache._replace(
        self_attention=tuple(
            KVCache(longer(key, 3, places), longer(value, 2, places))
            for key, value in cache.self_attention
        ),
        ancestors=longer(cache.ancestors, 2, length - room, -1),
    )


def select_sentences(cache: DecodingCache, sentences: jax.Array) -> DecodingCache:
    """The cache of some of its sentences, [b] int32."""
    return jax.tree.map(lambda x: x[sentences], cache)


def reorder_hypotheses(cache: DecodingCache, origins: jax.Array) -> DecodingCache:
    """The cache after each hypothesis has been replaced by one of its sentence.

    Args:
      cache: before.
      origins: [B, K] int32, which hypothesis takes each place.
    """
    ancestors = jnp.take_along_axis(cache.ancestors, origins[..., None], axis=1)
    return cache._replace(ancestors=ancestors)
