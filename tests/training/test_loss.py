"""The label-smoothed loss and the divergence, by hand and by formula."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closeness import assert_close

from transformer_jax.training.loss import LossSums, label_smoothed_loss, symmetric_divergence

LOGITS = jnp.log(jnp.array([[[0.1, 0.2, 0.7], [0.25, 0.25, 0.5]]]))


def test_without_smoothing_the_loss_is_the_negative_log_likelihood():
    sums = label_smoothed_loss(LOGITS, jnp.array([[2, 1]]))
    assert float(sums.loss) == pytest.approx(-np.log(0.7) - np.log(0.25), rel=1e-5)
    assert float(sums.nll) == pytest.approx(float(sums.loss), rel=1e-5)
    assert int(sums.tokens) == 2


def test_without_smoothing_logits_may_be_minus_infinity():
    sums = label_smoothed_loss(LOGITS.at[..., 0].set(-jnp.inf), jnp.array([[2, 1]]))
    assert float(sums.loss) == pytest.approx(-np.log(0.7 / 0.9) - np.log(0.25 / 0.75), rel=1e-5)


def test_smoothing_by_hand():
    # 0.9 of the mass on the target, 0.1 in three equal parts: Szegedy et al. (2016), section 7.
    sums = label_smoothed_loss(LOGITS[:, :1], jnp.array([[2]]), 0.1)
    by_hand = -(0.9 * np.log(0.7) + 0.1 / 3 * np.log(0.1 * 0.2 * 0.7))
    assert float(sums.loss) == pytest.approx(by_hand, rel=1e-5)
    assert float(sums.nll) == pytest.approx(-np.log(0.7), rel=1e-5)


def test_padding_adds_nothing_to_the_loss():
    padded = label_smoothed_loss(LOGITS, jnp.array([[2, 0]]), 0.1)
    alone = label_smoothed_loss(LOGITS[:, :1], jnp.array([[2]]), 0.1)
    assert [float(x) for x in padded] == pytest.approx([float(x) for x in alone], rel=1e-5)


@pytest.mark.parametrize('target', [-1, -100, 4])
def test_a_target_outside_the_vocabulary_makes_the_loss_nan(target):
    targets = jnp.array([[1, target]])
    assert np.isnan(label_smoothed_loss(jnp.zeros((1, 2, 4)), targets, 0.1).loss)


def test_equal_logits_cost_the_log_of_the_vocabulary():
    sums = label_smoothed_loss(jnp.zeros((1, 1, 50)), jnp.array([[7]]), 0.3)
    assert float(sums.loss) == pytest.approx(np.log(50), rel=1e-5)


def test_a_batch_of_padding_has_finite_gradients():
    gradient = jax.grad(lambda x: label_smoothed_loss(x, jnp.zeros((1, 2), int), 0.1).loss)(LOGITS)
    assert float(jnp.abs(gradient).max()) == 0.0


def test_the_gradients_equal_those_of_the_formula():
    logits = jax.random.normal(jax.random.key(0), (2, 3, 5))
    targets = jnp.array([[1, 4, 0], [2, 0, 0]])

    def formula(logits):
        log_p = jax.nn.log_softmax(logits)
        nll = -jnp.sum(log_p * jax.nn.one_hot(targets, 5), axis=-1)
        loss = 0.8 * nll - 0.2 * jnp.mean(log_p, axis=-1)
        real = targets != 0
        return jnp.sum(loss * real), jnp.sum(nll * real)

    def gradient(sums):
        return jax.jit(jax.grad(lambda x: 3.0 * sums(x)[0] + 0.5 * sums(x)[1]))(logits)

    found = gradient(lambda x: label_smoothed_loss(x, targets, 0.2))
    assert_close(found, gradient(formula))


def test_sums_add():
    total = LossSums.zero() + LossSums(jnp.float32(1), jnp.float32(2), jnp.int32(3))
    assert [float(x) for x in total + total] == [2.0, 4.0, 6.0]


def test_divergence_by_hand():
    # P = (0.5, 0.5), Q = (0.9, 0.1): the mean of KL(P || Q) and KL(Q || P).
    p, q = (jnp.log(jnp.array([row, row])) for row in ([0.5, 0.5], [0.9, 0.1]))
    forth = 0.5 * np.log(0.5 / 0.9) + 0.5 * np.log(0.5 / 0.1)
    back = 0.9 * np.log(0.9 / 0.5) + 0.1 * np.log(0.1 / 0.5)
    # The second position is padding.
    found = symmetric_divergence(jnp.stack([p, q]), jnp.array([[1, 0]]))
    assert float(found) == pytest.approx((forth + back) / 2, rel=1e-5)
    assert float(symmetric_divergence(jnp.stack([p, p]), jnp.array([[1, 1]]))) == 0.0


def test_the_gradient_of_the_divergence_equals_that_of_its_formula():
    logits = jax.random.normal(jax.random.key(0), (6, 4, 5))  # three sentences, two passes each
    targets = jnp.array([[1, 2, 3, 4], [1, 2, 0, 0], [0, 0, 0, 0]])

    def formula(logits):
        log_p, log_q = (jax.nn.log_softmax(x) for x in (logits[::2], logits[1::2]))
        terms = jnp.exp(log_p) * (log_p - log_q) + jnp.exp(log_q) * (log_q - log_p)
        return jnp.sum(terms * (targets != 0)[..., None]) / 2

    found, wanted = (
        jax.jit(jax.value_and_grad(lambda x, f=f: 3.0 * f(x)))(logits)
        for f in (lambda x: symmetric_divergence(x, targets), formula)
    )
    assert float(found[0]) == pytest.approx(float(wanted[0]), rel=1e-5)
    assert_close(found[1], wanted[1])


def test_the_mean_has_a_gradient_and_sums_say_how_to_get_one():
    logits, targets = jnp.zeros((1, 2, 4)), jnp.array([[1, 0]])
    assert float(label_smoothed_loss(logits, targets).mean()) == pytest.approx(np.log(4), rel=1e-5)
    gradient = jax.grad(lambda x: label_smoothed_loss(x, targets, 0.1).mean())(logits)
    assert gradient.shape == logits.shape
    with pytest.raises(TypeError, match=r'of which \.mean\(\) is the loss per token'):
        jax.grad(lambda x: label_smoothed_loss(x, targets, 0.1))(logits)


def test_a_mask_replaces_padding_by_0():
    logits = jnp.asarray(np.random.default_rng(0).normal(size=(1, 3, 4)), jnp.float32)

    def loss(logits, targets, mask):
        return label_smoothed_loss(logits, targets, 0.1, mask).mean()

    usual = jax.value_and_grad(loss)(logits, jnp.array([[2, 3, 0]]), None)
    masked = jax.value_and_grad(loss)(
        logits, jnp.array([[2, 3, -100]]), jnp.array([[True, True, False]])
    )
    for one, other in zip(usual, masked, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    'targets, options, message',
    [
        ([[1]], {}, r'logits have shape \(1, 2, 4\) and targets \(1, 1\)'),
        ([[1.0, 2.0]], {}, 'targets are float32: they must be integer ids'),
        ([[1, 2]], {'label_smoothing': 10}, 'label_smoothing=10 must be from 0 to 1'),
        ([[1, 2]], {'mask': [[1, 0]]}, r'mask is int32\[1, 2\]: it must be bool'),
    ],
)
def test_what_is_no_loss_is_named(targets, options, message):
    with pytest.raises(ValueError, match=message):
        label_smoothed_loss(jnp.zeros((1, 2, 4)), targets, **options)
