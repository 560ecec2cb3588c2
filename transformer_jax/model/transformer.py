"""The whole Transformer (paper, figure 1)."""

import jax
import jax.numpy as jnp
from flax import linen as nn

from transformer_jax.config import ModelConfig, VocabSizes
from transformer_jax.model.attention import heads_dtype, padding_mask
from transformer_jax.model.embedder import OutputWeights, embedding_lookup, logits
from transformer_jax.model.kv_cache import Caches, DecodingCache, KVCache, ancestor_mask
from transformer_jax.model.layers import DecoderLayer, EncoderLayer, compute_dtype, layer_norm
from transformer_jax.model.layout import Layout
from transformer_jax.model.positions import Positions, check_positions


class Encoder(nn.Module):
    """A stack of encoder layers over embedded tokens.

    Attributes:
      config: the sizes.
      layout: where the encoder's arrays lie on the devices.
    """

    config: ModelConfig
    layout: Layout = Layout()

    @nn.compact
    def __call__(
        self, x: jax.Array, mask: jax.Array | None = None, *, deterministic: bool = True
    ) -> jax.Array:
        """Encode [B, S, D] scaled embeddings with a [B, 1, 1, S] mask; return [B, S, D]."""
        x = Positions(self.config, name='positions')(
            x, jnp.arange(x.shape[1]), deterministic=deterministic
        )

        def run(layer: EncoderLayer, x: jax.Array) -> jax.Array:
            return layer(x, mask, deterministic=deterministic)

        # A Python loop, because `nn.scan` compiles sooner but makes each step slower on CPUs.
        for index in range(self.config.num_layers):
            layer = EncoderLayer(self.config, self.layout, name=f'layer_{index}')
            x = (nn.remat(run) if self.config.remat else run)(layer, x)
        # With norms inside the residual branches, nothing else normalises the last sum.
        return layer_norm(self.config, 'norm')(x) if self.config.norm == 'pre' else x


