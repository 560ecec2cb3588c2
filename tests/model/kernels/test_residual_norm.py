"""The fused residual norm is LayerNorm(x + Dropout(y)), and so are its gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closeness import assert_close
from flax import linen as nn

from transformer_jax.model.kernels.dropout import drop, keep_bits
from transformer_jax.model.kernels.residual_norm import residual_norm

EPSILON = 1e-6


def inputs(dtype=jnp.float32):
    dice = np.random.default_rng(0)
    x, y = (jnp.asarray(dice.normal(size=(3, 5, 16)), dtype) for _ in range(2))
    scale, bias = (jnp.asarray(dice.normal(size=16), jnp.float32) for _ in range(2))
    return x, y, scale, bias


def fused(x, y, scale, bias, keep=None):
    return residual_norm(EPSILON, x, y, keep, scale, bias)


def by_flax(x, y, scale, bias, keep=None):
    norm = nn.LayerNorm(epsilon=EPSILON)
    return norm.apply({'params': {'scale': scale, 'bias': bias}}, x + drop(y, keep))


@pytest.mark.parametrize('rate', [0.0, 0.5])
def test_the_value_and_all_gradients_are_those_of_flax(rate):
    keep = keep_bits((3, 5, 16), rate, jax.random.key(1))
    weights = jnp.asarray(np.random.default_rng(2).normal(size=(3, 5, 16)), jnp.float32)

    def loss(function):
        return lambda *arrays: jnp.sum(weights * function(*arrays, keep))

    found, expected = (
        jax.value_and_grad(loss(function), argnums=(0, 1, 2, 3))(*inputs())
        for function in (fused, by_flax)
    )
    jax.tree.map(assert_close, found, expected)


def test_the_result_and_gradients_have_the_dtype_of_the_inputs():
    x, y, scale, bias = inputs(jnp.bfloat16)
    output, backward = jax.vjp(fused, x, y, scale, bias)
    assert output.dtype == jnp.bfloat16
    assert [g.dtype for g in backward(output)] == [jnp.bfloat16] * 2 + [jnp.float32] * 2
    exact = by_flax(*(a.astype(jnp.float32) for a in (x, y, scale, bias)))
    # The sum and the result are rounded to eight bits each.
    np.testing.assert_allclose(output.astype(jnp.float32), exact, rtol=0, atol=0.05)


def test_equal_elements_have_no_negative_variance():
    x = jnp.full((1, 1, 16), 1000.1)
    assert np.isfinite(fused(x, x, jnp.ones(16), jnp.zeros(16))).all()
