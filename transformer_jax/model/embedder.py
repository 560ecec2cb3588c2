"""The output layer: logits, and sums over those of a batch without ever having all of them."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax

from transformer_jax.model.layout import Layout
from transformer_jax.model.matmul import chunked_sum, matmul


def logits_of(
    layout: Layout, x: jax.Array, embedding: jax.Array, bias: jax.Array | None
) -> jax.Array:
    """The logits (section 3.4).

    Args:
      layout: where arrays lie on the devices.
      x: [B, T, D], the decoder's output.
      embedding: [G, V, D], a copy for each group of rows, in the dtype to compute in.
      bias: [V] or None.

    Returns:
      [B, T, V] float32.
    """
    # Positions in a row (P): with batch and time apart XLA multiplies matrices a third slower.
    x_PD = x.astype(embedding.dtype).reshape(-1, x.shape[-1])
    project = functools.partial(matmul, transposed=True, to_float32=True)
    logits_GPV = jax.vmap(project)(layout.in_groups(x_PD), embedding)
    logits_BTV = logits_GPV.reshape(*x.shape[:2], -1)
    if bias is not None:
        logits_BTV += bias[None, None]
    return layout(logits_BTV, 'BTV')


def chunked_loss(
    summand: Callable[[jax.Array, jax.Array], tuple[jax.Array, Any]],
    layout: Layout,
    x: jax.Array,
    weights: tuple[jax.Array, jax.Array | None],
    targets: jax.Array,
    row_group_size: int = 1,
) -> tuple[jax.Array, Any]:
    """As `summand(logits_of(layout, x, *weights), targets)`, summed over parts of the batch.

    Args:
      summand: from [b, T, V] float32 logits and [b, T] targets of some rows to a scalar and a tree
        of other sums, which have no gradient. It may not use traced arrays of its own.
      layout: where arrays lie on the devices.
      x: [B, T, D], the decoder's output.
      weights: embedding and bias of `logits_of`.
      targets: [B, T] int32.
      row_group_size: rows side by side that belong into one part; it divides B.

    Returns:
      The sums of both.
    """
    groups, (rows, length, d_model) = layout.row_groups, x.shape
    units = rows // groups // row_group_size
    parts = _parts(units, units * row_group_size * length / _positions_at_once(d_model))

    def in_parts(x_B: jax.Array) -> jax.Array:
        # Of each group's rows a part: devices go on with rows of their own. C counts the parts.
        x_GCR = x_B.reshape(groups, parts, -1, *x_B.shape[1:])
        return layout(x_GCR.swapaxes(0, 1), '-G' + '-' * x_B.ndim)

    def of_part(weights: tuple, x_GRTD: jax.Array, targets_GRT: jax.Array):
        x_BTD, targets_BT = (
            layout(x.reshape(-1, *x.shape[2:]), 'B' + '-' * (x.ndim - 2))
            for x in (x_GRTD, targets_GRT)
        )
        return summand(logits_of(layout, x_BTD, *weights), targets_BT)

    return chunked_sum(of_part, weights, in_parts(x), in_parts(targets))


def _positions_at_once(d_model: int) -> int:
    """About how many positions are to have logits at once.

    On CPUs so many that their caches hold a part's logits of 10,000 words, but enough for adding up
    a part's gradient of the embedding, which costs as much as D positions, not to count; on
    accelerators so many that a part keeps one busy.
    """
    return max(512, 2 * d_model) if jax.default_backend() == 'cpu' else 8192


def _parts(units: int, wanted: float) -> int:
    """What divides `units` and is nearest to `wanted`, by its ratio to it."""
    divisors = [parts for parts in range(1, units + 1) if units % parts == 0]
    return min(divisors, key=lambda parts: abs(math.log(parts / wanted)))
