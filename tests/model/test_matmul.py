"""Gradients that suit the device: what is multiplied in which dtype and order, and summed how."""

import functools

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_model import normal

from transformer_jax.model.matmul import (
    add_bias,
    chunked_sum,
    float32_einsum,
    matmul,
    relu,
    sum_rows,
    take_rows,
)


def products(function, *arguments):
    """All matrix products of a function's gradient."""
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
    """Of what goes in and what comes out."""
    return tuple(variable.aval.dtype.name for variable in (*product.invars, *product.outvars))


def test_gradients_of_bfloat16_are_products_of_bfloat16():
    a, b = normal(0, 3, 4, dtype=jnp.bfloat16), normal(1, 5, 4, dtype=jnp.bfloat16)
    weight = normal(2, 3, 5)
    found = products(lambda a, b: jnp.sum(float32_einsum('PD,VD->PV', a, b) * weight), a, b)
    assert [dtypes(product) for product in found] == [
        ('bfloat16', 'bfloat16', 'float32'),
        ('bfloat16', 'bfloat16', 'bfloat16'),
        ('bfloat16', 'bfloat16', 'bfloat16'),
    ]


@pytest.mark.parametrize('dtype, tolerance', [(jnp.float32, 1e-6), (jnp.bfloat16, 2e-2)])
def test_the_gradients_are_those_of_einsum(dtype, tolerance):
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
def test_matmul_and_its_gradients_are_those_of_the_operator(shape, transposed, dtype, tolerance):
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
def test_matmul_rounds_to_the_dtype_it_is_given(dtype):
    x, kernel = matrices(WIDER, False, dtype)
    rounded, exact = matmul(x, kernel), matmul(x, kernel, to_float32=True)
    assert rounded.dtype == dtype and exact.dtype == jnp.float32
    np.testing.assert_array_equal(rounded, exact.astype(dtype))


@pytest.mark.parametrize('transposed', [False, True])
@pytest.mark.parametrize('shape', [WIDER, NARROWER])
def test_on_a_cpu_products_of_bfloat16_are_of_the_kind_that_xla_has(shape, transposed):
    arguments = matrices(shape, transposed, 'bfloat16')
    found = products(
        lambda x, kernel: jnp.sum(jnp.sin(matmul(x, kernel, transposed=transposed))), *arguments
    )
    assert [dtypes(product) for product in found] == 3 * [('bfloat16', 'bfloat16', 'float32')]
    for product in found:
        (contracted, _), _ = product.params['dimension_numbers']
        assert contracted == (1,), 'the first matrix would have to be transposed'


@pytest.mark.parametrize('rows, kernel_first', [(1, False), (2, True), (64, True), (65, False)])
def test_on_a_cpu_few_rows_come_second_in_a_product(rows, kernel_first):
    arguments = matrices((rows, 4, 7), True, 'float32')
    of_values = products(lambda x, kernel: jnp.sum(matmul(x, kernel, transposed=True)), *arguments)
    first, second = (variable.aval.shape[0] for variable in of_values[0].invars)
    assert (first, second) == ((7, rows) if kernel_first else (rows, 7))


@pytest.mark.parametrize('count', [1, 2, 7, 64])
def test_rows_are_summed(count):
    indices = np.random.default_rng(count).integers(2, 9, count)
    values = normal(0, count, 3)
    expected = np.zeros((11, 3))
    np.add.at(expected, indices, np.asarray(values))
    sums = jax.jit(sum_rows, static_argnums=0)(11, jnp.asarray(indices, jnp.int32), values)
    np.testing.assert_allclose(sums, expected, atol=1e-5)
    absent = np.setdiff1d(np.arange(11), indices)
    np.testing.assert_array_equal(np.asarray(sums)[absent], 0)


def test_the_sum_of_a_row_does_not_depend_on_the_other_rows():
    # A difference of running sums would lose the digits of what comes after large rows.
    values, others = normal(0, 50, 2), 1e6 * normal(1, 50, 2)
    sums = jax.jit(sum_rows, static_argnums=0)
    alone = sums(3, jnp.full(50, 1), values)
    below = sums(3, np.repeat([0, 1], 50), jnp.concatenate([others, values]))
    np.testing.assert_allclose(alone[1], below[1], rtol=1e-5)


