"""The whole Transformer (paper, figure 1)."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from transformer_jax.config import ModelConfig
from transformer_jax.model.attention import KVCache, heads_dtype, padding_mask
from transformer_jax.model.dropout import Dropout
from transformer_jax.model.embedder import OutputWeights, logits
from transformer_jax.model.kernels import KERNELS
from transformer_jax.model.kv_cache import Caches, DecodingCache
from transformer_jax.model.layers import DecoderLayer, EncoderLayer, compute_dtype, layer_norm
from transformer_jax.model.layout import Layout
from transformer_jax.model.matmul import prefers_transposed, take_rows
from transformer_jax.model.positions import sinusoidal_positions


def check_positions(config: ModelConfig, length: int) -> None:
    """Raises a ValueError if `length` positions are more than the learned table has."""
    if config.max_sequence_length is not None and length > config.max_sequence_length:
        raise ValueError(
            f'{length} positions are more than the {config.max_sequence_length} learned ones '
            '(model.max_positions).'
        )


class Positions(nn.Module):
    """Adds positions to embeddings, then dropout (sections 3.5 and 5.4).

    Attributes:
      config: `positions`, `max_positions` and `dropout_rate`.
    """

    config: ModelConfig

    @nn.compact
    def __call__(self, x: jax.Array, positions: jax.Array, *, deterministic: bool) -> jax.Array:
        """[B, T, D] embeddings and [T] int positions, or [1] for all, to [B, T, D].

        Raises:
          ValueError: if there are more positions than the learned table has.
        """
        config = self.config
        if config.positions != 'learned':
            halves = config.positions == 'sinusoidal_halves'
            encoding_TD = sinusoidal_positions(positions, config.d_model, halves=halves)
        else:
            check_positions(config, positions.shape[0])
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

        # Not scanned over, though a step would compile sooner: on CPUs one of base would take 7 %
        # longer, a tiny one 15 %, and 20 % with a jit around each layer.
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
        memory: jax.Array | Caches,
        memory_mask: jax.Array | None = None,
        *,
        deterministic: bool = True,
        cache: DecodingCache | None = None,
        position: jax.Array | None = None,
    ) -> tuple[jax.Array, Caches, Caches]:
        """All positions at once, or with `cache` one position of K hypotheses.

        Args:
          x: [B, T, D] scaled embeddings; with `cache`, [B, K, D].
          memory: [B, S, D], the encoder's output, or the keys and values of it per layer that an
            earlier call returned.
          memory_mask: [B, 1, 1, S] bool.
          deterministic: no dropout; otherwise the caller gives the rng 'dropout'.
          cache: of decoding, this position marked in its `ancestors`.
          position: int32 scalar, this position, counted from 0.

        Returns:
          The output, shaped as `x`; the keys and values of self-attention per layer; those of the
          memory per layer.
        """
        count = x.shape[1]
        if cache is None:
            positions, self_mask, place = jnp.arange(count), None, None
        else:
            positions, place = position[None], position * count
            seen_BKTK = cache.ancestors[..., None] == jnp.arange(count)[None, None, None]
            self_mask = seen_BKTK.reshape(*cache.ancestors.shape[:2], -1)[:, None]
        x = Positions(self.config, name='positions')(x, positions, deterministic=deterministic)

        def run(layer: DecoderLayer, x, memory, cache):
            return layer(
                x,
                memory,
                self_mask,
                memory_mask,
                deterministic=deterministic,
                cache=cache,
                position=place,
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
          source: [B, S] int32 ids, each sentence ended by its end mark, then 0.
          target_inputs: [B, T] int32 ids, the target shifted right.
          deterministic: no dropout; otherwise the caller gives the rng 'dropout'.

        Returns:
          [B, T, V] float32 logits; NaN for a sentence with an id that the vocabulary does not have.

        Raises:
          ValueError: if ids are not as said, or are more than there are learned positions.
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
        if len(source) != len(target_inputs):
            raise ValueError(
                f'source has {len(source)} sentences, but target_inputs {len(target_inputs)}.'
            )
        x_BTD, _, _ = self.decoder(
            self._embed(target_inputs), memory, padding_mask(source), deterministic=deterministic
        )
        return x_BTD, self._output_weights()

    def encode(self, source: jax.Array, *, deterministic: bool = True) -> jax.Array:
        """[B, S] int32 ids to the encoder's output [B, S, D]."""
        _check_ids('source', source)
        return self.encoder(self._embed(source), padding_mask(source), deterministic=deterministic)

    def start_decoding(self, source: jax.Array) -> DecodingCache:
        """Encodes [B, S] int32 ids for decoding one hypothesis of each sentence.

        `grow_cache` makes room for its tokens, `reorder_hypotheses` several of it.
        """
        config = self.config
        batch, dtype = source.shape[0], heads_dtype(compute_dtype(config))
        nothing = KVCache(
            jnp.zeros((batch, config.num_heads, config.key_size, 0), dtype),
            jnp.zeros((batch, config.num_heads, 0, config.value_size), dtype),
        )
        # A step whose output is not used, for the keys and values that each layer makes of the
        # memory; compiled, nothing else of it remains.
        start, mask = self._embed(jnp.zeros((batch, 1), jnp.int32)), padding_mask(source)
        _, _, memory = self.decoder(start, self.encode(source), mask)
        ancestors = jnp.zeros((batch, 1, 0), jnp.int32)
        return DecodingCache((nothing,) * config.num_layers, memory, mask, ancestors)

    def decode_step(
        self,
        tokens: jax.Array,
        position: jax.Array,
        cache: DecodingCache,
    ) -> tuple[jax.Array, DecodingCache]:
        """Scores the token after `position`, given those up to it.

        Args:
          tokens: [B·K] int32, the newest token of each hypothesis, 0 at the start.
          position: int32 scalar, its position, counted from 0.
          cache: of the step before, or from `start_decoding`, with room for this position.

        Returns:
          [B·K, V] float32 logits and the new cache; NaN for a position that it has no room for.

        Raises:
          ValueError: if there is no room in the cache, or room for more tokens than there are
            learned positions, or `tokens` has another shape.
        """
        batch, hypotheses, length = cache.ancestors.shape
        check_positions(self.config, length)
        if length == 0:
            raise ValueError('the cache has no room: make some by grow_cache(cache, length).')
        if tokens.shape != (batch * hypotheses,):
            raise ValueError(
                f'tokens has shape {tokens.shape}: it must be [{batch * hypotheses}], that of '
                f'{batch} sentences times {hypotheses} hypotheses.'
            )
        position = jnp.asarray(position, jnp.int32)
        own_K = jnp.arange(hypotheses, dtype=jnp.int32)
        own_BK = jnp.broadcast_to(own_K[None], (batch, hypotheses))
        cache = cache._replace(ancestors=cache.ancestors.at[:, :, position].set(own_BK))
        x_BKD, self_attention, _ = self.decoder(
            self._embed(tokens.reshape(batch, hypotheses)),
            cache.memory,
            cache.memory_mask,
            cache=cache,
            position=position,
        )
        # JAX would have written over the last position.
        x_BKD = jnp.where(position < length, x_BKD, jnp.nan)
        logits_BKV = logits(x_BKD, self._output_weights(), self.layout)
        logits_RV = logits_BKV.reshape(tokens.shape[0], -1)
        return logits_RV, cache._replace(self_attention=self_attention)

    def _embed(self, tokens_BT: jax.Array) -> jax.Array:
        x_GRTD = jax.vmap(take_rows)(self.embedding_GVD, self.layout.in_groups(tokens_BT))
        x_BTD = x_GRTD.reshape(*tokens_BT.shape, -1)
        return self.layout(x_BTD, 'BTD') * self.config.d_model**0.5

    def _output_weights(self) -> OutputWeights:
        bias_V = self.output_bias_V if self.config.output_bias else None
        return OutputWeights(self.embedding_GVD.astype(compute_dtype(self.config)), bias_V)


