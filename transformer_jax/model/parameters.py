"""A model's parameters: their shapes, their number, and the dtype of their products."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from transformer_jax.config import ModelConfig, VocabSizes
from transformer_jax.model.kernels.matmul import KERNELS
from transformer_jax.model.layers import compute_dtype
from transformer_jax.model.transformer import Transformer


@functools.cache
def parameter_shapes(config: ModelConfig, vocab_size: int | VocabSizes) -> Any:
    """Return a model's parameters without computing them: a `jax.ShapeDtypeStruct` for each."""

    def init() -> Any:
        tokens = jnp.zeros((1, 1), jnp.int32)
        # Layers are alike, and tracing one takes a fraction of the time.
        model = Transformer.of(dataclasses.replace(config, num_layers=1), vocab_size)
        return model.init(jax.random.key(0), tokens, tokens)['params']

    shapes = jax.eval_shape(init)
    for side in ('encoder', 'decoder'):
        layer = shapes[side].pop('layer_0')
        shapes[side] |= {f'layer_{index}': layer for index in range(config.num_layers)}
    return shapes


@functools.cache
def parameter_count(config: ModelConfig, vocab_size: int | VocabSizes) -> int:
    """Return the number of parameters of a model, without computing them."""
    return sum(leaf.size for leaf in jax.tree.leaves(parameter_shapes(config, vocab_size)))


def in_compute_dtype(config: ModelConfig, params: Any) -> Any:
    """Return the parameters with all kernels converted to the dtype of their products.

    The model computes the same with them, to the bit. Otherwise every decoding step would convert
    the kernels again. Embeddings of tokens, biases and norms stay float32.

    Args:
      config: the model's config.
      params: the model's parameters, nested dicts.
    """
    dtype = compute_dtype(config)

    def convert(path: tuple, x: jax.Array) -> jax.Array:
        return x.astype(dtype) if path[-1].key in {*KERNELS, 'output_embedding'} else x

    return jax.tree_util.tree_map_with_path(convert, params)
