"""Scaled dot-product and multi-head attention (paper, section 3.2)."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from transformer_jax.model.dropout import Dropout
from transformer_jax.model.kernels import product
from transformer_jax.model.layout import Layout
from transformer_jax.model.matmul import add_bias, float32_einsum

# Each projection is one matrix [D, N·H]: the fan of a head is the model's, as in section 3.2.2.
_glorot = functools.partial(
    nn.initializers.variance_scaling, mode='fan_avg', distribution='uniform'
)


def padding_mask(tokens: jax.Array, pad_id: int = 0) -> jax.Array:
    """Marks real tokens, for every query alike.

    Args:
      tokens: [B, S] token ids.
      pad_id: the id that stands for nothing.

    Returns:
      [B, 1, 1, S] bool, True where a query may look.
    """
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(length: int) -> jax.Array:
    """Lets a position see itself and what is before it (section 3.2.3).

    Args:
      length: T, positions.

    Returns:
      [1, 1, T, T] bool, True where the query (third axis) may look at the key (fourth axis).
    """
    return jnp.tril(jnp.ones((length, length), dtype=bool))[None, None]


def _check_mask(mask: jax.Array | None) -> None:
    # One to be added to the scores, 0 where a query may look, would be taken the wrong way round.
    if mask is not None and mask.dtype != bool:
        raise ValueError(f'the mask is {mask.dtype}, not bool: True where a query may look.')


def dot_product_attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    mask: jax.Array | None = None,
    dropout: Callable[[jax.Array], jax.Array] = lambda weights: weights,
) -> tuple[jax.Array, jax.Array]:
    """softmax(Q K^T / sqrt(d_k)) V (equation 1), with the softmax in float32.

    Args:
      query: [B, T, N, H] queries.
      key: [B, S, N, H] keys.
      value: [B, S, N, Hv] values.
      mask: bool, broadcastable to [B, N, T, S]; True where the query may look. A query that may
        look nowhere gets zeros, never NaN.
      dropout: applied to the attention weights; the paper has none there.

    Returns:
      The attended values [B, T, N, Hv] and the attention weights [B, N, T, S] (float32), those
      before dropout.

    Raises:
      ValueError: if `mask` is not bool.
    """
    _check_mask(mask)
    scores_BNTS = float32_einsum('BTNH,BSNH->BNTS', query, key) * query.shape[-1] ** -0.5
    if mask is None:
        weights_BNTS = jax.nn.softmax(scores_BNTS, axis=-1)
    else:
        # A finite low score keeps the softmax and its gradient free of NaN where all is masked;
        # the second `where` turns what it leaves there, a uniform row, into zeros.
        low = jnp.finfo(jnp.float32).min
        weights_BNTS = jax.nn.softmax(jnp.where(mask, scores_BNTS, low), axis=-1)
        weights_BNTS = jnp.where(mask, weights_BNTS, 0.0)
    dropped_BNTS = dropout(weights_BNTS).astype(value.dtype)
    output_BTNH = jnp.einsum('BNTS,BSNH->BTNH', dropped_BNTS, value)
    return output_BTNH, weights_BNTS


def cudnn_attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    mask: jax.Array | None = None,
    *,
    causal: bool = False,
) -> jax.Array:
    """`dot_product_attention` in one kernel of cuDNN, whose weights never reach the memory.

    Args:
      query: [B, T, N, H] bfloat16, H a multiple of 8 and at most 128.
      key: [B, S, N, H] bfloat16.
      value: [B, S, N, H] bfloat16.
      mask: [B, 1, 1, S] bool, as `padding_mask` makes it of sentences padded at their ends; None to
        look at all. A sentence of no tokens looks at its first place.
      causal: a query sees no key after its own place; T = S.

    Returns:
      The attended values [B, T, N, H].

    Raises:
      ValueError: if `mask` has another shape.
    """
    length = query.shape[1]
    if mask is None:
        lengths_B = jnp.full(key.shape[:1], key.shape[1], jnp.int32)
    elif mask.shape != (key.shape[0], 1, 1, key.shape[1]):
        raise ValueError(
            f'mask has shape {mask.shape}: for cudnn it must be [{key.shape[0]}, 1, 1, '
            f'{key.shape[1]}], as padding_mask makes it; of the past there is causal=True.'
        )
    else:
        # Lengths, since a mask would be read as a bias of [B, N, T, S], all that is to be spared.
        lengths_B = jnp.maximum(mask[:, 0, 0].sum(-1, dtype=jnp.int32), 1)

    def even(x_BTNH: jax.Array) -> jax.Array:
        """One place more where the length is odd: there is no kernel for gradients of these."""
        return jnp.pad(x_BTNH, ((0, 0), (0, x_BTNH.shape[1] % 2), (0, 0), (0, 0)))

    output_BTNH = jax.nn.dot_product_attention(
        even(query),
        even(key),
        even(value),
        is_causal=causal,
        key_value_seq_lengths=lengths_B,
        implementation='cudnn',
    )
    return output_BTNH[:, :length]


def heads_dtype(dtype: jnp.dtype) -> jnp.dtype:
    """The dtype of queries, keys and values where other matrix products are in `dtype`.

    CPUs that have products of bfloat16 are fast at large ones only.
    """
    return jnp.float32 if jax.default_backend() == 'cpu' else dtype


class KVCache(NamedTuple):
    """Keys and values of positions already seen, of one attention module.

    They lie as the products of one head want them: keys transposed, each matrix in one piece.

    Attributes:
      key: [B, N, H, S].
      value: [B, N, S, Hv].
    """

    key: jax.Array
    value: jax.Array


class MultiHeadAttention(nn.Module):
    """Multi-head attention (section 3.2.2).

    Attributes:
      num_heads: N.
      key_size: H of queries and keys, d_k in the paper; None means D / N.
      value_size: H of values, d_v in the paper; None means D / N.
      dtype: of the matrix products; parameters and softmax are float32, and on CPUs all between
        the projections (`heads_dtype`).
      use_bias: adds a bias to each projection; the paper has none.
      dropout_rate: of the attention weights; the paper has none.
      gain: factor on the initial matrices of queries, keys and values.
      implementation: 'xla', or 'cudnn' for `cudnn_attention` of whole sentences: not with a cache,
        nor where the weights are asked for. It takes dtype bfloat16 and no dropout.
      layout: where weights and heads lie on the devices.

    The attention weights [B, N, T, S] are sown as 'attention_weights' in the collection
    'intermediates', for those who make it mutable.
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
        """Attends from `x` to itself, or to `memory`.

        Args:
          x: [B, T, D] what asks.
          memory: [B, S, D] what is looked at, or the `KVCache` an earlier call made of it; None
            for self-attention.
          mask: bool, broadcastable to [B, N, T, S], True where a query may look; for 'cudnn' as
            `padding_mask` makes it.
          causal: a query sees no key after its own place, whatever `mask` says; for self-attention
            without a cache.
          deterministic: no dropout; otherwise the caller gives the rng 'dropout'.
          cache: for self-attention bit by bit: keys and values so far, which `x` joins. Its S
            places need not be filled: `mask` says what may be looked at.
          position: int32 scalar, the first of the T places in `cache` that `x` takes.

        Returns:
          [B, T, D], and the keys and values looked at, to be handed in again: as `cache` for
          self-attention, as `memory` for the rest.

        Raises:
          ValueError: if a shape or an attribute is out of range, D is not divisible by num_heads
            and no sizes are given, `mask` is not bool, `cache` comes without `position` or `mask`
            or with a memory, `causal` with either, or 'cudnn' with dropout.
        """
        model_size = x.shape[-1]
        _check_mask(mask)
        if self.implementation not in ('xla', 'cudnn'):
            raise ValueError(f"implementation={self.implementation!r} must be 'xla' or 'cudnn'.")
        if self.num_heads < 1:
            raise ValueError(f'num_heads={self.num_heads} must be 1 or more.')
        for name, given in (('x', x), ('memory', memory)):
            if not isinstance(given, KVCache | None) and given.shape[2:] != (model_size,):
                raise ValueError(
                    f'{name} has shape {given.shape}: it must be [batch, length, {model_size}].'
                )
        if self.implementation == 'cudnn' and self.dropout_rate:
            raise ValueError(
                f'dropout_rate={self.dropout_rate} does not go with cudnn: set it to 0.'
            )
        if not (self.key_size and self.value_size) and model_size % self.num_heads:
            raise ValueError(
                f'the width {model_size} is not divisible by num_heads={self.num_heads}: '
                'give key_size and value_size, or another num_heads.'
            )
        if (cache is None) != (position is None):
            raise ValueError('cache and position belong together: give both or neither.')
        if cache is not None and (memory is not None or mask is None):
            raise ValueError('with a cache there is a mask, and no memory.')
        if causal and (cache is not None or memory is not None):
            raise ValueError('causal is for self-attention without a cache.')
        key_size = self.key_size or model_size // self.num_heads
        value_size = self.value_size or model_size // self.num_heads

        def project(name: str, x_BTD: jax.Array, size: int) -> jax.Array:
            shape = (model_size, self.num_heads, size)
            init = _glorot(self.gain**2, in_axis=0, out_axis=(1, 2))
            kernel_DNH = self.param(name, init, shape, jnp.float32)
            kernel_DNH = self.layout(kernel_DNH.astype(self.dtype), 'DNH')
            # As one product of matrices: with the letters apart XLA's gradients are slower on CPUs.
            # Queries, keys and values in one product would take as long there, with AMX 5 % longer.
            x_PD = x_BTD.astype(self.dtype).reshape(-1, model_size)
            to_float32 = heads_dtype(self.dtype) == jnp.float32
            kernel = kernel_DNH.reshape(model_size, -1)
            heads = product(self, name, x_PD, kernel, to_float32=to_float32)
            x_BTNH = heads.reshape(*x_BTD.shape[:2], *shape[1:])
            if self.use_bias:
                bias_NH = self.param(f'{name}_bias', nn.initializers.zeros, shape[1:], jnp.float32)
                x_BTNH = add_bias(x_BTNH, bias_NH)
            return self.layout(x_BTNH, 'BTNH')

        query_BTNH = project('query', x, key_size)
        if isinstance(memory, KVCache):
            seen = memory
        else:
            source = x if memory is None else memory
            seen = KVCache(
                project('key', source, key_size).transpose(0, 2, 3, 1),
                project('value', source, value_size).swapaxes(1, 2),
            )
        if cache is not None:
            seen = KVCache(
                lax.dynamic_update_slice_in_dim(cache.key, seen.key, position, axis=3),
                lax.dynamic_update_slice_in_dim(cache.value, seen.value, position, axis=2),
            )

        qkv = query_BTNH, seen.key.transpose(0, 3, 1, 2), seen.value.swapaxes(1, 2)
        whole_sentences = cache is None and not isinstance(memory, KVCache)
        wants_weights = self.is_mutable_collection('intermediates')
        if self.implementation == 'cudnn' and whole_sentences and not wants_weights:
            output_BTNH = cudnn_attention(*qkv, mask, causal=causal)
        else:
            if causal:
                upto = causal_mask(x.shape[1])
                mask = upto if mask is None else mask & upto
            dropout = functools.partial(Dropout(self.dropout_rate), deterministic=deterministic)
            output_BTNH, weights_BNTS = dot_product_attention(*qkv, mask, dropout)
            self.sow('intermediates', 'attention_weights', weights_BNTS)
        shape = (self.num_heads, value_size, model_size)
        init = _glorot(1.0, in_axis=(0, 1), out_axis=2)
        kernel_NHD = self.param('output', init, shape, jnp.float32)
        kernel_NHD = self.layout(kernel_NHD.astype(self.dtype), 'NHD')
        heads = output_BTNH.astype(self.dtype).reshape(-1, self.num_heads * value_size)
        out_PD = product(self, 'output', heads, kernel_NHD.reshape(-1, model_size))
        if self.use_bias:
            bias_D = self.param('output_bias', nn.initializers.zeros, (model_size,), jnp.float32)
            out_PD = add_bias(out_PD, bias_D)
        return self.layout(out_PD.reshape(x.shape), 'BTD'), seen
