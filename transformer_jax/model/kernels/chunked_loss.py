"""A loss whose logits are computed in chunks, because they take more memory than all else."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import export, lax

from transformer_jax.model.embedder import OutputWeights, logits
from transformer_jax.model.kernels.platform import target_platform
from transformer_jax.model.layout import Layout


def chunked_loss(
    states: jax.Array,
    weights: OutputWeights,
    targets: jax.Array,
    loss_fn: Callable[[jax.Array, jax.Array], tuple[jax.Array, Any]],
    *,
    layout: Layout,
    row_group_size: int = 1,
    logits_dtype: jnp.dtype = jnp.float32,
) -> tuple[jax.Array, Any]:
    """Return `loss_fn(logits(states, weights, layout), targets)`, summed over chunks of the batch.

    The logits take more memory than all other activations. Here only one chunk of them exists at a
    time, because each chunk's gradient is computed together with its loss.

    Args:
      states: [B, T, D], the decoder's output.
      weights: from `Transformer.decoder_states`.
      targets: [B, T] int32.
      loss_fn: a function of some rows' [b, T, V] logits and [b, T] targets, which returns a scalar
        and a tree of other sums without a gradient. It may not close over traced arrays.
      layout: where arrays lie on the devices.
      row_group_size: number of adjacent rows that stay in one chunk; it divides B.
      logits_dtype: float32, or the dtype of the product.

    Returns:
      The sum of the scalars, and the sums of the trees.
    """
    groups, (rows, length, d_model) = layout.row_groups, states.shape
    units = rows // groups // row_group_size
    positions = units * row_group_size * length
    chunks = 1
    if not export.is_symbolic_dim(positions):
        chunks = _chunk_count(units, positions / _positions_per_chunk(d_model))

    def split(x_B: jax.Array) -> jax.Array:
        # A chunk has rows of every group, so that each device works on its own rows. C: chunks.
        x_GCR = x_B.reshape(groups, chunks, -1, *x_B.shape[1:])
        return layout(x_GCR.swapaxes(0, 1), '-G' + '-' * x_B.ndim)

    def chunk_loss(weights: OutputWeights, states_GRTD: jax.Array, targets_GRT: jax.Array):
        states_BTD, targets_BT = (
            layout(x.reshape(-1, *x.shape[2:]), 'B' + '-' * (x.ndim - 2))
            for x in (states_GRTD, targets_GRT)
        )
        return loss_fn(logits(states_BTD, weights, layout, logits_dtype), targets_BT)

    return chunked_sum(chunk_loss, weights, split(states), split(targets))


def _positions_per_chunk(d_model: int) -> int:
    """Return about how many positions have logits at the same time.

    On CPUs a chunk's logits should fit into the cache, but each chunk also adds a gradient of the
    whole embedding, which costs as much as D positions. On accelerators a chunk has to be large
    enough to keep the device busy.
    """
    return max(512, 2 * d_model) if target_platform() == 'cpu' else 8192


def _chunk_count(units: int, wanted: float) -> int:
    """Return the divisor of `units` whose ratio to `wanted` is nearest to 1."""
    divisors = [count for count in range(1, units + 1) if units % count == 0]
    return min(divisors, key=lambda count: abs(math.log(count / wanted)))


def chunked_sum(
    function: Callable[[Any, jax.Array, Any], tuple[jax.Array, Any]],
    weights: Any,
    x: jax.Array,
    constants: Any,
) -> tuple[jax.Array, Any]:
    """Return the sum of `function(weights, x[i], constants[i])` over i, computed one i at a time.

    The gradient of each chunk is computed together with its value. JAX would instead keep the
    residuals of all chunks until the sum is known. Therefore there is no second derivative.

    Args:
      function: takes the weights and one chunk; returns a scalar and a tree of other sums, which
        have no gradient. It may not close over traced arrays.
      weights: a tree of arrays; their gradients are added in float32.
      x: [C, ...].
      constants: a tree of arrays [C, ...]; they have no gradient.

    Returns:
      The sum of the scalars, and the sums of the trees.
    """
    if x.shape[0] == 1:
        return function(weights, x[0], jax.tree.map(lambda a: a[0], constants))
    return _chunked_sum(function, weights, x, constants)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _chunked_sum(function, weights, x, constants):
    def add(sums, chunk):
        return jax.tree.map(jnp.add, sums, function(weights, *chunk)), None

    return lax.scan(add, _zero_sums(function, weights, x, constants), (x, constants))[0]


def _chunked_sum_forward(function, weights, x, constants):
    with_gradient = jax.value_and_grad(function, argnums=(0, 1), has_aux=True)

    def add(sums, chunk):
        value, (of_weights, of_x) = with_gradient(weights, *chunk)
        return jax.tree.map(jnp.add, sums, (value, of_weights)), of_x

    zeros = jax.tree.map(lambda a: jnp.zeros(a.shape, jnp.float32), weights)
    start = (_zero_sums(function, weights, x, constants), zeros)
    (sums, of_weights), of_x = lax.scan(add, start, (x, constants))
    like = jax.tree.map(lambda a: jnp.zeros((), a.dtype), weights)
    return sums, (of_weights, like, of_x)


def _chunked_sum_backward(function, residuals, gradients):
    (of_weights, like, of_x), scale = residuals, gradients[0]
    of_weights = jax.tree.map(lambda a, b: (scale * a).astype(b.dtype), of_weights, like)
    return of_weights, (scale * of_x).astype(of_x.dtype), None


_chunked_sum.defvjp(_chunked_sum_forward, _chunked_sum_backward)


def _zero_sums(function, weights, x, constants):
    """Return zeros with the shapes of what `function` returns for a chunk."""
    chunk = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), (x, constants))
    shapes = jax.eval_shape(function, weights, *chunk)
    return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)
