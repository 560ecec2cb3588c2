"""Code that only GPUs run: attention by cuDNN, and a deterministic embedding gradient.

launch/clusters.md has what was measured. tests/accelerator_programs.py compiles it for an H200.
"""

import dataclasses
import functools
import logging
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from transformer_jax.config import ModelConfig
from transformer_jax.model.kernels.platform import target_platform

_logger = logging.getLogger('transformer_jax')


def attention_implementation(config: ModelConfig) -> str:
    """Return 'cudnn' if the config asks for it and the device has it, otherwise 'xla'."""
    if config.attention_implementation != 'cudnn':
        return 'xla'  # for 'auto', too: cuDNN's would misread a mask of other tokens than the last
    if not _has_cudnn_attention():
        _warn_no_cudnn()
        return 'xla'
    return 'cudnn'


def for_padded_batches(config: ModelConfig) -> ModelConfig:
    """Return the config with 'cudnn' for 'auto', if the device and the other fields allow it.

    The caller promises that sentences are padded at their end.
    """
    is_open = config.attention_implementation == 'auto' and not config.cudnn_conflicts
    if is_open and target_platform() == 'gpu' and _has_cudnn_attention():
        return dataclasses.replace(config, attention_implementation='cudnn')
    return config


def _has_cudnn_attention() -> bool:
    """Return whether cuDNN has bfloat16 attention kernels for the device."""
    device = jax.local_devices()[0]
    is_nvidia = jax.default_backend() == 'gpu' and 'cuda' in device.client.platform_version
    return is_nvidia and tuple(map(int, device.compute_capability.split('.'))) >= (8, 0)


@functools.cache  # warn once
def _warn_no_cudnn() -> None:
    _logger.warning(
        "model.attention_implementation='cudnn' needs an NVIDIA GPU since Ampere (compute "
        "capability 8.0), and there is none: attention is 'xla' here."
    )


def cudnn_attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    mask: jax.Array | None = None,
    *,
    causal: bool = False,
) -> jax.Array:
    """Return `dot_product_attention` from one cuDNN kernel, which never stores the weights.

    Args:
      query: [B, T, N, H] bfloat16, H a multiple of 8 and at most 128.
      key: [B, S, N, H] bfloat16.
      value: [B, S, N, H] bfloat16.
      mask: [B, 1, 1, S] bool, as `padding_mask` makes it of sentences that are padded at their end;
        None for no padding. A sentence without tokens attends to its first position.
      causal: a query sees no key after its own position; T = S.

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
            f'{key.shape[1]}], as padding_mask makes it. For a causal mask, set causal=True.'
        )
    else:
        # Pass lengths instead of a mask: a mask would be expanded to a [B, N, T, S] bias.
        lengths_B = jnp.maximum(mask[:, 0, 0].sum(-1, dtype=jnp.int32), 1)

    def even(x_BTNH: jax.Array) -> jax.Array:
        """Pad an odd length by one, because cuDNN has no gradient kernel for odd lengths."""
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


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def deterministic_lookup(
    lookup: Callable[[jax.Array, jax.Array], jax.Array],
    num_rows: int,
    table: jax.Array,
    indices: jax.Array,
) -> jax.Array:
    """Return `lookup(table, indices)`; the gradient of the table is the same to the bit each time.

    JAX's own gradient adds the positions of a row in the order in which GPU threads reach it. It
    also clamps indices that are too large, and wraps negative ones.

    Args:
      lookup: a function of the other two arguments.
      num_rows: V.
      table: [V, D].
      indices: int32, any shape.
    """
    return lookup(table, indices)


def _lookup_forward(lookup, num_rows, table, indices):
    return lookup(table, indices), indices


def _lookup_backward(lookup, num_rows, indices, gradient):
    return sum_rows(num_rows, indices.reshape(-1), gradient.reshape(indices.size, -1)), None


deterministic_lookup.defvjp(_lookup_forward, _lookup_backward)


def sum_rows(num_rows: int, indices: jax.Array, values: jax.Array) -> jax.Array:
    """Return the sum of each row's values, always added in the same order.

    Args:
      num_rows: V.
      indices: [P] int32, the row that each value belongs to.
      values: [P, D].

    Returns:
      [V, D]; zeros for a row without values.
    """
    order_P = jnp.argsort(indices)  # stable
    sorted_P = indices[order_P]

    def add(left, right):
        (left_row, left_sum), (right_row, right_sum) = left, right
        # After sorting, equal row numbers are adjacent, so a segment is a whole row.
        same = (left_row == right_row)[:, None]
        return right_row, right_sum + jnp.where(same, left_sum, 0)

    _, sums_PD = lax.associative_scan(add, (sorted_P, values[order_P]))
    # A row's sum is complete at its last value. A lookup finds it, so that nothing is scattered.
    wanted_V = jnp.arange(num_rows)
    # Unrolled, this is three GPU kernels; as a loop it would be about sixty.
    last_V = jnp.searchsorted(sorted_P, wanted_V, side='right', method='scan_unrolled') - 1
    present_V = (last_V >= 0) & (sorted_P[last_V] == wanted_V)
    return jnp.where(present_V[:, None], sums_PD[last_V], 0)
