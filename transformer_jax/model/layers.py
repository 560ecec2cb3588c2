"""Feed-forward, the residual connection with its norm, and the two kinds of layer (section 3.1)."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from transformer_jax.config import ModelConfig
from transformer_jax.model.attention import MultiHeadAttention, checked_mask
from transformer_jax.model.dropout import Dropout
from transformer_jax.model.kernels.accelerators import attention_implementation
from transformer_jax.model.kernels.dropout import KeepBits
from transformer_jax.model.kernels.matmul import add_bias, project
from transformer_jax.model.kernels.platform import target_platform
from transformer_jax.model.kernels.relu import relu
from transformer_jax.model.kernels.residual_norm import residual_norm
from transformer_jax.model.kv_cache import KVCache
from transformer_jax.model.layout import Layout

_ACTIVATIONS = {
    'relu': relu,
    'gelu': functools.partial(nn.gelu, approximate=False),
    'swish': nn.swish,
    'quick_gelu': lambda x: x * nn.sigmoid(1.702 * x),
}


def compute_dtype(config: ModelConfig) -> jnp.dtype:
    """Return the dtype of matrix products: 'auto' is bfloat16 on accelerators, float32 on CPUs."""
    if config.dtype == 'auto':
        return jnp.float32 if target_platform() == 'cpu' else jnp.bfloat16
    return jnp.dtype(config.dtype)


def layer_norm(config: ModelConfig, name: str | None = None) -> nn.LayerNorm:
    """Return a layer norm that computes in float32, whatever the compute dtype."""
    return nn.LayerNorm(epsilon=config.norm_epsilon, dtype=jnp.float32, name=name)


def attention(config: ModelConfig, layout: Layout, name: str) -> MultiHeadAttention:
    """Return multi-head attention of the config's sizes."""
    return MultiHeadAttention(
        num_heads=config.num_heads,
        key_size=config.key_size,
        value_size=config.value_size,
        dtype=compute_dtype(config),
        use_bias=config.attention_bias,
        dropout_rate=config.attention_dropout_rate,
        gain=config.attention_gain,
        implementation=attention_implementation(config),
        layout=layout,
        name=name,
    )


class Dense(nn.Module):
    """x W + b, as flax's Dense, but with the products and gradients of `matmul.py`.

    Attributes:
      features: E, the output width.
      dtype: dtype of the product; parameters are float32.
    """

    features: int
    dtype: jnp.dtype

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Map [P, C] to [P, E]."""
        init = nn.initializers.xavier_uniform()
        kernel_CE = self.param('kernel', init, (x.shape[-1], self.features), jnp.float32)
        bias_E = self.param('bias', nn.initializers.zeros, (self.features,), jnp.float32)
        x_PC, kernel_CE = x.astype(self.dtype), kernel_CE.astype(self.dtype)
        return add_bias(project(self, 'kernel', x_PC, kernel_CE), bias_E)


class FeedForward(nn.Module):
    """max(0, x W_1 + b_1) W_2 + b_2 (equation 2).

    Attributes:
      d_ff: F, the inner width.
      dtype: dtype of the matrix products.
      activation: as in `ModelConfig`.
      dropout_rate: dropout after the activation; the paper has none.
      layout: where weights and the inner activations lie on the devices.
    """

    d_ff: int
    dtype: jnp.dtype = jnp.float32
    activation: str = 'relu'
    dropout_rate: float = 0.0
    layout: Layout = Layout()

    @nn.compact
    def __call__(self, x: jax.Array, *, deterministic: bool = True) -> jax.Array:
        """Map [B, T, D] to [B, T, D], each position separately.

        Args:
          x: [B, T, D].
          deterministic: no dropout; otherwise the caller gives the rng 'dropout'.
        """
        if self.activation not in _ACTIVATIONS:
            raise ValueError(
                f'activation={self.activation!r} must be one of {", ".join(_ACTIVATIONS)}.'
            )
        x_PD = x.reshape(-1, x.shape[-1])
        inner_PF = Dense(self.d_ff, self.dtype, name='inner')(x_PD)
        hidden_PF = _ACTIVATIONS[self.activation](inner_PF)
        hidden_BTF = self.layout(hidden_PF.reshape(*x.shape[:-1], -1), 'BTF')
        hidden_BTF = Dropout(self.dropout_rate)(hidden_BTF, deterministic=deterministic)
        hidden_PF = hidden_BTF.reshape(-1, self.d_ff)
        out_PD = Dense(x.shape[-1], self.dtype, name='outer')(hidden_PF)
        return self.layout(out_PD.reshape(x.shape), 'BTD')


def feed_forward(config: ModelConfig, layout: Layout, name: str) -> FeedForward:
    """Return the feed-forward sub-layer of the config's sizes."""
    return FeedForward(
        d_ff=config.d_ff,
        dtype=compute_dtype(config),
        activation=config.activation,
        dropout_rate=config.activation_dropout_rate,
        layout=layout,
        name=name,
    )