def test_rows_on_a_gpu_have_the_gradient_of_a_lookup(monkeypatch):
    table, indices = normal(0, 6, 4), jnp.array([[1, 3, 3], [0, 1, 1]])
    weight = normal(1, 2, 3, 4)

    def gradient():
        total = lambda table: jnp.sum(jnp.sin(take_rows(table, indices)) * weight)  # noqa: E731
        return jax.jit(jax.grad(total))(table)

    expected = gradient()
    monkeypatch.setattr(jax, 'default_backend', lambda: 'gpu')
    scattered = jax.make_jaxpr(
        lambda table: jax.vjp(lambda t: take_rows(t, indices), table)[1](weight)
    )
    assert 'scatter' not in str(scattered(table))
    np.testing.assert_allclose(gradient(), expected, atol=1e-6)


def test_the_gradient_of_a_bias_is_summed_up_in_float32():
    x, bias = jnp.zeros((257, 1, 3), jnp.bfloat16), jnp.array([[0.5, 1.0, 2.0]])
    added, gradient = jax.vjp(add_bias, x, bias)
    assert added.dtype == jnp.bfloat16
    assert added[7].tolist() == [[0.5, 1.0, 2.0]]
    of_x, of_bias = gradient(jnp.ones_like(added))
    assert of_bias.tolist() == [[257.0] * 3]  # which bfloat16 would round to 256
    assert of_x.tolist() == jnp.ones_like(x).tolist()


def of_part(weights, x, powers):
    """A scalar, and sums of two kinds."""
    y = jnp.sin(x @ weights['matrix'])
    return jnp.sum(y ** powers[:, None]), {'x': jnp.sum(x), 'parts': jnp.int32(1)}


WEIGHTS = {'matrix': normal(0, 4, 5), 'none': None}
PARTS = normal(1, 3, 2, 4), jnp.array([[1, 2], [3, 1], [2, 2]])


@pytest.mark.parametrize('dtype', [jnp.float32, jnp.bfloat16])
def test_relu_and_its_derivatives_are_those_of_jax(dtype):
    x = jnp.asarray([-2.0, -0.0, 0.0, 1e-30, 3.0, jnp.inf], dtype)
    tangent = jnp.arange(1, 7).astype(dtype)
    for mine, theirs in zip(
        jax.jvp(relu, [x], [tangent]), jax.jvp(jax.nn.relu, [x], [tangent]), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(*(jax.vjp(f, x)[1](tangent)[0] for f in (relu, jax.nn.relu)))


def test_the_gradient_of_relu_looks_at_what_comes_out():
    jaxpr = jax.make_jaxpr(jax.grad(lambda x: jnp.sum(relu(x))))(jnp.ones(3)).jaxpr
    (call,) = [e for e in jaxpr.eqns if e.primitive.name == 'custom_jvp_call']
    (comparison,) = [e for e in jaxpr.eqns if e.primitive.name == 'ne']
    assert comparison.invars[0] is call.outvars[0]


def test_parts_add_up():
    value, rest = chunked_sum(of_part, WEIGHTS, *PARTS)
    expected = sum(of_part(WEIGHTS, *part)[0] for part in zip(*PARTS, strict=True))
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    np.testing.assert_allclose(rest['x'], PARTS[0].sum(), rtol=1e-5)
    assert int(rest['parts']) == 3


@pytest.mark.parametrize('count', [1, 3])
def test_the_gradient_of_parts_is_that_of_their_sum(count):
    x, powers = PARTS[0][:count], PARTS[1][:count]

    def plain(weights, x):
        return sum(of_part(weights, *part)[0] for part in zip(x, powers, strict=True)) ** 2

    def in_parts(weights, x):
        return chunked_sum(of_part, weights, x, powers)[0] ** 2

    found, expected = (jax.grad(f, argnums=(0, 1))(WEIGHTS, x) for f in (in_parts, plain))
    np.testing.assert_allclose(found[0]['matrix'], expected[0]['matrix'], rtol=1e-5)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5)


def test_gradients_of_parts_are_added_up_in_float32():
    # In bfloat16 256 is as far as one gets in steps of one.
    x = jnp.ones((300, 1), jnp.bfloat16)

    def half_of_all(weight):
        product = lambda weight, x, _: (jnp.sum(weight * x), None)  # noqa: E731
        return chunked_sum(product, weight, x, None)[0] / 2

    assert float(jax.grad(half_of_all)(jnp.bfloat16(1))) == 150.0
