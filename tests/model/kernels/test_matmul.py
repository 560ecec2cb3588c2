"""Matrix products and their gradients: values, dtypes, and the order of operands."""

import functools

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_model import normal

from transformer_jax.model.kernels.matmul import add_bias, float32_einsum, matmul


def products(function, *arguments):
    """Return all matrix products of a function's gradient."""
    found = []

    def look(jaxpr):
        for equation in jaxpr.eqns:
            if equation.primitive.name == 'dot_general':
                found.append(equation)
            for inner in jax.extend.core.jaxprs_in_params(equation.params):
                look(inner)

    look(jax.make_jaxpr(jax.grad(function, argnums=(0, 1)))(*arguments).jaxpr)
    return found


def dtypes(product):
    """Return the dtypes of inputs and outputs."""
    return tuple(variable.aval.dtype.name for variable in (*product.invars, *product.outvars))


def test_bfloat16_gradients_are_products_of_bfloat16():
    a, b = normal(0, 3, 4, dtype=jnp.bfloat16), normal(1, 5, 4, dtype=jnp.bfloat16)
    weight = normal(2, 3, 5)
    found = products(lambda a, b: jnp.sum(float32_einsum('PD,VD->PV', a, b) * weight), a, b)
    assert [dtypes(product) for product in found] == [
        ('bfloat16', 'bfloat16', 'float32'),
        ('bfloat16', 'bfloat16', 'bfloat16'),
        ('bfloat16', 'bfloat16', 'bfloat16'),
    ]


@pytest.mark.parametrize('dtype, tolerance', [(jnp.float32, 1e-6), (jnp.bfloat16, 2e-2)])
def test_float32_einsum_has_the_gradients_of_einsum(dtype, tolerance):
    a, b, weight = normal(0, 2, 3, 4, dtype=dtype), normal(1, 2, 5, 4, dtype=dtype), normal(2, 3, 5)

    def loss(einsum):
        return lambda a, b: jnp.sum(jnp.sin(einsum('BTH,BSH->BTS', a, b)) * weight[None])

    mine = jax.jit(jax.grad(loss(float32_einsum), argnums=(0, 1)))(a, b)
    exact = a.astype(jnp.float32), b.astype(jnp.float32)
    expected = jax.jit(jax.grad(loss(jnp.einsum), argnums=(0, 1)))(*exact)
    for gradient, wanted in zip(mine, expected, strict=True):
        assert gradient.dtype == dtype
        np.testing.assert_allclose(gradient.astype(jnp.float32), wanted, atol=tolerance * 4)


WIDER, NARROWER, MANY = (12, 4, 7), (12, 7, 4), (65, 4, 7)  # P, K, N


def matrices(shape, transposed, dtype):
    positions, inner, outer = shape
    kernel = normal(1, inner, outer, dtype=dtype)
    return normal(0, positions, inner, dtype=dtype), kernel.T if transposed else kernel


@pytest.mark.parametrize('transposed', [False, True])
@pytest.mark.parametrize('shape', [WIDER, NARROWER, MANY])
@pytest.mark.parametrize('dtype, tolerance', [('float32', 1e-5), ('bfloat16', 0.1)])
def test_matmul_and_its_gradients_equal_those_of_the_operator(shape, transposed, dtype, tolerance):
    x, kernel = matrices(shape, transposed, dtype)
    weight = normal(2, shape[0], shape[2])

    def loss(product):
        return lambda x, kernel: jnp.sum(jnp.sin(product(x, kernel)) * weight)

    def exact(x, kernel):
        return x @ (kernel.T if transposed else kernel)

    ours = functools.partial(matmul, transposed=transposed, to_float32=True)
    mine = jax.jit(jax.value_and_grad(loss(ours), (0, 1)))(x, kernel)
    wanted = jax.value_and_grad(loss(exact), (0, 1))(*(a.astype(jnp.float32) for a in (x, kernel)))
    assert [gradient.dtype for gradient in mine[1]] == [dtype, dtype]
    for got, expected in zip(jax.tree.leaves(mine), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(np.float32(got), expected, atol=tolerance)


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_matmul_rounds_to_the_dtype_of_its_inputs(dtype):
    x, kernel = matrices(WIDER, False, dtype)
    rounded, exact = matmul(x, kernel), matmul(x, kernel, to_float32=True)
    assert rounded.dtype == dtype and exact.dtype == jnp.float32
    np.testing.assert_array_equal(rounded, exact.astype(dtype))


@pytest.mark.parametrize('transposed', [False, True])
@pytest.mark.parametrize('shape', [WIDER, NARROWER])
def test_bfloat16_products_on_a_cpu_have_the_form_that_xla_is_fast_for(shape, transposed):
    arguments = matrices(shape, transposed, 'bfloat16')
    found = products(
        lambda x, kernel: jnp.sum(jnp.sin(matmul(x, kernel, transposed=transposed))), *arguments
    )
    assert [dtypes(product) for product in found] == 3 * [('bfloat16', 'bfloat16', 'float32')]
    for product in found:
        (contracted, _), _ = product.params['dimension_numbers']
        assert contracted == (1,), 'the first matrix would have to be transposed'


@pytest.mark.parametrize('rows, kernel_first', [(1, False), (2, True), (64, True), (65, False)])
def test_few_rows_are_the_second_operand_on_a_cpu(rows, kernel_first):
    arguments = matrices((rows, 4, 7), True, 'float32')
    of_values = products(lambda x, kernel: jnp.sum(matmul(x, kernel, transposed=True)), *arguments)
    first, second = (variable.aval.shape[0] for variable in of_values[0].invars)
    assert (first, second) == ((7, rows) if kernel_first else (rows, 7))


def test_the_gradient_of_a_bias_is_summed_in_float32():
    x, bias = jnp.zeros((257, 1, 3), jnp.bfloat16), jnp.array([[0.5, 1.0, 2.0]])
    added, gradient = jax.vjp(add_bias, x, bias)
    assert added.dtype == jnp.bfloat16
    assert added[7].tolist() == [[0.5, 1.0, 2.0]]
    of_x, of_bias = gradient(jnp.ones_like(added))
    assert of_bias.tolist() == [[257.0] * 3]  # which bfloat16 would round to 256
    assert of_x.tolist() == jnp.ones_like(x).tolist()
