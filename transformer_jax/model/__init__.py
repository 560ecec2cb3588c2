"""The Transformer as Flax modules and pure functions; needs jax and flax only.

Dimension key: B batch, T query or target length, S key or source length, N heads, H head size,
D model, F feed-forward, V vocabulary, L layers.

In float32 on CPUs, all of JAX's derivatives work. Products of bfloat16, lookups on GPUs and losses
have reverse-mode gradients only (no jax.jvp), and losses have no second derivatives. Within
jax.shard_map, these and the searches of transformer_jax.decoding need check_vma=False. Without it,
JAX sums the gradients of replicated parameters over the devices, here as in any model: divide by
the number of devices instead of taking jax.lax.pmean.

All of it can be exported with symbolic batch and lengths (jax.export.symbolic_shape).
"""

from transformer_jax.config import ModelConfig
from transformer_jax.model.attention import (
    MultiHeadAttention,
    causal_mask,
    dot_product_attention,
    padding_mask,
)
from transformer_jax.model.kernels.transposed import transposed_kernels
from transformer_jax.model.kv_cache import (
    DecodingCache,
    KVCache,
    advance_cache,
    grow_cache,
    reorder_hypotheses,
    select_sentences,
)
from transformer_jax.model.layers import DecoderLayer, EncoderLayer, FeedForward
from transformer_jax.model.layout import Layout
from transformer_jax.model.parameters import in_compute_dtype, parameter_count, parameter_shapes
from transformer_jax.model.positions import sinusoidal_positions
from transformer_jax.model.stacks import Decoder, Encoder, empty_cache
from transformer_jax.model.transformer import Transformer, shift_right

__all__ = [
    'Decoder',
    'DecoderLayer',
    'DecodingCache',
    'Encoder',
    'EncoderLayer',
    'FeedForward',
    'KVCache',
    'Layout',
    'ModelConfig',
    'MultiHeadAttention',
    'Transformer',
    'advance_cache',
    'causal_mask',
    'dot_product_attention',
    'empty_cache',
    'grow_cache',
    'in_compute_dtype',
    'padding_mask',
    'parameter_count',
    'parameter_shapes',
    'reorder_hypotheses',
    'select_sentences',
    'shift_right',
    'sinusoidal_positions',
    'transposed_kernels',
]
