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


def grow_cache(cache: DecodingCache, length: int) -> DecodingCache:
    """The cache with room for T = `length` tokens of each hypothesis; it keeps those it has.

    Raises:
      ValueError: if it has room for more already.
    """
    _, hypotheses, room = cache.ancestors.shape
    if length < room:
        raise ValueError(f'length={length} must be at least the room there is, {room}.')

    places = (length - room) * hypotheses
    return cache._replace(
        self_attention=tuple(
            KVCache(_longer(key, 3, places), _longer(value, 2, places))
            for key, value in cache.self_attention
        ),
        ancestors=_longer(cache.ancestors, 2, length - room, -1),
    )


def _longer(x: jax.Array, axis: int, count: int, value: int = 0) -> jax.Array:
    """`x` with `count` times `value` more at the end of an axis."""
    padding = [(0, 0)] * x.ndim
    padding[axis] = (0, count)
    return jnp.pad(x, padding, constant_values=value)


def select_sentences(cache: DecodingCache, sentences: jax.Array) -> DecodingCache:
    """The cache of some of its sentences, [b] int32."""
    return jax.tree.map(lambda x: x[sentences], cache)


def reorder_hypotheses(cache: DecodingCache, origins: jax.Array) -> DecodingCache:
    """The cache after each hypothesis has been replaced by one of its sentence.

    Args:
      cache: before, of J hypotheses of each sentence.
      origins: [B, K] int32, which of them takes each of the places, which may be more.

    Raises:
      ValueError: if there are fewer places than hypotheses.
    """
    _, before, room = cache.ancestors.shape
    after = origins.shape[1]
    if after < before:
        raise ValueError(f'origins are of {after} places, but there are {before} hypotheses.')
    ancestors = jnp.take_along_axis(cache.ancestors, origins[..., None], axis=1)
    if after == before:
        return cache._replace(ancestors=ancestors)

    def wider(x: jax.Array, axis: int) -> jax.Array:
        """T·J places as T·K."""
        by_position = x.reshape(*x.shape[:axis], room, before, *x.shape[axis + 1 :])
        places = _longer(by_position, axis + 1, after - before)
        return places.reshape(*x.shape[:axis], room * after, *x.shape[axis + 1 :])

    return cache._replace(
        self_attention=tuple(
            KVCache(wider(key, 3), wider(value, 2)) for key, value in cache.self_attention
        ),
        ancestors=ancestors,
    )