class Decoder(nn.Module):
    """A stack of decoder layers over embedded tokens.

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
        memory: jax.Array | Caches,
        memory_mask: jax.Array | None = None,
        *,
        deterministic: bool = True,
        cache: DecodingCache | None = None,
        position: jax.Array | None = None,
    ) -> tuple[jax.Array, Caches, Caches]:
        """Decode all positions at once or, with `cache`, one position of K hypotheses.

        Args:
          x: [B, T, D] scaled embeddings; with `cache`, [B, K, D].
          memory: [B, S, D], the encoder's output, or its keys and values per layer that an earlier
            call returned.
          memory_mask: [B, 1, 1, S] bool.
          deterministic: no dropout; otherwise the caller gives the rng 'dropout'.
          cache: the decoding cache, in whose `ancestors` this position is already set.
          position: int32 scalar, this position, counted from 0.

        Returns:
          The output, shaped like `x`; the keys and values of self-attention per layer; those of the
          memory per layer.
        """
        count = x.shape[1]
        if cache is None:
            positions, slot, self_mask = jnp.arange(count), None, None
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
        return x, tuple(self_caches), tuple(memory_caches)


class Transformer(nn.Module):
    """Encoder, decoder, embeddings and output, which are one matrix unless the config unties them.

    Token id 0 is padding, and also the first input of the decoder.

    Attributes:
      config: the sizes; the default is the paper's base model.
      vocab_size: V, the size of the target vocabulary.
      layout: where the model's arrays lie on the devices.
      source_vocab_size: the size of the source vocabulary; None means V. With one matrix for both
        embeddings (section 3.4), both languages share a vocabulary.
    """

    config: ModelConfig
    vocab_size: int
    layout: Layout = Layout()
    source_vocab_size: int | None = None

    @classmethod
    def of(
        cls, config: ModelConfig, sizes: int | VocabSizes, layout: Layout | None = None
    ) -> 'Transformer':
        """Return the model of these vocabularies.

        Args:
          config: the sizes.
          sizes: V of both sides, or of each.
          layout: where the model's arrays lie on the devices.
        """
        target, source = VocabSizes.of(sizes)
        return cls(config, target, layout or Layout(), None if source == target else source)

    def setup(self):
        tied, size = self.config.tied_embeddings, self.vocab_size
        source_size = self.source_vocab_size or size
        if tied == 'all' and source_size != size:
            raise ValueError(
                f'source_vocab_size={source_size} differs from vocab_size={size}, but '
                "model.tied_embeddings='all' is one matrix for both: choose 'decoder' or 'none'."
            )
        self.embedding_GVD = self._matrix('embedding', size)
        self.source_embedding_GVD = self.output_embedding_GVD = self.embedding_GVD
        if tied != 'all':
            self.source_embedding_GVD = self._matrix('source_embedding', source_size)
        if tied == 'none':
            self.output_embedding_GVD = self._matrix('output_embedding', size)
        if self.config.output_bias:
            zeros = nn.initializers.zeros
            self.output_bias_V = self.param('output_bias', zeros, (self.vocab_size,), jnp.float32)
        self.encoder = Encoder(self.config, self.layout)
        self.decoder = Decoder(self.config, self.layout)

    def _matrix(self, name: str, size: int) -> jax.Array:
        """Return the parameter [size, D] for each group of rows, so one copy on each device.

        If several uses share the copy, their gradients are added on the device, and only the sum
        travels.
        """

        # Embeddings are multiplied by sqrt(D), so they have unit variance; logits use the matrix as
        # it is, so they have about unit variance, too.
        def init(*args):
            values_VD = nn.initializers.normal(self.config.d_model**-0.5)(*args)
            is_zero = self.config.decoder_start == 'zero' and name == 'embedding'
            return values_VD.at[0].set(0.0) if is_zero else values_VD

        shape = (size, self.config.d_model)
        values_VD = self.param(name, init, shape, jnp.float32)
        copies_GVD = jnp.broadcast_to(values_VD[None], (self.layout.row_groups, *shape))
        return self.layout(copies_GVD, 'GVD')

    def __call__(
        self, source: jax.Array, target_inputs: jax.Array, *, deterministic: bool = True
    ) -> jax.Array:
        """Return the logits of every next token.

        Args:
          source: [B, S] int32 ids, each sentence ended by EOS, then 0.
          target_inputs: [B, T] int32 ids, the target shifted right.
          deterministic: no dropout; otherwise the caller gives the rng 'dropout'.

        Returns:
          [B, T, V] float32 logits; NaN for a sentence with an id that the vocabulary does not have.

        Raises:
          ValueError: as `decoder_states`.
        """
        states_BTD, weights = self.decoder_states(
            source, target_inputs, deterministic=deterministic
        )
        return logits(states_BTD, weights, self.layout)

    def decoder_states(
        self, source: jax.Array, target_inputs: jax.Array, *, deterministic: bool = True
    ) -> tuple[jax.Array, OutputWeights]:
        """Return the decoder's output and the weights that make logits of it.

        Training takes both from one call and computes logits chunk by chunk (`chunked_loss`). The
        embedding in `OutputWeights` is the array that embedded the tokens, so its gradients are
        added before they travel between devices.

        Args:
          source: [B, S] int32 ids, as for a call.
          target_inputs: [B, T] int32 ids, as for a call.
          deterministic: no dropout; otherwise the caller gives the rng 'dropout'.

        Returns:
          [B, T, D], and the `OutputWeights` for `logits` or `chunked_loss`.

        Raises:
          ValueError: if the ids are not integers of these shapes, or if the sequences are longer
            than the table of learned positions.
        """
        memory = self.encode(source, deterministic=deterministic)
        _check_ids('target_inputs', target_inputs)
        if source.shape[0] != target_inputs.shape[0]:
            raise ValueError(
                f'source has {source.shape[0]} sentences, but target_inputs '
                f'{target_inputs.shape[0]}.'
            )
        x_BTD, _, _ = self.decoder(
            self._embed_target(target_inputs),
            memory,
            padding_mask(source),
            deterministic=deterministic,
        )
        return x_BTD, self._output_weights()

    def encode(self, source: jax.Array, *, deterministic: bool = True) -> jax.Array:
        """Encode [B, S] int32 ids; return [B, S, D]."""
        _check_ids('source', source)
        x_BSD = self._embed(self.source_embedding_GVD, source)
        return self.encoder(x_BSD, padding_mask(source), deterministic=deterministic)

    def start_decoding(self, source: jax.Array) -> DecodingCache:
        """Encode [B, S] int32 ids and return a cache for one hypothesis of each sentence.

        The cache has no capacity yet: `grow_cache` adds capacity for tokens, and
        `reorder_hypotheses` can make several hypotheses of one.
        """
        config = self.config
        batch, dtype = source.shape[0], heads_dtype(compute_dtype(config))
        nothing = KVCache(
            jnp.zeros((batch, config.num_heads, config.key_size, 0), dtype),
            jnp.zeros((batch, config.num_heads, 0, config.value_size), dtype),
        )
        # Run a step only for the keys and values that each layer makes of the memory. The compiler
        # removes the rest of it.
        start, mask = self._embed_target(jnp.zeros((batch, 1), jnp.int32)), padding_mask(source)
        _, _, memory = self.decoder(start, self.encode(source), mask)
        ancestors = jnp.zeros((batch, 1, 0), jnp.int32)
        return DecodingCache((nothing,) * config.num_layers, memory, mask, ancestors)

    def decode_step(
        self,
        tokens: jax.Array,
        position: jax.Array,
        cache: DecodingCache,
    ) -> tuple[jax.Array, DecodingCache]:
        """Return the logits of the token after `position`.

        Args:
          tokens: [B·K] int32, the newest token of each hypothesis, 0 at the start.
          position: int32 scalar, the position of that token, counted from 0.
          cache: from the step before, or from `start_decoding`, with capacity for this position.

        Returns:
          [B·K, V] float32 logits, and the new cache. The logits are NaN if the position is beyond
          the cache length.

        Raises:
          ValueError: if the cache length is 0, or more than the table of learned positions has, or
            `tokens` has another shape.
        """
        batch, hypotheses, length = cache.ancestors.shape
        check_positions(self.config, length)
        if length == 0:
            raise ValueError('the cache length is 0: call grow_cache(cache, length) first.')
        if tokens.shape != (batch * hypotheses,):
            raise ValueError(
                f'tokens has shape {tokens.shape}: it must be [{batch * hypotheses}], for '
                f'{batch} sentences times {hypotheses} hypotheses.'
            )
        position = jnp.asarray(position, jnp.int32)
        own_K = jnp.arange(hypotheses, dtype=jnp.int32)
        own_BK = jnp.broadcast_to(own_K[None], (batch, hypotheses))
        cache = cache._replace(ancestors=cache.ancestors.at[:, :, position].set(own_BK))
        x_BKD, self_attention, _ = self.decoder(
            self._embed_target(tokens.reshape(batch, hypotheses)),
            cache.memory,
            cache.memory_mask,
            cache=cache,
            position=position,
        )
        # Beyond the cache length, JAX has written over the last position.
        x_BKD = jnp.where(position < length, x_BKD, jnp.nan)
        logits_BKV = logits(x_BKD, self._output_weights(), self.layout)
        logits_RV = logits_BKV.reshape(tokens.shape[0], -1)
        return logits_RV, cache._replace(self_attention=self_attention)

    def _embed(self, embedding_GVD: jax.Array, tokens_BT: jax.Array) -> jax.Array:
        x_GRTD = jax.vmap(embedding_lookup)(embedding_GVD, self.layout.in_groups(tokens_BT))
        x_BTD = x_GRTD.reshape(*tokens_BT.shape, -1)
        return self.layout(x_BTD, 'BTD') * self.config.d_model**0.5

    def _embed_target(self, tokens_BT: jax.Array) -> jax.Array:
        x_BTD = self._embed(self.embedding_GVD, tokens_BT)
        if self.config.decoder_start == 'zero':
            x_BTD = jnp.where(tokens_BT[..., None] == 0, 0.0, x_BTD)
        return x_BTD

    def _output_weights(self) -> OutputWeights:
        embedding_GVD = self.output_embedding_GVD
        if self.config.decoder_start == 'zero' and self.config.tied_embeddings != 'none':
            # No gradient for the row of padding: as an input it is zero, so it stays zero.
            is_padding_V = jnp.arange(self.vocab_size) == 0
            embedding_GVD = jnp.where(
                is_padding_V[None, :, None], jax.lax.stop_gradient(embedding_GVD), embedding_GVD
            )
        bias_V = self.output_bias_V if self.config.output_bias else None
        return OutputWeights(embedding_GVD.astype(compute_dtype(self.config)), bias_V)


def shift_right(targets: jax.Array) -> jax.Array:
    """Return the decoder's inputs for [B, T] target ids: 0, then all ids but the last."""
    return jnp.pad(targets, ((0, 0), (1, 0)))[:, :-1]


def _check_ids(name: str, ids: jax.Array) -> None:
    if ids.ndim != 2 or 0 in ids.shape or not jnp.issubdtype(ids.dtype, jnp.integer):
        raise ValueError(
            f'{name} is {ids.dtype}{list(ids.shape)}: it must be [batch, length] integers, not '
            'empty.'
        )
