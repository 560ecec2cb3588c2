"""Keys and values that decoding keeps between steps, for all hypotheses of a batch."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class KVCache(NamedTuple):
    """Keys and values of positions already seen, of one attention module.

    Their layout suits the products of one head: keys are transposed, each matrix is contiguous.

    Attributes:
      key: [B, N, H, S].
      value: [B, N, S, Hv].
    """

    key: jax.Array
    value: jax.Array


# One KVCache per decoder layer.
Caches = tuple[KVCache, ...]


class DecodingCache(NamedTuple):
    """Keys and values of K hypotheses of each sentence, with capacity for T tokens of each.

    Keys and values never move. Slot K·t + k holds those of beam k at step t, and
    `ancestors[b, k, t] = j` means that the current beam k descends from beam j of step t. All K
    hypotheses of a sentence are then queries on one set of keys.

    For example, two beams (K = 2) of one sentence:

        step 0  beam 0 is 'the', beam 1 is 'a'                  slots 0 and 1 are written
                ancestors [[0], [1]]
        both beams continue beam 0 (origins [0, 0])
                ancestors [[0], [0]]
        step 1  beam 0 is 'the cat', beam 1 is 'the dog'        slots 2 and 3 are written
                ancestors [[0, 0], [0, 1]]
        the two beams change places (origins [1, 0])
                ancestors [[0, 1], [0, 0]]
        step 2  beam 0 is 'the dog ran', beam 1 'the cat ran'   slots 4 and 5 are written
                ancestors [[0, 1, 0], [0, 0, 1]]

    Beam 0 now sees the slots 2·0 + 0, 2·1 + 1 and 2·2 + 0, which are 'the', 'dog' and 'ran'. Beam 1
    sees the slots 0, 2 and 5. Nobody sees slot 1 ('a').

    Attributes:
      self_attention: for each layer, a KVCache of S = T·K slots.
      memory: for each layer, a KVCache of the S positions of the encoder's output; none in a
        decoder-only model.
      memory_mask: [B, 1, 1, S] bool; None in a decoder-only model.
      ancestors: [B, K, T] int32, from 0 to K - 1; -1 at positions to come.
    """

    self_attention: Caches
    memory: Caches
    memory_mask: jax.Array | None
    ancestors: jax.Array


def ancestor_mask(ancestors: jax.Array) -> jax.Array:
    """Return which slots each hypothesis sees.

    Args:
      ancestors: [B, K, T], of a `DecodingCache`.

    Returns:
      [B, 1, K, T·K] bool.
    """
    batch, hypotheses, _ = ancestors.shape
    seen_BKTK = ancestors[..., None] == jnp.arange(hypotheses)[None, None, None]
    return seen_BKTK.reshape(batch, hypotheses, -1)[:, None]


def advance_cache(cache: DecodingCache, position: jax.Array) -> DecodingCache:
    """Return the cache for a step of a `Decoder`: each hypothesis sees its own slot of the step.

    Args:
      cache: from the step before, with capacity for this position.
      position: int32 scalar, the step, counted from 0.

    Raises:
      ValueError: if the cache has no capacity.
    """
    batch, hypotheses, length = cache.ancestors.shape
    if length == 0:
        raise ValueError(
            'the cache length is 0: call grow_cache(cache, length) first, or give a search '
            'grow=grow_cache.'
        )
    own_K = jnp.arange(hypotheses, dtype=jnp.int32)
    own_BK = jnp.broadcast_to(own_K[None], (batch, hypotheses))
    return cache._replace(ancestors=cache.ancestors.at[:, :, position].set(own_BK))


def grow_cache(cache: DecodingCache, length: int) -> DecodingCache:
    """Return the cache with capacity for T = `length` tokens of each hypothesis.

    Raises:
      ValueError: if the capacity is already greater.
    """
    _, hypotheses, capacity = cache.ancestors.shape
    if length < capacity:
        raise ValueError(f'length={length} must be at least the cache length, {capacity}.')

    slots = (length - capacity) * hypotheses
    return cache._replace(
        self_attention=tuple(
            KVCache(_padded(key, 3, slots), _padded(value, 2, slots))
            for key, value in cache.self_attention
        ),
        ancestors=_padded(cache.ancestors, 2, length - capacity, -1),
    )


def _padded(x: jax.Array, axis: int, count: int, value: int = 0) -> jax.Array:
    """Return `x` with `value` appended `count` times along an axis."""
    padding = [(0, 0)] * x.ndim
    padding[axis] = (0, count)
    return jnp.pad(x, padding, constant_values=value)


def select_sentences(cache: DecodingCache, sentences: jax.Array) -> DecodingCache:
    """Return the cache of the sentences with these indices, [b] int32."""
    return jax.tree.map(lambda x: x[sentences], cache)


def reorder_hypotheses(cache: DecodingCache, origins: jax.Array) -> DecodingCache:
    """Return the cache after new hypotheses have replaced those of each sentence.

    Args:
      cache: the cache of J hypotheses of each sentence.
      origins: [B, K] int32, which of the J hypotheses each of the K new ones continues; K is at
        least J.

    Raises:
      ValueError: if K is less than J.
    """
    _, before, capacity = cache.ancestors.shape
    after = origins.shape[1]
    if after < before:
        raise ValueError(
            f'origins has {after} hypotheses of a sentence, fewer than the {before} in the cache.'
        )
    ancestors = jnp.take_along_axis(cache.ancestors, origins[..., None], axis=1)
    if after == before:
        return cache._replace(ancestors=ancestors)

    def widen(x: jax.Array, axis: int) -> jax.Array:
        """Spread T·J slots over T·K."""
        by_position = x.reshape(*x.shape[:axis], capacity, before, *x.shape[axis + 1 :])
        slots = _padded(by_position, axis + 1, after - before)
        return slots.reshape(*x.shape[:axis], capacity * after, *x.shape[axis + 1 :])

    return cache._replace(
        self_attention=tuple(
            KVCache(widen(key, 3), widen(value, 2)) for key, value in cache.self_attention
        ),
        ancestors=ancestors,
    )
