"""Gradients that suit GPUs: what is multiplied in which dtype, and sums in one order only."""

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_jax.model import gradients
from transformer_jax.model.gradients import float32_einsum, sum_rows, take_rows


def normal(seed, *shape, dtype=jnp.float32):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def products(function, *arguments):
    """Dtypes of all matrix products of a function's gradient: what goes in, what comes out."""
    found = []

    def look(jaxpr):
        for equation in jaxpr.eqns:
            if equation.primitive.name == 'dot_general':
                variables = *equation.invars, *equation.outvars
                found.append(tuple(variable.aval.dtype.name for variable in variables))
            for inner in jax.extend.core.jaxprs_in_params(equation.params):
                look(inner)

    look(jax.make_jaxpr(jax.grad(function, argnums=(0, 1)))(*arguments).jaxpr)
    return found


def test_gradients_of_bfloat16_are_products_of_bfloat16():
    a, b = normal(0, 3, 4, dtype=jnp.bfloat16), normal(1, 5, 4, dtype=jnp.bfloat16)
    weight = normal(2, 3, 5)
    found = products(lambda a, b: jnp.sum(float32_einsum('PD,VD->PV', a, b) * weight), a, b)
    assert found == [
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
    # Sums in another order would round otherwise.
    values, others = normal(0, 50, 2), normal(1, 50, 2)
    alone = sum_rows(3, jnp.full(50, 1), values)
    below = sum_rows(3, jnp.repeat(jnp.array([0, 1]), 50), jnp.concatenate([others, values]))
    np.testing.assert_allclose(alone[1], below[1], rtol=1e-5)
    np.testing.assert_array_equal(alone, sum_rows(3, jnp.full(50, 1), values))


def test_rows_on_a_gpu_have_the_gradient_of_a_lookup(monkeypatch):
    table, indices = normal(0, 6, 4), jnp.array([[1, 3, 3], [0, 1, 1]])
    weight = normal(1, 2, 3, 4)

    def gradient():
        return jax.grad(lambda table: jnp.sum(jnp.sin(take_rows(table, indices)) * weight))(table)

    expected = gradient()
    monkeypatch.setattr(gradients.jax, 'default_backend', lambda: 'gpu')
    scattered = jax.make_jaxpr(
        lambda table: jax.vjp(lambda t: take_rows(t, indices), table)[1](weight)
    )
    assert 'scatter' not in str(scattered(table))
    np.testing.assert_allclose(gradient(), expected, atol=1e-6)
