"""Operations as JAX has them, with gradients that suit GPUs and CPUs better than its own."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def float32_einsum(subscripts: str, a: jax.Array, b: jax.Array) -> jax.Array:
    """Products of `a` and `b` summed up in float32; those of the gradient are in their own dtype.

    JAX would multiply the gradient, which comes in float32, by `a` and `b` converted to that: on
    GPUs such products take at least twice as long as those of bfloat16.

    Args:
      subscripts: of `jnp.einsum`.
      a: any shape, float32 or bfloat16.
      b: any shape, of the same dtype.

    Returns:
      What the subscripts say, float32.
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
    """`x @ kernel`; in bfloat16 on CPUs that have products of it (AMX), several times as fast.

    There XLA would multiply in float32, unless the product comes in float32 and no matrix, it
    included, has to be transposed but the second.

    Args:
      x: [P, K], float32 or bfloat16.
      kernel: [K, N], of the same dtype.
      transposed: `kernel` is [N, K].
      to_float32: the sums stay float32; otherwise they are rounded to the dtype of `x`.

    Returns:
      [P, N].
    """
    if x.dtype == jnp.bfloat16 and jax.default_backend() == 'cpu':
        product_PN = _cpu_matmul(transposed, x, kernel)
        return product_PN if to_float32 else product_PN.astype(x.dtype)
    if transposed and has_few_rows(x):
        # The large matrix first, and the barrier lest XLA turns that around: up to twice as fast.
        return lax.optimization_barrier(jnp.einsum('NK,PK->NP', kernel, x)).T
    subscripts = 'PK,NK->PN' if transposed else 'PK,KN->PN'
    return (float32_einsum if to_float32 else jnp.einsum)(subscripts, x, kernel)


def prefers_transposed(dtype: jnp.dtype) -> bool:
    """Whether few rows of `dtype` are multiplied faster by a kernel that is `transposed`."""
    return dtype == jnp.float32 and jax.default_backend() == 'cpu'


def has_few_rows(x: jax.Array) -> bool:
    """Whether [P, K] has so few rows that `prefers_transposed` speaks of it."""
    return 2 <= len(x) <= 64 and prefers_transposed(x.dtype)


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
    if x_PK.size <= gradient_PN.size:
        is_NK, of_kernel = False, _cpu_matmul(False, _turned(x_PK), gradient_PN)
    else:
        is_NK, of_kernel = True, _cpu_matmul(False, _turned(gradient_PN), x_PK)
    of_kernel = of_kernel.astype(kernel.dtype)
    return of_x_PK.astype(x_PK.dtype), of_kernel if is_NK == transposed else _turned(of_kernel)


_cpu_matmul.defvjp(_cpu_matmul_forward, _cpu_matmul_backward)


def _turned(x_AB: jax.Array) -> jax.Array:
    """`x_AB.T`, written so that XLA does not make it a part of the product it is for."""
    rows, columns = x_AB.shape
    part = math.gcd(rows, 8)
    return x_AB.reshape(-1, part, columns).transpose(2, 0, 1).reshape(columns, rows)


