"""Matrix products, with gradients that are faster than JAX's own on CPUs and accelerators."""

import functools
import math

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import export, lax

from transformer_jax.model.kernels.platform import target_platform

# Names of the parameters that are used only as the right-hand side of a matrix product.
KERNELS = ('query', 'key', 'value', 'output', 'kernel')


def project(
    module: nn.Module, name: str, x: jax.Array, kernel: jax.Array, *, to_float32: bool = False
) -> jax.Array:
    """Return `matmul(x, kernel)`, with the transposed kernel if it is faster and available.

    Args:
      module: the module that has the kernel, and perhaps its copy in 'transposed_kernels'.
      name: the parameter's name, one of `KERNELS`.
      x: [P, K], float32 or bfloat16.
      kernel: [K, N], of the same dtype.
      to_float32: the sums stay float32; otherwise they are rounded to the dtype of `x`.

    Returns:
      [P, N].
    """
    if has_few_rows(x) and module.has_variable('transposed_kernels', name):
        kernel_NK = module.get_variable('transposed_kernels', name)
        return matmul(x, kernel_NK.astype(x.dtype), transposed=True, to_float32=to_float32)
    return matmul(x, kernel, to_float32=to_float32)


def float32_einsum(subscripts: str, a: jax.Array, b: jax.Array) -> jax.Array:
    """Return the einsum with sums in float32; its gradient multiplies in the dtype of `a` and `b`.

    JAX's own gradient would convert `a` and `b` to float32, and accelerators multiply float32 at
    half the speed of bfloat16 or less.

    Args:
      subscripts: as for `jnp.einsum`.
      a: any shape, float32 or bfloat16.
      b: any shape, of the same dtype.

    Returns:
      The einsum, float32.
    """
    if a.dtype == jnp.float32:
        return jnp.einsum(subscripts, a, b)
    return _float32_einsum(subscripts, a, b)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _float32_einsum(subscripts: str, a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.einsum(subscripts, a, b, preferred_element_type=jnp.float32)


def _float32_einsum_forward(subscripts, a, b):
    return _float32_einsum(subscripts, a, b), (a, b)


def _float32_einsum_backward(subscripts, inputs, gradient):
    (a, b), gradient = inputs, gradient.astype(inputs[0].dtype)
    (of_a,) = jax.linear_transpose(lambda a: jnp.einsum(subscripts, a, b), a)(gradient)
    (of_b,) = jax.linear_transpose(lambda b: jnp.einsum(subscripts, a, b), b)(gradient)
    return of_a, of_b


_float32_einsum.defvjp(_float32_einsum_forward, _float32_einsum_backward)


def matmul(
    x: jax.Array, kernel: jax.Array, *, transposed: bool = False, to_float32: bool = False
) -> jax.Array:
    """Return `x @ kernel`; in bfloat16 it uses the CPU's bfloat16 instructions (AMX), if any.

    On CPUs, XLA uses these instructions only for float32 output with at most the second operand
    transposed. Otherwise it converts to float32 and is several times slower.

    Args:
      x: [P, K], float32 or bfloat16.
      kernel: [K, N], of the same dtype.
      transposed: `kernel` is [N, K].
      to_float32: the sums stay float32; otherwise they are rounded to the dtype of `x`.

    Returns:
      [P, N].
    """
    if x.dtype == jnp.bfloat16 and target_platform() == 'cpu':
        product_PN = _cpu_matmul(transposed, x, kernel)
        return product_PN if to_float32 else product_PN.astype(x.dtype)
    if transposed and has_few_rows(x):
        # The large matrix is faster as the first operand. Without the barrier, XLA would swap them.
        return lax.optimization_barrier(jnp.einsum('NK,PK->NP', kernel, x)).T
    subscripts = 'PK,NK->PN' if transposed else 'PK,KN->PN'
    return (float32_einsum if to_float32 else jnp.einsum)(subscripts, x, kernel)


def prefers_transposed(dtype: jnp.dtype) -> bool:
    """Return whether a transposed kernel is faster for a few rows of `dtype`."""
    return dtype == jnp.float32 and target_platform() == 'cpu'


def has_few_rows(x: jax.Array) -> bool:
    """Return whether the transposed kernel is faster for the rows of `x` [P, K]."""
    rows = x.shape[0]
    if export.is_symbolic_dim(rows):  # any number
        return False
    return 2 <= rows <= 64 and prefers_transposed(x.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _cpu_matmul(transposed: bool, x: jax.Array, kernel: jax.Array) -> jax.Array:
    return lax.dot_general(
        x, kernel, (((1,), (int(transposed),)), ((), ())), preferred_element_type=jnp.float32
    )


def _cpu_matmul_forward(transposed, x, kernel):
    return _cpu_matmul(transposed, x, kernel), (x, kernel)


def _cpu_matmul_backward(transposed, inputs, gradient):
    (x_PK, kernel), gradient_PN = inputs, gradient.astype(inputs[0].dtype)
    of_x_PK = _cpu_matmul(not transposed, gradient_PN, kernel)
    # The smaller matrix is transposed, and the product again if it comes out the other way round.
    if x_PK.size <= gradient_PN.size:
        is_NK, of_kernel = False, _cpu_matmul(False, _transpose_unfused(x_PK), gradient_PN)
    else:
        is_NK, of_kernel = True, _cpu_matmul(False, _transpose_unfused(gradient_PN), x_PK)
    of_kernel = of_kernel.astype(kernel.dtype)
    if is_NK != transposed:
        of_kernel = _transpose_unfused(of_kernel)
    return of_x_PK.astype(x_PK.dtype), of_kernel


_cpu_matmul.defvjp(_cpu_matmul_forward, _cpu_matmul_backward)


def _transpose_unfused(x_AB: jax.Array) -> jax.Array:
    """Return `x_AB.T`, written so that XLA does not fuse the transpose into the product."""
    rows, columns = x_AB.shape
    part = 1 if export.is_symbolic_dim(rows) else math.gcd(rows, 8)
    return x_AB.reshape(-1, part, columns).transpose(2, 0, 1).reshape(columns, rows)


def add_bias(x: jax.Array, bias: jax.Array) -> jax.Array:
    """Return `x + bias` in the dtype of `x`; the gradient of the bias is summed in float32.

    JAX would round that gradient to the dtype of `x`, and XLA sums bfloat16 slowly on CPUs.

    Args:
      x: [..., *bias.shape], float32 or bfloat16.
      bias: float32.

    Returns:
      An array like `x`.
    """
    return (_with_bias if x.dtype == jnp.float32 else _add_bias)(x, bias)


def _with_bias(x, bias):
    leading = (1,) * (x.ndim - bias.ndim)
    return x + bias.astype(x.dtype).reshape(*leading, *bias.shape)


@jax.custom_vjp
def _add_bias(x: jax.Array, bias: jax.Array) -> jax.Array:
    return _with_bias(x, bias)


def _add_bias_forward(x, bias):
    return _with_bias(x, bias), bias.ndim


def _add_bias_backward(bias_axes, gradient):
    leading = tuple(range(gradient.ndim - bias_axes))
    return gradient, jnp.sum(gradient.astype(jnp.float32), axis=leading)


_add_bias.defvjp(_add_bias_forward, _add_bias_backward)
