"""The whole Transformer (paper, figure 1)."""

import jax
import jax.numpy as jnp
from flax import linen as nn

from transformer_jax.config import ModelConfig
from transformer_jax.model.attention import KVCache, causal_mask, padding_mask
from transformer_jax.model.dropout import Dropout
from transformer_jax.model.layers import DecoderLayer, EncoderLayer, compute_dtype, layer_norm
from transformer_jax.model.layout import Layout
from transformer_jax.model.positions import sinusoidal_positions

# One KVCache per decoder layer.
Cache = tuple[KVCache, ...]


def check_positions(config: ModelConfig, length: int) -> None:
    """Raises a ValueError if `length` positions are more than the learned table has."""
    if config.positions == 'learned' and length > config.max_positions:
        raise ValueError(
            f'{length} positions are more than the {config.max_positions} '
            'learned ones (model.max_positions).'
        )


class Positions(nn.Module):
    """Adds positions to embeddings, then dropout (sections 3.5 and 5.4).

    Attributes:
      config: `positions`, `max_positions` and `dropout_rate`.
    """

    config: ModelConfig

    @nn.compact
    def __call__(self, x: jax.Array, positions: jax.Array, *, deterministic: bool) -> jax.Array:
        """[B, T, D] embeddings and [T] int positions to [B, T, D].

        Raises:
          ValueError: if there are more positions than the learned table has.
        """
        config = self.config
        if config.positions != 'learned':
            halves = config.positions == 'sinusoidal_halves'
            encoding_TD = sinusoidal_positions(positions, config.d_model, halves=halves)
        else:
            check_positions(config, x.shape[1])
            shape = (config.max_positions, config.d_model)
            init = nn.initializers.normal(config.d_model**-0.5)
            encoding_TD = self.param('table', init, shape, jnp.float32)[positions]
        x = x + encoding_TD[None]
        return Dropout(config.dropout_rate)(x, deterministic=deterministic)


class Encoder(nn.Module):
    """N encoder layers over embedded tokens.

    Attributes:
      config: the sizes.
      layout: where its arrays lie on the devices.
    """

    config: ModelConfig
    layout: Layout = Layout()

    @nn.compact
    def __call__(
        self, x: jax.Array, mask: jax.Array | None = None, *, deterministic: bool = True
    ) -> jax.Array:
        """[B, S, D] scaled embeddings and a [B, 1, 1, S] mask to [B, S, D]."""
        x = Positions(self.config, name='positions')(
            x, jnp.arange(x.shape[1]), deterministic=deterministic
        )

        def run(layer: EncoderLayer, x: jax.Array) -> jax.Array:
            return layer(x, mask, deterministic=deterministic)

        for index in range(self.config.num_layers):
            layer = EncoderLayer(self.config, self.layout, name=f'layer_{index}')
            x = (nn.remat(run) if self.config.remat else run)(layer, x)
        # With norms inside the residual branches nothing has normalised the sum at the end.
        return layer_norm(self.config, 'norm')(x) if self.config.norm == 'pre' else x


class Decoder(nn.Module):
    """N decoder layers over embedded tokens.

    Attributes:
      config: the sizes.
      layout: where its arrays lie on the devices.
    """

    config: ModelConfig
    layout: Layout = Layout()

    @nn.compact
    def __call__(
        self,
        x: jax.Array,
        memory: jax.Array | Cache,
        memory_mask: jax.Array | None = None,
        *,
        deterministic: bool = True,
        cache: Cache | None = None,
        position: jax.Array | None = None,
    ) -> tuple[jax.Array, Cache, Cache]:
        """All positions at once, or with `cache` one position.

        Args:
          x: [B, T, D] scaled embeddings; with `cache`, [B·K, 1, D].
          memory: [B, S, D], the encoder's output, or the keys and values of it per layer that an
            earlier call returned.
          memory_mask: [B, 1, 1, S] bool.
          deterministic: no dropout; otherwise the caller gives the rng 'dropout'.
          cache: keys and values of self-attention per layer.
          position: int32 scalar, this position, counted from 0.

        Returns:
          The output, shaped as `x`; the keys and values of self-attention per layer; those of the
          memory per layer.
        """
        if cache is None:
            positions, self_mask = jnp.arange(x.shape[1]), causal_mask(x.shape[1])
        else:
            positions, self_mask = position[None], None
        x = Positions(self.config, name='positions')(x, positions, deterministic=deterministic)

        def run(layer: DecoderLayer, x, memory, cache):
            return layer(
                x,
                memory,
                self_mask,
                memory_mask,
                deterministic=deterministic,
                cache=cache,
                position=position,
            )

        self_caches, memory_caches = [], []
        for index in range(self.config.num_layers):
            layer = DecoderLayer(self.config, self.layout, name=f'layer_{index}')
            x, self_cache, memory_cache = (nn.remat(run) if self.config.remat else run)(
                layer,
                x,
                memory[index] if isinstance(memory, tuple) else memory,
                None if cache is None else cache[index],
            )
            self_caches.append(self_cache)
            memory_caches.append(memory_cache)
        if self.config.norm == 'pre':
            x = layer_norm(self.config, 'norm')(x)
        return x, tuple(self_caches), tuple(memory_caches)


