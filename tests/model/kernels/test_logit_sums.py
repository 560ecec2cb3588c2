"""The sums over the vocabulary, with and without a pass for the maximum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closeness import assert_close
from tiny_model import normal

from transformer_jax.model.kernels.logit_sums import log_sum_exp_and_mean

LOGITS = 30 * normal(0, 2, 3, 50)


@pytest.mark.parametrize('platform', ['cpu', 'gpu'])
def test_they_are_those_of_scipy(platform, monkeypatch):
    monkeypatch.setattr(jax, 'default_backend', lambda: platform)
    log_sum, mean = log_sum_exp_and_mean(LOGITS)
    assert_close(log_sum, jax.scipy.special.logsumexp(LOGITS, axis=-1))
    assert_close(mean, LOGITS.mean(-1), 1e-4)  # a small sum of large terms


@pytest.mark.parametrize('platform', ['cpu', 'gpu'])
@pytest.mark.parametrize(
    ('row', 'expected'), [([-jnp.inf, 2, -jnp.inf], 2), ([jnp.nan, 1, 2], jnp.nan)]
)
def test_forbidden_tokens_count_nothing_and_nan_shows(platform, row, expected, monkeypatch):
    monkeypatch.setattr(jax, 'default_backend', lambda: platform)
    log_sum, _ = log_sum_exp_and_mean(jnp.array([row], jnp.float32))
    np.testing.assert_allclose(log_sum, [expected])


@pytest.mark.parametrize('platform', ['cpu', 'gpu'])
def test_bfloat16_logits_are_summed_in_float32(platform, monkeypatch):
    monkeypatch.setattr(jax, 'default_backend', lambda: platform)
    log_sum, mean = log_sum_exp_and_mean(jnp.zeros((1, 1000), jnp.bfloat16))
    assert log_sum.dtype == mean.dtype == jnp.float32
    np.testing.assert_allclose(log_sum, np.log([1000.0]), rtol=1e-6)
