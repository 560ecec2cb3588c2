"""The whole Transformer (paper, figure 1)."""

import jax
import jax.numpy as jnp
from flax import linen as nn

from transformer_jax.config import ModelConfig, VocabSizes
from transformer_jax.model.attention import causal_mask, padding_mask, segment_mask
from transformer_jax.model.embedder import OutputWeights, embedding_lookup, logits
from transformer_jax.model.kv_cache import DecodingCache, advance_cache
from transformer_jax.model.layers import compute_dtype
from transformer_jax.model.layout import Layout
from transformer_jax.model.positions import check_positions, segment_positions
from transformer_jax.model.stacks import Decoder, Encoder, empty_cache


class Transformer(nn.Module):
    """Encoder, decoder, embeddings and output, which are one matrix unless the config unties them.

    Token id 0 is padding unless a mask says otherwise, and the first input of the decoder unless
    `shift_right` and the searches are given another.

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
        self,
        source: jax.Array,
        target_inputs: jax.Array,
        *,
        source_mask: jax.Array | None = None,
        deterministic: bool = True,
    ) -> jax.Array:
        """Return the logits of every next token.

        Args:
          source: [B, S] int ids, each sentence ended by EOS, then 0.
          target_inputs: [B, T] int ids, the target shifted right (`shift_right`).
          source_mask: [B, S] bool, True at real tokens; None means those that are not 0.
          deterministic: no dropout; otherwise the caller gives the rng 'dropout'.

        Returns:
          [B, T, V] float32 logits; NaN for a sentence with an id that the vocabulary does not have.

        Raises:
          ValueError: as `decoder_states`.
        """
        states_BTD, weights = self.decoder_states(
            source, target_inputs, source_mask=source_mask, deterministic=deterministic
        )
        return logits(states_BTD, weights, self.layout)

    def decoder_states(
        self,
        source: jax.Array,
        target_inputs: jax.Array,
        *,
        source_mask: jax.Array | None = None,
        source_segments: jax.Array | None = None,
        target_segments: jax.Array | None = None,
        deterministic: bool = True,
    ) -> tuple[jax.Array, OutputWeights]:
        """Return the decoder's output and the weights that make logits of it.

        Training takes both from one call and computes logits chunk by chunk (`chunked_loss`). The
        embedding in `OutputWeights` is the array that embedded the tokens, so its gradients are
        added before they travel between devices.

        Args:
          source: [B, S] int ids, as for a call.
          target_inputs: [B, T] int ids, as for a call.
          source_mask: [B, S] bool, as for a call.
          source_segments: [B, S] int, for several sentences in a row: the number of each token's
            sentence in its row, 0 for padding. No sentence sees another. None for one sentence.
          target_segments: [B, T] int, the same of the targets; the target of sentence k is k.
          deterministic: no dropout; otherwise the caller gives the rng 'dropout'.

        Returns:
          [B, T, D], and the `OutputWeights` for `logits` or `chunked_loss`.

        Raises:
          ValueError: if the ids are not integers of these shapes, the mask is not bool of the shape
            of `source`, the sequences are longer than the table of learned positions, or only one
            side has segments, or a mask as well.
        """
        if (source_segments is None) != (target_segments is None):
            raise ValueError('source_segments and target_segments belong together: give both.')
        memory = self.encode(
            source,
            source_mask=source_mask,
            source_segments=source_segments,
            deterministic=deterministic,
        )
        source, target_inputs = jnp.asarray(source), _checked_ids('target_inputs', target_inputs)
        if source.shape[0] != target_inputs.shape[0]:
            raise ValueError(
                f'source has {source.shape[0]} sentences, but target_inputs '
                f'{target_inputs.shape[0]}.'
            )
        if target_segments is None:
            mask, self_mask, positions = _attention_mask(source, source_mask), None, None
        else:
            mask = segment_mask(target_segments, source_segments)
            past = causal_mask(target_inputs.shape[1])
            self_mask = segment_mask(target_segments, target_segments) & past
            positions = segment_positions(target_segments)
        x_BTD, _, _ = self.decoder(
            self._embed_target(target_inputs),
            memory,
            mask,
            self_mask=self_mask,
            positions=positions,
            deterministic=deterministic,
        )
        return x_BTD, self._output_weights()

    def encode(
        self,
        source: jax.Array,
        *,
        source_mask: jax.Array | None = None,
        source_segments: jax.Array | None = None,
        deterministic: bool = True,
    ) -> jax.Array:
        """Return the encoder's output for [B, S] int ids, [B, S, D] in activation_dtype.

        Args:
          source: as for a call.
          source_mask: as for a call.
          source_segments: as for `decoder_states`.
          deterministic: as for a call.

        Raises:
          ValueError: as `decoder_states`.
        """
        source = _checked_ids('source', source)
        real = source
        if source_mask is not None:
            # Padding may have any id, also one that the embedding does not have.
            real = jnp.where(_attention_mask(source, source_mask)[:, 0, 0], source, 0)
        x_BSD = self._embed(self.source_embedding_GVD, real)
        if source_segments is None:
            mask, positions = _attention_mask(source, source_mask), None
        elif source_mask is not None:
            raise ValueError('source_segments say what is padding: give no source_mask.')
        else:
            mask = segment_mask(source_segments, source_segments)
            positions = segment_positions(source_segments)
        return self.encoder(x_BSD, mask, deterministic=deterministic, positions=positions)

    def start_decoding(
        self, source: jax.Array, *, source_mask: jax.Array | None = None
    ) -> DecodingCache:
        """Encode [B, S] int ids and return a cache for one hypothesis of each sentence.

        The cache has no capacity yet: `grow_cache` adds capacity for tokens, and
        `reorder_hypotheses` can make several hypotheses of one.

        Args:
          source: as for a call.
          source_mask: as for a call.

        Raises:
          ValueError: as `decoder_states`.
        """
        source = _checked_ids('source', source)
        cache = empty_cache(self.config, source.shape[0])
        # Run a step only for the keys and values that each layer makes of the memory. The compiler
        # removes the rest of it.
        start = self._embed_target(jnp.zeros((source.shape[0], 1), jnp.int32))
        mask = _attention_mask(source, source_mask)
        encoded = self.encode(source, source_mask=source_mask)
        _, _, memory = self.decoder(start, encoded, mask)
        return cache._replace(memory=memory, memory_mask=mask)

    def decode_step(
        self,
        tokens: jax.Array,
        position: jax.Array,
        cache: DecodingCache,
    ) -> tuple[jax.Array, DecodingCache]:
        """Return the logits of the token after `position`.

        Args:
          tokens: [B·K] int ids, the newest token of each hypothesis; at position 0 that with which
            training began each target, which is 0 in a model of this package.
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
        tokens = jnp.asarray(tokens)
        if tokens.shape != (batch * hypotheses,):
            raise ValueError(
                f'tokens has shape {tokens.shape}: it must be [{batch * hypotheses}], for '
                f'{batch} sentences times {hypotheses} hypotheses.'
            )
        position = jnp.asarray(position, jnp.int32)
        cache = advance_cache(cache, position)
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


