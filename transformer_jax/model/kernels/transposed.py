"""Copies of the kernels with which a search on CPUs is faster."""

from typing import Any

from transformer_jax.config import ModelConfig
from transformer_jax.model.kernels.matmul import KERNELS, prefers_transposed
from transformer_jax.model.layers import compute_dtype


def transposed_kernels(config: ModelConfig, params: Any) -> Any:
    """Return transposed copies of the kernels; on CPUs, decoding small batches is faster with them.

    XLA multiplies a few rows faster by a matrix [outputs, inputs] than by one [inputs, outputs].
    For many rows there is no difference. A model that gets both chooses by the number of rows:

        variables = {'params': params, 'transposed_kernels': transposed_kernels(config, params)}
        model.apply(variables, tokens, position, cache, method='decode_step')

    Args:
      config: the model's config.
      params: the model's parameters, nested dicts.

    Returns:
      Nested dicts with only the kernels, [outputs, inputs]; empty if the model would not use them,
      on accelerators and in bfloat16.
    """
    if not prefers_transposed(compute_dtype(config)):
        return {}
    transposed = {}
    for name, value in params.items():
        if isinstance(value, dict):
            transposed[name] = transposed_kernels(config, value)
        elif name in KERNELS:
            # Attention's output kernel is [heads, size, D], all others are [inputs, ...].
            shape = (-1, value.shape[-1]) if name == 'output' else (len(value), -1)
            transposed[name] = value.reshape(shape).T
    return transposed