class Residual(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))), or x + Dropout(Sublayer(LayerNorm(x))) for 'pre'.

    Attributes:
      config: `dropout_rate` (section 5.4), and `norm`, which is 'post' (the paper) or 'pre'.
    """

    config: ModelConfig

    @nn.compact
    def __call__(
        self, x: jax.Array, sublayer: Callable[[jax.Array], tuple], *, deterministic: bool
    ) -> tuple[jax.Array, Any]:
        """Apply a sub-layer.

        Args:
          x: [B, T, D].
          sublayer: a function from [B, T, D] to [B, T, D] and anything else.
          deterministic: no dropout; otherwise the caller gives the rng 'dropout'.

        Returns:
          [B, T, D], and what else `sublayer` has returned.
        """
        config, dtype = self.config, jnp.dtype(self.config.activation_dtype)
        dropout = Dropout(config.dropout_rate)
        if config.norm == 'pre':
            # In bfloat16, the sum of all layers would lose small updates.
            y_BTD, other = sublayer(layer_norm(config, 'norm')(x))
            return x + dropout(y_BTD, deterministic=deterministic).astype(x.dtype), other
        y_BTD, other = sublayer(x)
        if dtype == jnp.float32:
            dropped_BTD = dropout(y_BTD, deterministic=deterministic)
            return layer_norm(config, 'norm')(x + dropped_BTD.astype(jnp.float32)), other
        keep = dropout.keep_bits(x.shape, deterministic=deterministic)
        return _ResidualNorm(config.norm_epsilon, name='norm')(x.astype(dtype), y_BTD, keep), other


class _ResidualNorm(nn.Module):
    """`residual_norm` with the parameters of flax's LayerNorm."""

    epsilon: float

    @nn.compact
    def __call__(self, x: jax.Array, y: jax.Array, keep: KeepBits | None) -> jax.Array:
        scale_D = self.param('scale', nn.initializers.ones, x.shape[-1:], jnp.float32)
        bias_D = self.param('bias', nn.initializers.zeros, x.shape[-1:], jnp.float32)
        return residual_norm(self.epsilon, x, y, keep, scale_D, bias_D)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each in a residual connection.

    Attributes:
      config: sizes, dropout and norm.
      layout: where the layer's arrays lie on the devices.
    """

    config: ModelConfig
    layout: Layout = Layout()

    @nn.compact
    def __call__(
        self, x: jax.Array, mask: jax.Array | None = None, *, deterministic: bool = True
    ) -> jax.Array:
        """Apply the layer.

        Args:
          x: [B, S, D].
          mask: bool, four axes broadcastable to [B, N, S, S], True where a query may look.
          deterministic: no dropout; otherwise the caller gives the rng 'dropout'.

        Returns:
          [B, S, D].

        Raises:
          ValueError: if `mask` is not bool, or has another shape.
        """
        config = self.config
        self_attention = attention(config, self.layout, 'self_attention')
        transform = feed_forward(config, self.layout, 'feed_forward')
        x, _ = Residual(config, name='self_attention_residual')(
            x,
            lambda y: self_attention(y, mask=mask, deterministic=deterministic),
            deterministic=deterministic,
        )
        x, _ = Residual(config, name='feed_forward_residual')(
            x,
            lambda y: (transform(y, deterministic=deterministic), None),
            deterministic=deterministic,
        )
        return x  # [B, S, D]


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the encoder's output, then feed-forward.

    Without a memory it is a layer of a decoder-only model: it has no attention over a memory, and
    no parameters for it.

    Attributes:
      config: sizes, dropout and norm.
      layout: where the layer's arrays lie on the devices.
    """

    config: ModelConfig
    layout: Layout = Layout()

    @nn.compact
    def __call__(
        self,
        x: jax.Array,
        memory: jax.Array | KVCache | None = None,
        self_mask: jax.Array | None = None,
        memory_mask: jax.Array | None = None,
        *,
        deterministic: bool = True,
        cache: KVCache | None = None,
        position: jax.Array | None = None,
    ) -> tuple[jax.Array, KVCache, KVCache | None]:
        """Apply the layer.

        Args:
          x: [B, T, D].
          memory: [B, S, D], the encoder's output, or the `KVCache` that an earlier call made of it;
            None in a decoder-only model.
          self_mask: bool, four axes broadcastable to [B, N, T, S of `cache`]; None, only without a
            cache, is the causal mask.
          memory_mask: bool, four axes broadcastable to [B, N, T, S].
          deterministic: no dropout; otherwise the caller gives the rng 'dropout'.
          cache: keys and values of self-attention so far (see MultiHeadAttention).
          position: int32 scalar, the first slot of `cache` that `x` takes.

        Returns:
          The output, shaped like `x`; the keys and values of self-attention; those of the memory,
          None without one.

        Raises:
          ValueError: if a mask is not bool or has another shape, or there is no memory, but a mask
            or parameters for it.
        """
        config = self.config
        self_mask = checked_mask(self_mask, 'self_mask')
        memory_mask = checked_mask(memory_mask, 'memory_mask')
        self_attention = attention(config, self.layout, 'self_attention')
        cross_attention = attention(config, self.layout, 'cross_attention')
        if memory is None and self.has_variable('params', 'cross_attention'):
            raise ValueError(
                "memory=None, but the parameters have cross attention: give the encoder's output, "
                'or initialise a decoder-only model.'
            )
        if memory is None and memory_mask is not None:
            raise ValueError('memory_mask is given, but memory=None: give both or neither.')
        transform = feed_forward(config, self.layout, 'feed_forward')
        x, self_cache = Residual(config, name='self_attention_residual')(
            x,
            lambda y: self_attention(
                y,
                mask=self_mask,
                causal=self_mask is None,
                deterministic=deterministic,
                cache=cache,
                position=position,
            ),
            deterministic=deterministic,
        )
        memory_cache = None
        if memory is not None:
            x, memory_cache = Residual(config, name='cross_attention_residual')(
                x,
                lambda y: cross_attention(y, memory, memory_mask, deterministic=deterministic),
                deterministic=deterministic,
            )
        x, _ = Residual(config, name='feed_forward_residual')(
            x,
            lambda y: (transform(y, deterministic=deterministic), None),
            deterministic=deterministic,
        )
        return x, self_cache, memory_cache
