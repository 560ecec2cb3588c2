"""Encoder and decoder, each a stack of layers (paper, section 3.1)."""

import jax
import jax.numpy as jnp
from flax import linen as nn

from transformer_jax.config import ModelConfig
from transformer_jax.model.attention import heads_dtype
from transformer_jax.model.kv_cache import Caches, DecodingCache, KVCache, ancestor_mask
from transformer_jax.model.layers import DecoderLayer, EncoderLayer, compute_dtype, layer_norm
from transformer_jax.model.layout import Layout
from transformer_jax.model.positions import Positions


class Encoder(nn.Module):
    """A stack of encoder layers over embedded tokens (section 3.1); it adds the positions itself.

    Attributes:
      config: the sizes.
      layout: where the encoder's arrays lie on the devices.
    """

    config: ModelConfig
    layout: Layout = Layout()

    @nn.compact
    def __call__(
        self,
        x: jax.Array,
        mask: jax.Array | None = None,
        *,
        deterministic: bool = True,
        positions: jax.Array | None = None,
    ) -> jax.Array:
        """Encode embedded tokens.

        Args:
          x: [B, S, D] embeddings, scaled by sqrt(D) as in the paper, without positions.
          mask: bool, four axes broadcastable to [B, N, S, S], True where a query may look, for
            example `padding_mask(tokens)`; None if all tokens are real.
          deterministic: no dropout; otherwise the caller gives the rng 'dropout'.
          positions: [B, S] int positions of packed sentences; None counts from 0.

        Returns:
          [B, S, D], in the config's activation_dtype. What it is at padding means nothing.

        Raises:
          ValueError: if a shape is another, `mask` is not bool, or S is more than the table of
            learned positions has.
        """
        x = _checked_embeddings(x, self.config)
        positions = jnp.arange(x.shape[1]) if positions is None else positions
        x = Positions(self.config, name='positions')(x, positions, deterministic=deterministic)

        def run(layer: EncoderLayer, x: jax.Array) -> jax.Array:
            return layer(x, mask, deterministic=deterministic)

        # A Python loop, because `nn.scan` compiles sooner but makes each step slower on CPUs.
        for index in range(self.config.num_layers):
            layer = EncoderLayer(self.config, self.layout, name=f'layer_{index}')
            x = (nn.remat(run) if self.config.remat else run)(layer, x)
        # With norms inside the residual branches, nothing else normalises the last sum.
        return layer_norm(self.config, 'norm')(x) if self.config.norm == 'pre' else x


class Decoder(nn.Module):
    """A stack of decoder layers over embedded tokens (section 3.1); it adds the positions itself.

    Without a memory it is a decoder-only model: causal self-attention and feed-forward, no cross
    attention and no parameters for it.

    Attributes:
      config: the sizes.
      layout: where the decoder's arrays lie on the devices.
    """

    config: ModelConfig
    layout: Layout = Layout()

    @nn.compact
    def __call__(
        self,
        x: jax.Array,
        memory: jax.Array | Caches | None = None,
        memory_mask: jax.Array | None = None,
        *,
        deterministic: bool = True,
        cache: DecodingCache | None = None,
        position: jax.Array | None = None,
        self_mask: jax.Array | None = None,
        positions: jax.Array | None = None,
    ) -> tuple[jax.Array, Caches, Caches]:
        """Decode all positions at once or, with `cache`, one position of K hypotheses.

        Args:
          x: [B, T, D] embeddings, scaled by sqrt(D) as in the paper; with `cache`, [B, K, D].
          memory: [B, S, D], the encoder's output, or its keys and values per layer that an earlier
            call returned; None in a decoder-only model.
          memory_mask: bool, four axes broadcastable to [B, N, T, S], True where a query may look;
            None if all of the memory is real.
          deterministic: no dropout; otherwise the caller gives the rng 'dropout'.
          cache: the decoding cache, from `advance_cache`.
          position: int32 scalar, this position, counted from 0.
          self_mask: without `cache`, bool, four axes broadcastable to [B, N, T, T], True where a
            query may look; None is the causal mask.
          positions: without `cache`, [B, T] int positions of packed sentences; None counts from 0.

        Returns:
          The output, shaped like `x`, in activation_dtype; the keys and values of self-attention
          per layer;
          those of the memory per layer, none without a memory.

        Raises:
          ValueError: if a shape is another, a mask is not bool, T is more than the table of learned
            positions has, or there is no memory but a mask or parameters for it.
        """
        x = _checked_embeddings(x, self.config)
        count = x.shape[1]
        slot = None
        if cache is None:
            positions = jnp.arange(count) if positions is None else positions
        else:
            positions, slot = position[None], position * count
            self_mask = ancestor_mask(cache.ancestors)
        x = Positions(self.config, name='positions')(x, positions, deterministic=deterministic)

        def run(layer: DecoderLayer, x, memory, cache):
            return layer(
                x,
                memory,
                self_mask,
                memory_mask,
                deterministic=deterministic,
                cache=cache,
                position=slot,
            )

        self_caches, memory_caches = [], []
        for index in range(self.config.num_layers):
            layer = DecoderLayer(self.config, self.layout, name=f'layer_{index}')
            x, self_cache, memory_cache = (nn.remat(run) if self.config.remat else run)(
                layer,
                x,
                memory[index] if isinstance(memory, tuple) else memory,
                None if cache is None else cache.self_attention[index],
            )
            self_caches.append(self_cache)
            memory_caches.append(memory_cache)
        if self.config.norm == 'pre':
            x = layer_norm(self.config, 'norm')(x)
        return x, tuple(self_caches), () if memory is None else tuple(memory_caches)


def empty_cache(config: ModelConfig, batch: int) -> DecodingCache:
    """Return a cache without capacity and without a memory, as a decoder-only model begins with.

    `grow_cache` adds capacity for tokens, and `reorder_hypotheses` can make several hypotheses of
    one.

    Args:
      config: of the decoder.
      batch: B, number of sentences; the cache has one hypothesis of each.
    """
    dtype = heads_dtype(compute_dtype(config))
    nothing = KVCache(
        jnp.zeros((batch, config.num_heads, config.key_size, 0), dtype),
        jnp.zeros((batch, config.num_heads, 0, config.value_size), dtype),
    )
    return DecodingCache(
        self_attention=(nothing,) * config.num_layers,
        memory=(),
        memory_mask=None,
        ancestors=jnp.zeros((batch, 1, 0), jnp.int32),
    )


def _checked_embeddings(x: jax.Array, config: ModelConfig) -> jax.Array:
    x = jnp.asarray(x)
    if x.ndim != 3 or x.shape[2] != config.d_model:
        raise ValueError(
            f'x has shape {x.shape}: it must be [batch, length, {config.d_model}] embeddings, the '
            'last number being d_model.'
        )
    return x