class Transformer(nn.Module):
    """Encoder, decoder, and one matrix for both embeddings and the output (section 3.4).

    Token id 0 is padding and also what the decoder starts from.

    Attributes:
      config: the sizes; the default is the paper's base model.
      vocab_size: V, of the vocabulary that both languages share.
      layout: where its arrays lie on the devices.
    """

    config: ModelConfig
    vocab_size: int
    layout: Layout = Layout()

    def setup(self):
        # Times sqrt(D) on the way in this gives unit variance, and as it is sane logits going out.
        shape = (self.vocab_size, self.config.d_model)
        init = nn.initializers.normal(self.config.d_model**-0.5)
        embedding_VD = self.param('embedding', init, shape, jnp.float32)
        # A copy for each group of rows, which is one on each device. It is used three times: so the
        # three gradients are added on the device, and their sum alone travels, not each of them.
        copies_GVD = jnp.broadcast_to(embedding_VD[None], (self.layout.row_groups, *shape))
        self.embedding_GVD = self.layout(copies_GVD, 'GVD')
        if self.config.output_bias:
            zeros = nn.initializers.zeros
            self.output_bias_V = self.param('output_bias', zeros, (self.vocab_size,), jnp.float32)
        self.encoder = Encoder(self.config, self.layout)
        self.decoder = Decoder(self.config, self.layout)

    def __call__(
        self, source: jax.Array, target_inputs: jax.Array, *, deterministic: bool = True
    ) -> jax.Array:
        """Scores every next token.

        Args:
          source: [B, S] int32 ids, 0 where there is nothing.
          target_inputs: [B, T] int32 ids, the target shifted right.
          deterministic: no dropout; otherwise the caller gives the rng 'dropout'.

        Returns:
          [B, T, V] float32 logits.
        """
        memory = self.encode(source, deterministic=deterministic)
        x_BTD, _, _ = self.decoder(
            self._embed(target_inputs), memory, padding_mask(source), deterministic=deterministic
        )
        return self._logits(x_BTD)

    def encode(self, source: jax.Array, *, deterministic: bool = True) -> jax.Array:
        """[B, S] int32 ids to the encoder's output [B, S, D]."""
        return self.encoder(self._embed(source), padding_mask(source), deterministic=deterministic)

    def start_decoding(
        self, source: jax.Array, hypotheses: int, length: int
    ) -> tuple[Cache, Cache]:
        """Encodes `source` and makes room for decoding it.

        Args:
          source: [B, S] int32 ids.
          hypotheses: K, hypotheses per sentence.
          length: T, most tokens of an output.

        Returns:
          An empty cache for `decode_step`, whose arrays are [B·K, T, N, H], and the encoder's
          output as keys and values per layer, [B, S, N, H].

        Raises:
          ValueError: if there are fewer learned positions than `length`.
        """
        config = self.config
        check_positions(config, length)
        rows, dtype = source.shape[0] * hypotheses, compute_dtype(config)
        shape = (rows, length, config.num_heads)
        cache = tuple(
            KVCache(
                jnp.zeros((*shape, config.key_size), dtype),
                jnp.zeros((*shape, config.value_size), dtype),
            )
            for _ in range(config.num_layers)
        )
        # A step whose output is not used, for the keys and values that each layer makes of the
        # memory; compiled, nothing else of it remains.
        start = self._embed(jnp.zeros((source.shape[0], 1), jnp.int32))
        _, _, memory = self.decoder(start, self.encode(source), padding_mask(source))
        return cache, memory

    def decode_step(
        self,
        tokens: jax.Array,
        position: jax.Array,
        cache: Cache,
        memory: Cache,
        source: jax.Array,
    ) -> tuple[jax.Array, Cache]:
        """Scores the token after `position`, given those up to it.

        Args:
          tokens: [B·K] int32, the newest token of each hypothesis, 0 at the start.
          position: int32 scalar, its position, counted from 0.
          cache: from `start_decoding` or the step before.
          memory: from `start_decoding`.
          source: [B, S] int32 ids.

        Returns:
          [B·K, V] float32 logits and the new cache.
        """
        x_BTD, cache, _ = self.decoder(
            self._embed(tokens[:, None]),
            memory,
            padding_mask(source),
            cache=cache,
            position=position,
        )
        return self._logits(x_BTD)[:, 0], cache

    def _embed(self, tokens_BT: jax.Array) -> jax.Array:
        x_GRTD = jax.vmap(lambda embedding_VD, tokens_RT: embedding_VD[tokens_RT])(
            self.embedding_GVD, self._in_groups(tokens_BT)
        )
        x_BTD = x_GRTD.reshape(*tokens_BT.shape, -1)
        return self.layout(x_BTD, 'BTD') * self.config.d_model**0.5

    def _logits(self, x_BTD: jax.Array) -> jax.Array:
        dtype = compute_dtype(self.config)
        # Positions in a row (P): with batch and time apart XLA multiplies matrices a third slower.
        x_GPD = self._in_groups(x_BTD.astype(dtype).reshape(-1, x_BTD.shape[-1]))
        logits_GPV = jnp.einsum(
            'GPD,GVD->GPV',
            x_GPD,
            self.embedding_GVD.astype(dtype),
            preferred_element_type=jnp.float32,
        )
        logits_BTV = logits_GPV.reshape(*x_BTD.shape[:2], -1)
        if self.config.output_bias:
            logits_BTV += self.output_bias_V[None, None]
        return self.layout(logits_BTV, 'BTV')

    def _in_groups(self, x_B: jax.Array) -> jax.Array:
        """[B, ...] to [G, R, ...], R rows for each group."""
        x_GR = x_B.reshape(self.layout.row_groups, -1, *x_B.shape[1:])
        return self.layout(x_GR, 'GR' + '-' * (x_B.ndim - 1))
