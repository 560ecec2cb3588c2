"""ReLU and its derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_jax.model.kernels.relu import relu

X = jnp.array([-2.0, -0.0, 0.0, 0.5, 3.0])


def test_it_is_the_positive_part():
    np.testing.assert_array_equal(relu(X), [0, 0, 0, 0.5, 3])


@pytest.mark.parametrize('function', [relu, jax.nn.relu])
def test_both_derivatives_are_those_of_jax(function):
    tangent = jnp.arange(1.0, 6.0)
    np.testing.assert_array_equal(jax.grad(lambda x: function(x) @ tangent)(X), [0, 0, 0, 4, 5])
    np.testing.assert_array_equal(jax.jvp(function, (X,), (tangent,))[1], [0, 0, 0, 4, 5])


def test_nan_stays():
    assert jnp.isnan(relu(jnp.array([jnp.nan]))).all()