def shift_right(
    targets: jax.Array, start_id: int = 0, segments: jax.Array | None = None
) -> jax.Array:
    """Return the decoder's inputs (section 3.1): `start_id`, then all target ids but the last.

    Args:
      targets: [B, T] int ids.
      start_id: the first input; 0 in models of this package.
      segments: [B, T] int, for several targets in a row: the number of each token's target.

    Returns:
      [B, T] ids.
    """
    targets = jnp.asarray(targets)
    inputs = jnp.pad(targets, ((0, 0), (1, 0)), constant_values=start_id)[:, :-1]
    return inputs if segments is None else jnp.where(segment_positions(segments), inputs, start_id)


def _attention_mask(source: jax.Array, source_mask: jax.Array | None) -> jax.Array:
    """Return [B, 1, 1, S] bool, True at the real tokens of [B, S] ids."""
    if source_mask is None:
        return padding_mask(source)
    source_mask = jnp.asarray(source_mask)
    if source_mask.dtype != bool or source_mask.shape != source.shape:
        raise ValueError(
            f'source_mask is {source_mask.dtype}{list(source_mask.shape)}: it must be bool, shaped '
            f'like source, {list(source.shape)}, True at real tokens.'
        )
    return source_mask[:, None, None, :]


def _checked_ids(name: str, ids: jax.Array) -> jax.Array:
    try:
        ids = jnp.asarray(ids)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f'{name} is no array: it must be [batch, length] integers, so pad the sentences to one '
            'length with 0.'
        ) from error
    if ids.ndim != 2 or 0 in ids.shape or not jnp.issubdtype(ids.dtype, jnp.integer):
        raise ValueError(
            f'{name} is {ids.dtype}{list(ids.shape)}: it must be [batch, length] integers, not '
            'empty.'
        )
    return ids
