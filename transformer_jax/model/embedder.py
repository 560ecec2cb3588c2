"""The embedding matrices: token lookup and logits."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from transformer_jax.model.kernels.accelerators import deterministic_lookup
from transformer_jax.model.kernels.matmul import matmul
from transformer_jax.model.kernels.platform import target_platform
from transformer_jax.model.layout import Layout


def embedding_lookup(table: jax.Array, indices: jax.Array) -> jax.Array:
    """Return `table[indices]`, with a gradient that is deterministic on GPUs, too.

    Args:
      table: [V, D] float32.
      indices: int32, any shape, from 0 to V - 1.

    Returns:
      [*indices.shape, D]; NaN for an index that is negative, or V or more.
    """
    if target_platform() == 'gpu':
        return deterministic_lookup(_rows_or_nan, table.shape[0], table, indices)
    return _rows_or_nan(table, indices)


def _rows_or_nan(table: jax.Array, indices: jax.Array) -> jax.Array:
    return table.at[indices].get(mode='fill', fill_value=jnp.nan, wrap_negative_indices=False)


class OutputWeights(NamedTuple):
    """The parameters that turn the decoder's output into logits.

    Attributes:
      embedding: [G, V, D], a copy for each group of rows, in the dtype of the matrix product.
      bias: [V] float32 or None.
    """

    embedding: jax.Array
    bias: jax.Array | None


def logits(
    states: jax.Array,
    weights: OutputWeights,
    layout: Layout,
    dtype: jnp.dtype = jnp.float32,
) -> jax.Array:
    """Return the logits (section 3.4).

    Args:
      states: [B, T, D], the decoder's output.
      weights: from `Transformer.decoder_states`.
      layout: where arrays lie on the devices.
      dtype: float32, or that of the product.

    Returns:
      [B, T, V], in `dtype`.
    """
    embedding_GVD, bias_V = weights
    # One row per position (P): with separate axes B and T, XLA's matrix product is slower.
    states_PD = states.astype(embedding_GVD.dtype).reshape(-1, states.shape[-1])
    to_float32 = dtype == jnp.float32
    project = functools.partial(matmul, transposed=True, to_float32=to_float32)
    logits_GPV = jax.vmap(project)(layout.in_groups(states_PD), embedding_GVD)
    logits_BTV = logits_GPV.reshape(*states.shape[:2], -1)
    if bias_V is not None:
        logits_BTV += bias_V[None, None].astype(logits_BTV.dtype)
    return layout(logits_BTV, 'BTV')