def _check_ids(name: str, ids: jax.Array) -> None:
    if ids.ndim != 2 or 0 in ids.shape or not jnp.issubdtype(ids.dtype, jnp.integer):
        raise ValueError(
            f'{name} is {ids.dtype}{list(ids.shape)}: it must be [batch, length] integers, at '
            'least one of them.'
        )


def in_compute_dtype(config: ModelConfig, params: Any) -> Any:
    """Parameters whose kernels have the dtype that they are multiplied in.

    A model computes the same with them, to the bit. Without, each step of a search would convert
    them anew on GPUs, each batch on CPUs. Embeddings, which are looked up as well, and what is
    added stay float32.

    Args:
      config: of the model.
      params: its parameters, nested dicts.
    """
    dtype = compute_dtype(config)

    def convert(path: tuple, x: jax.Array) -> jax.Array:
        return x.astype(dtype) if path[-1].key in KERNELS else x

    return jax.tree_util.tree_map_with_path(convert, params)


def transposed_kernels(config: ModelConfig, params: Any) -> Any:
    """The kernels once more, turned: on CPUs a search of few hypotheses is faster with them.

    There XLA multiplies a few rows two to three times as fast by a matrix [outputs, inputs] as by
    one [inputs, outputs], many rows no faster. A model that is given both takes what suits it:

        variables = {'params': params, 'transposed_kernels': transposed_kernels(config, params)}
        model.apply(variables, tokens, position, cache, method='decode_step')

    Args:
      config: of the model.
      params: its parameters, nested dicts.

    Returns:
      Nested dicts of [outputs, inputs], nothing but kernels; empty where none would be used: on
      accelerators, and where products are of bfloat16.
    """
    if not prefers_transposed(compute_dtype(config)):
        return {}
    turned = {}
    for name, value in params.items():
        if isinstance(value, dict):
            turned[name] = transposed_kernels(config, value)
        elif name in KERNELS:
            # [heads, size, D] of attention's output, [inputs, ...] of all others.
            shape = (-1, value.shape[-1]) if name == 'output' else (len(value), -1)
            turned[name] = value.reshape(shape).T
    return turned


@functools.cache
def parameter_shapes(config: ModelConfig, vocab_size: int) -> Any:
    """Return a model's parameters, without making them: a `jax.ShapeDtypeStruct` for each."""
    tokens = jnp.zeros((1, 1), jnp.int32)
    init = Transformer(config, vocab_size).init
    return jax.eval_shape(init, jax.random.key(0), tokens, tokens)['params']


@functools.cache
def parameter_count(config: ModelConfig, vocab_size: int) -> int:
    """Parameters of a model, counted on the model itself without making them."""
    return sum(leaf.size for leaf in jax.tree.leaves(parameter_shapes(config, vocab_size)))
