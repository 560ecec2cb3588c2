"""Products with kernels, of which few rows want a second set."""

import jax
from flax import linen as nn

from transformer_jax.model.matmul import has_few_rows, matmul

# Names of the parameters that are multiplied by and nothing else.
KERNELS = ('query', 'key', 'value', 'output', 'kernel')


def product(
    module: nn.Module, name: str, x: jax.Array, kernel: jax.Array, *, to_float32: bool = False
) -> jax.Array:
    """`matmul(x, kernel)`; for few rows by the turned kernel, if the module was given one.

    Args:
      module: whose kernel it is.
      name: of the kernel, one of `KERNELS`.
      x: [P, K], float32 or bfloat16.
      kernel: [K, N], of the same dtype.
      to_float32: as for `matmul`.

    Returns:
      [P, N].
    """
    if has_few_rows(x) and module.has_variable('transposed_kernels', name):
        turned_NK = module.get_variable('transposed_kernels', name)
        return matmul(x, turned_NK.astype(x.dtype), transposed=True, to_float32=to_float32)
    return matmul(x, kernel, to_float32=to_float32)
