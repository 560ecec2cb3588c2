"""Dropout: how many elements, which ones, and how the rest is scaled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_jax.model.dropout import Dropout
from transformer_jax.model.kernels.dropout import dropout


@pytest.mark.parametrize('rate', [-0.1, 1.0, 1.5])
def test_a_rate_out_of_range_is_an_error(rate):
    with pytest.raises(ValueError, match=f'the dropout rate {rate} must be at least 0 and below 1'):
        dropout(jnp.ones((1, 4)), rate, jax.random.key(0))


def test_a_rate_near_one_keeps_almost_nothing():
    assert float(jnp.count_nonzero(dropout(jnp.ones((4, 8)), 1 - 1e-7, jax.random.key(0)))) <= 1


@pytest.mark.parametrize('rate', [0.1, 0.3, 0.5])
def test_the_rate_is_the_share_of_zeros(rate):
    x = dropout(jnp.ones((400, 1000)), rate, jax.random.key(0))
    assert np.mean(x == 0) == pytest.approx(rate, abs=0.003)  # four standard deviations


def test_kept_elements_are_scaled_so_that_the_mean_stays():
    x = dropout(jnp.full((2, 64), 3.0), 0.25, jax.random.key(0))
    assert set(np.unique(x)) == {0.0, 4.0}


def test_elements_are_dropped_independently():
    kept = np.asarray(dropout(jnp.ones((5000, 8)), 0.5, jax.random.key(1)) != 0, np.float32)
    # Elements that share a word of random bits do not agree more often than others.
    assert np.abs(np.corrcoef(kept, rowvar=False) - np.eye(8)).max() < 0.06


@pytest.mark.parametrize('width', [1, 2, 3, 5, 7])
def test_any_width_works(width):
    x = dropout(jnp.ones((1000, width)), 0.5, jax.random.key(0))
    assert x.shape == (1000, width)
    np.testing.assert_allclose(np.mean(x == 0, axis=0), 0.5, atol=0.07)


def test_only_the_key_decides():
    x = jnp.ones((4, 32))
    first, again = (dropout(x, 0.5, jax.random.key(3)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert (first != dropout(x, 0.5, jax.random.key(4))).any()


def test_other_kinds_of_key_work():
    x = jnp.ones((4, 32))
    for key in (jax.random.key(0, impl='rbg'), jax.random.PRNGKey(0)):
        assert 0 < (dropout(x, 0.5, key) == 0).sum() < x.size


def test_the_gradient_passes_through_kept_elements_only():
    key = jax.random.key(0)
    gradient = jax.grad(lambda x: dropout(x, 0.5, key).sum())(jnp.ones((4, 32)))
    np.testing.assert_array_equal(gradient, dropout(jnp.ones((4, 32)), 0.5, key))


def test_the_dtype_stays_bfloat16():
    assert dropout(jnp.ones((2, 4), jnp.bfloat16), 0.5, jax.random.key(0)).dtype == jnp.bfloat16


def test_a_rate_of_zero_or_deterministic_returns_the_input():
    x = jnp.ones((2, 4))
    assert Dropout(0.0).apply({}, x, deterministic=False) is x
    assert Dropout(0.5).apply({}, x, deterministic=True) is x