def add_bias(x: jax.Array, bias: jax.Array) -> jax.Array:
    """`x + bias` in the dtype of `x`; the gradient of the bias is summed up in float32.

    JAX would round it to the dtype of `x`, and XLA sums bfloat16 slowly on CPUs.

    Args:
      x: [..., *bias.shape], float32 or bfloat16.
      bias: float32.

    Returns:
      As `x`.
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


@jax.custom_jvp
def relu(x: jax.Array) -> jax.Array:
    """max(x, 0), whose gradient looks at what comes out.

    JAX's looks at what goes in: a GPU would write both, and could not leave it to the product that
    makes `x` to put in zeros.

    Args:
      x: any shape and dtype.

    Returns:
      As `x`.
    """
    return jnp.maximum(x, 0)


@relu.defjvp
def _relu_jvp(primals, tangents):
    y, (tangent,) = relu(*primals), tangents
    # Not `y > 0`, from which XLA concludes that x > 0, and takes that.
    return y, jnp.where(y != 0, tangent, 0)


def take_rows(table: jax.Array, indices: jax.Array) -> jax.Array:
    """`table[indices]`, whose gradient on GPUs, too, is the same to the bit each time.

    JAX would add up the gradient of a row in the order in which a GPU's threads come by, take the
    last row for all beyond it, and count from there for negative indices.

    Args:
      table: [V, D] float32.
      indices: int32, any shape, from 0 to V - 1.

    Returns:
      [*indices.shape, D], NaN where an index is negative, or V or more.
    """
    if jax.default_backend() != 'gpu':
        return _rows_at(table, indices)
    return _take_rows(table.shape[0], table, indices)


def _rows_at(table, indices):
    return table.at[indices].get(mode='fill', fill_value=jnp.nan, wrap_negative_indices=False)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _take_rows(rows: int, table: jax.Array, indices: jax.Array) -> jax.Array:
    return _rows_at(table, indices)


def _take_rows_forward(rows, table, indices):
    return _rows_at(table, indices), indices


def _take_rows_backward(rows, indices, gradient):
    return sum_rows(rows, indices.reshape(-1), gradient.reshape(indices.size, -1)), None


_take_rows.defvjp(_take_rows_forward, _take_rows_backward)


def sum_rows(rows: int, indices: jax.Array, values: jax.Array) -> jax.Array:
    """Sums the values of each row, always in the same order.

    Args:
      rows: V.
      indices: [P] int32, the row that each value belongs to.
      values: [P, D].

    Returns:
      [V, D]; zeros for a row without values.
    """
    order_P = jnp.argsort(indices)  # stable
    sorted_P = indices[order_P]

    def add(left, right):
        (left_row, left_sum), (right_row, right_sum) = left, right
        # In sorted order, what ends in the same row is all of that row.
        same = (left_row == right_row)[:, None]
        return right_row, right_sum + jnp.where(same, left_sum, 0)

    _, sums_PD = lax.associative_scan(add, (sorted_P, values[order_P]))
    # The sum of a row is whole at its last value. Looked up: nothing is ever scattered.
    wanted_V = jnp.arange(rows)
    # As a loop it would be some sixty tiny kernels on GPUs; unrolled it is three.
    last_V = jnp.searchsorted(sorted_P, wanted_V, side='right', method='scan_unrolled') - 1
    there_V = (last_V >= 0) & (sorted_P[last_V] == wanted_V)
    return jnp.where(there_V[:, None], sums_PD[last_V], 0)


def chunked_sum(
    function: Callable[[Any, jax.Array, Any], tuple[jax.Array, Any]],
    weights: Any,
    x: jax.Array,
    constants: Any,
) -> tuple[jax.Array, Any]:
    """Sums function(weights, x[i], constants[i]) over i, one after the other.

    The gradient of a part is worked out along with it: JAX would keep what that takes of all parts,
    until it knows their sum. So there is no second derivative.

    Args:
      function: from these to a scalar and a tree of other sums, which have no gradient. It may not
        use traced arrays of its own.
      weights: a tree of arrays; their gradients are added up in float32.
      x: [C, ...].
      constants: a tree of arrays [C, ...]; they have no gradient.

    Returns:
      The sums of both.
    """
    if len(x) == 1:
        return function(weights, x[0], jax.tree.map(lambda a: a[0], constants))
    return _sum_of_parts(function, weights, x, constants)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _sum_of_parts(function, weights, x, constants):
    def add(sums, part):
        return jax.tree.map(jnp.add, sums, function(weights, *part)), None

    return lax.scan(add, _no_sums(function, weights, x, constants), (x, constants))[0]


def _sum_of_parts_forward(function, weights, x, constants):
    with_gradient = jax.value_and_grad(function, argnums=(0, 1), has_aux=True)

    def add(sums, part):
        summand, (of_weights, of_x) = with_gradient(weights, *part)
        return jax.tree.map(jnp.add, sums, (summand, of_weights)), of_x

    zeros = jax.tree.map(lambda a: jnp.zeros(a.shape, jnp.float32), weights)
    start = (_no_sums(function, weights, x, constants), zeros)
    (sums, of_weights), of_x = lax.scan(add, start, (x, constants))
    like = jax.tree.map(lambda a: jnp.zeros((), a.dtype), weights)
    return sums, (of_weights, like, of_x)


def _sum_of_parts_backward(function, residuals, gradients):
    (of_weights, like, of_x), scale = residuals, gradients[0]
    of_weights = jax.tree.map(lambda a, b: (scale * a).astype(b.dtype), of_weights, like)
    return of_weights, (scale * of_x).astype(of_x.dtype), None


_sum_of_parts.defvjp(_sum_of_parts_forward, _sum_of_parts_backward)


def _no_sums(function, weights, x, constants):
    """Zeros shaped as what `function` makes of a part."""
    part = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), (x, constants))
    shapes = jax.eval_shape(function, weights, *part)
    return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)
