"""Scaled dot-product and multi-head attention (paper, section 3.2)."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from transformer_jax.model.dropout import Dropout
from transformer_jax.model.kernels.accelerators import cudnn_attention
from transformer_jax.model.kernels.matmul import add_bias, float32_einsum, project
from transformer_jax.model.kernels.platform import target_platform
from transformer_jax.model.kv_cache import KVCache
from transformer_jax.model.layout import Layout

# Each projection is one matrix [D, N·H], so the fan of a head is the model's (section 3.2.2).
_glorot = functools.partial(
    nn.initializers.variance_scaling, mode='fan_avg', distribution='uniform'
)


def padding_mask(tokens: jax.Array, pad_id: int = 0) -> jax.Array:
    """Return a mask of the real tokens, the same for every query.

    Args:
      tokens: [B, S] token ids.
      pad_id: the id of padding.

    Returns:
      [B, 1, 1, S] bool, True where a query may look.
    """
    return (jnp.asarray(tokens) != pad_id)[:, None, None, :]


def segment_mask(query_segments: jax.Array, key_segments: jax.Array) -> jax.Array:
    """Return a mask that lets a query see the keys of its own segment.

    Args:
      query_segments: [B, T] int, the segment of each query; 0 is padding.
      key_segments: [B, S] int, the segment of each key.

    Returns:
      [B, 1, T, S] bool, True where the query may look.
    """
    keys_B11S = key_segments[:, None, None, :]
    return (query_segments[:, None, :, None] == keys_B11S) & (keys_B11S != 0)


def causal_mask(length: int) -> jax.Array:
    """Return a mask that lets a position see itself and earlier positions (section 3.2.3).

    Args:
      length: T, the number of positions.

    Returns:
      [1, 1, T, T] bool, True where the query (third axis) may look at the key (fourth axis).
    """
    return jnp.tril(jnp.ones((length, length), dtype=bool))[None, None]


def checked_mask(mask: jax.Array | None, name: str = 'mask') -> jax.Array | None:
    """Return a mask of attention as an array; None stays None.

    Args:
      mask: bool, with four axes, broadcastable to [B, N, T, S].
      name: of the argument, for messages.

    Raises:
      ValueError: if the mask is not bool, or has more or fewer axes.
    """
    if mask is None:
        return None
    mask = jnp.asarray(mask)
    # An additive mask, 0 where a query may look, would be read the wrong way round.
    if mask.dtype != bool:
        raise ValueError(f'{name} is {mask.dtype}: it must be bool, True where a query may look.')
    # With fewer axes, [B, S] would be read as [T, S] wherever B = T.
    if mask.ndim != 4:
        raise ValueError(
            f'{name} has shape {list(mask.shape)}: it must have four axes, [batch, heads, queries, '
            'keys], each of its size or 1. padding_mask makes one of token ids, and '
            'mask[:, None, None] of a mask [batch, keys].'
        )
    return mask


def _check_fits(mask: jax.Array, scores_BNTS: jax.Array) -> None:
    if any(size not in (1, full) for size, full in zip(mask.shape, scores_BNTS.shape, strict=True)):
        raise ValueError(
            f'the mask has shape {list(mask.shape)}: each axis must be 1 or that of the scores, '
            f'[batch, heads, queries, keys] = {list(scores_BNTS.shape)}.'
        )


def dot_product_attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    mask: jax.Array | None = None,
    dropout: Callable[[jax.Array], jax.Array] = lambda weights: weights,
) -> tuple[jax.Array, jax.Array]:
    """Return softmax(Q K^T / sqrt(d_k)) V (equation 1), with the softmax in float32.

    Args:
      query: [B, T, N, H] queries.
      key: [B, S, N, H] keys.
      value: [B, S, N, Hv] values.
      mask: bool, four axes broadcastable to [B, N, T, S]; True where the query may look. A query
        that may look nowhere gets zeros, never NaN.
      dropout: applied to the attention weights; the paper has none there.

    Returns:
      The attended values [B, T, N, Hv], and the attention weights before dropout [B, N, T, S],
      float32.

    Raises:
      ValueError: if `mask` is not bool, or has another shape.
    """
    query, key, value = (jnp.asarray(x) for x in (query, key, value))
    mask = checked_mask(mask)
    scores_BNTS = float32_einsum('BTNH,BSNH->BNTS', query, key) * query.shape[-1] ** -0.5
    if mask is None:
        weights_BNTS = jax.nn.softmax(scores_BNTS, axis=-1)
    else:
        _check_fits(mask, scores_BNTS)
        # A finite low score keeps the softmax and its gradient free of NaN where all is masked.
        # There it gives a uniform row, which the second `where` sets to zeros.
        low = jnp.finfo(jnp.float32).min
        weights_BNTS = jax.nn.softmax(jnp.where(mask, scores_BNTS, low), axis=-1)
        weights_BNTS = jnp.where(mask, weights_BNTS, 0.0)
    dropped_BNTS = dropout(weights_BNTS).astype(value.dtype)
    output_BTNH = jnp.einsum('BNTS,BSNH->BTNH', dropped_BNTS, value)
    return output_BTNH, weights_BNTS


def heads_dtype(dtype: jnp.dtype) -> jnp.dtype:
    """Return the dtype of queries, keys and values if other matrix products are in `dtype`.

    On CPUs it is float32, because their bfloat16 instructions are fast only for large products.
    """
    return jnp.float32 if target_platform() == 'cpu' else dtype


class MultiHeadAttention(nn.Module):
    """Multi-head attention (section 3.2.2).

    Attributes:
      num_heads: N.
      key_size: H of queries and keys, d_k in the paper; None means D / N.
      value_size: H of values, d_v in the paper; None means D / N.
      dtype: dtype of the matrix products. Parameters and softmax are float32; on CPUs, so is
        everything between the projections (`heads_dtype`).
      use_bias: adds a bias to each projection; the paper has none.
      dropout_rate: dropout of the attention weights; the paper has none.
      gain: factor on the initial matrices of queries, keys and values.
      implementation: 'xla', or 'cudnn' to use `cudnn_attention` for whole sentences, unless a cache
        or a mask of more than padding is given, or the weights are asked for. 'cudnn' needs
        dtype bfloat16 and no dropout.
      layout: where weights and heads lie on the devices.

    The attention weights [B, N, T, S] are sown as 'attention_weights' in the collection
    'intermediates', for callers that make it mutable.
    """

    num_heads: int
    key_size: int | None = None
    value_size: int | None = None
    dtype: jnp.dtype = jnp.float32
    use_bias: bool = False
    dropout_rate: float = 0.0
    gain: float = 1.0
    implementation: str = 'xla'
    layout: Layout = Layout()

    @nn.compact
    def __call__(
        self,
        x: jax.Array,
        memory: jax.Array | KVCache | None = None,
        mask: jax.Array | None = None,
        *,
        causal: bool = False,
        deterministic: bool = True,
        cache: KVCache | None = None,
        position: jax.Array | None = None,
    ) -> tuple[jax.Array, KVCache]:
        """Attend from `x` to itself, or to `memory`.

        Args:
          x: [B, T, D], the input of the queries.
          memory: [B, S, D], the input of keys and values, or the `KVCache` that an earlier call
            made of it; None for self-attention.
          mask: bool, four axes broadcastable to [B, N, T, S], True where a query may look.
          causal: a query sees no key after its own position, whatever `mask` says; only for
            self-attention without a cache.
          deterministic: no dropout; otherwise the caller gives the rng 'dropout'.
          cache: earlier keys and values of self-attention, to which those of `x` are added. Not all
            of its S slots need to be filled: `mask` says which ones a query may see.
          position: int32 scalar, the first of the T slots in `cache` that `x` takes.

        Returns:
          [B, T, D], and the keys and values: pass them to the next call as `cache` for
          self-attention, otherwise as `memory`.

        Raises:
          ValueError: if a shape or an attribute is out of range, D is not divisible by num_heads
            and no sizes are given, `mask` is not bool or has another shape, `cache` comes without
            `position` or `mask` or with a memory, `causal` with either, or 'cudnn' with dropout.
        """
        x, mask = jnp.asarray(x), checked_mask(mask)
        if memory is not None and not isinstance(memory, KVCache):
            memory = jnp.asarray(memory)
        self._check(x, memory, mask, causal, cache, position)
        key_size = self.key_size or x.shape[-1] // self.num_heads
        value_size = self.value_size or x.shape[-1] // self.num_heads

        query_BTNH = self._heads('query', x, key_size)
        if isinstance(memory, KVCache):
            seen = memory
        else:
            source = x if memory is None else memory
            seen = KVCache(
                self._heads('key', source, key_size).transpose(0, 2, 3, 1),
                self._heads('value', source, value_size).swapaxes(1, 2),
            )
        if cache is not None:
            seen = KVCache(
                lax.dynamic_update_slice_in_dim(cache.key, seen.key, position, axis=3),
                lax.dynamic_update_slice_in_dim(cache.value, seen.value, position, axis=2),
            )
        whole_sentences = cache is None and not isinstance(memory, KVCache)
        output_BTNH = self._attend(query_BTNH, seen, mask, causal, deterministic, whole_sentences)
        return self._merged(output_BTNH, x.shape[-1]), seen

    @nn.nowrap
    def _heads(self, name: str, x_BTD: jax.Array, size: int) -> jax.Array:
        """Project [B, T, D] to the queries, keys or values of all heads, [B, T, N, H]."""
        shape = (x_BTD.shape[-1], self.num_heads, size)
        init = _glorot(self.gain**2, in_axis=0, out_axis=(1, 2))
        kernel_DNH = self.param(name, init, shape, jnp.float32)
        kernel_DNH = self.layout(kernel_DNH.astype(self.dtype), 'DNH')
        # Flatten to one matrix product: XLA's gradients of the einsum are slower on CPUs.
        x_PD = x_BTD.astype(self.dtype).reshape(-1, shape[0])
        to_float32 = heads_dtype(self.dtype) == jnp.float32
        kernel = kernel_DNH.reshape(shape[0], -1)
        heads = project(self, name, x_PD, kernel, to_float32=to_float32)
        x_BTNH = heads.reshape(*x_BTD.shape[:2], *shape[1:])
        if self.use_bias:
            bias_NH = self.param(f'{name}_bias', nn.initializers.zeros, shape[1:], jnp.float32)
            x_BTNH = add_bias(x_BTNH, bias_NH)
        return self.layout(x_BTNH, 'BTNH')

    @nn.nowrap
    def _attend(
        self,
        query_BTNH: jax.Array,
        seen: KVCache,
        mask: jax.Array | None,
        causal: bool,
        deterministic: bool,
        whole_sentences: bool,
    ) -> jax.Array:
        qkv = query_BTNH, seen.key.transpose(0, 3, 1, 2), seen.value.swapaxes(1, 2)
        wants_weights = self.is_mutable_collection('intermediates')
        only_padding = mask is None or mask.shape[2] == 1
        fused = self.implementation == 'cudnn' and only_padding and whole_sentences
        if fused and not wants_weights:
            return cudnn_attention(*qkv, mask, causal=causal)
        if causal:
            past = causal_mask(query_BTNH.shape[1])
            mask = past if mask is None else mask & past
        dropout = functools.partial(Dropout(self.dropout_rate), deterministic=deterministic)
        output_BTNH, weights_BNTS = dot_product_attention(*qkv, mask, dropout)
        self.sow('intermediates', 'attention_weights', weights_BNTS)
        return output_BTNH

    @nn.nowrap
    def _merged(self, output_BTNH: jax.Array, model_size: int) -> jax.Array:
        """Project the outputs of all heads, [B, T, N, H], to [B, T, D]."""
        batch, length, *sizes = output_BTNH.shape
        init = _glorot(1.0, in_axis=(0, 1), out_axis=2)
        kernel_NHD = self.param('output', init, (*sizes, model_size), jnp.float32)
        kernel_NHD = self.layout(kernel_NHD.astype(self.dtype), 'NHD')
        heads = output_BTNH.astype(self.dtype).reshape(batch * length, -1)
        out_PD = project(self, 'output', heads, kernel_NHD.reshape(-1, model_size))
        if self.use_bias:
            bias_D = self.param('output_bias', nn.initializers.zeros, (model_size,), jnp.float32)
            out_PD = add_bias(out_PD, bias_D)
        return self.layout(out_PD.reshape(batch, length, model_size), 'BTD')

    @nn.nowrap
    def _check(
        self,
        x: jax.Array,
        memory: jax.Array | KVCache | None,
        mask: jax.Array | None,
        causal: bool,
        cache: KVCache | None,
        position: jax.Array | None,
    ) -> None:
        model_size = x.shape[-1] if x.ndim else 0
        if x.ndim != 3:
            raise ValueError(f'x has shape {x.shape}: it must be [batch, length, {model_size}].')
        if self.implementation not in ('xla', 'cudnn'):
            raise ValueError(f"implementation={self.implementation!r} must be 'xla' or 'cudnn'.")
        if self.num_heads < 1:
            raise ValueError(f'num_heads={self.num_heads} must be 1 or more.')
        if not isinstance(memory, KVCache | None) and memory.shape[2:] != (model_size,):
            raise ValueError(
                f'memory has shape {memory.shape}: it must be [batch, length, {model_size}].'
            )
        if self.implementation == 'cudnn' and self.dropout_rate:
            raise ValueError(
                f"dropout_rate={self.dropout_rate} does not go with implementation='cudnn': "
                'set it to 0.'
            )
        if not (self.key_size and self.value_size) and model_size % self.num_heads:
            raise ValueError(
                f'the width {model_size} is not divisible by num_heads={self.num_heads}: '
                'give key_size and value_size, or another num_heads.'
            )
        if (cache is None) != (position is None):
            raise ValueError('cache and position belong together: give both or neither.')
        if cache is not None and (memory is not None or mask is None):
            raise ValueError(
                'a cache needs a mask, and is only for self-attention: give no memory.'
            )
        if causal and (cache is not None or memory is not None):
            raise ValueError('causal=True is only for self-attention without a cache.')
