"""Label-smoothed cross-entropy (paper, section 5.4; Szegedy et al., 2016, section 7)."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from transformer_jax.model.kernels.logit_sums import log_sum_exp_and_mean


class LossSums(NamedTuple):
    """Sums over target tokens. To get a mean, divide once, at the end, or call `mean`.

    `jax.grad` needs one number: let the function return `label_smoothed_loss(...).mean()`.

    Attributes:
      loss: [] float32, label-smoothed cross-entropy, in nats.
      nll: [] float32, negative log-likelihood, in nats; exp(nll / tokens) is the perplexity.
      tokens: [] int32, number of target tokens, including EOS.
    """

    loss: jax.Array
    nll: jax.Array
    tokens: jax.Array

    @classmethod
    def zero(cls) -> 'LossSums':
        """Return sums of nothing."""
        return cls(jnp.float32(0), jnp.float32(0), jnp.int32(0))

    def mean(self) -> jax.Array:
        """Return [] float32, the loss per target token, in nats; 0 if there is no token."""
        return self.loss / jnp.maximum(self.tokens, 1)

    def __str__(self) -> str:
        # jax.grad shows this in its error if a function returns sums.
        return f'{self!r}, of which .mean() is the loss per token'

    def __add__(self, other: 'LossSums') -> 'LossSums':
        return LossSums(*(a + b for a, b in zip(self, other, strict=True)))


def label_smoothed_loss(
    logits: jax.Array,
    targets: jax.Array,
    label_smoothing: float = 0.0,
    mask: jax.Array | None = None,
) -> LossSums:
    """Return the cross-entropy with 1 - eps on the target and eps spread evenly over all tokens.

    The gradient is computed from the logits again, because JAX would keep an array of their size.
    `label_smoothed_loss(...).mean()` is the loss to take the gradient of.

    Args:
      logits: [B, T, V].
      targets: [B, T] int ids.
      label_smoothing: eps, from 0 to 1.
      mask: [B, T] bool, True at real targets; the others add nothing, whatever their id. None means
        those that are not 0, the id of padding.

    Returns:
      `LossSums` over all real targets; NaN if one is negative, or V or more.

    Raises:
      ValueError: if a shape is another, targets are not integers, eps is out of range, or the mask
        is not bool.
    """
    logits, targets = jnp.asarray(logits), jnp.asarray(targets)
    if logits.shape[:-1] != targets.shape or targets.ndim != 2:
        raise ValueError(
            f'logits have shape {logits.shape} and targets {targets.shape}: they must be [batch, '
            'length, vocabulary] and [batch, length].'
        )
    if not jnp.issubdtype(targets.dtype, jnp.integer):
        raise ValueError(f'targets are {targets.dtype}: they must be integer ids.')
    if isinstance(label_smoothing, int | float) and not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f'label_smoothing={label_smoothing} must be from 0 to 1.')
    if mask is not None:
        mask = jnp.asarray(mask)
        if mask.dtype != bool or mask.shape != targets.shape:
            raise ValueError(
                f'mask is {mask.dtype}{list(mask.shape)}: it must be bool, shaped like targets, '
                f'{list(targets.shape)}, True at real targets.'
            )
    loss_BT, nll_BT = _cross_entropies(label_smoothing, logits, targets)
    real_BT = targets != 0 if mask is None else mask
    return LossSums(
        jnp.sum(jnp.where(real_BT, loss_BT, 0.0)),
        jnp.sum(jnp.where(real_BT, nll_BT, 0.0)),
        jnp.sum(real_BT, dtype=jnp.int32),
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _cross_entropies(
    label_smoothing: float, logits: jax.Array, targets: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return label-smoothed cross-entropy and negative log-likelihood, [B, T] each."""
    return _cross_entropies_forward(label_smoothing, logits, targets)[0]


def _cross_entropies_forward(label_smoothing, logits, targets):
    normalizer_BT, mean_BT = log_sum_exp_and_mean(logits)
    # A target outside the vocabulary gives NaN; a negative index would count from the end.
    known_BT = jnp.where(targets < 0, logits.shape[-1], targets)
    # If devices hold parts of the vocabulary, each looks up its own targets: no logits travel.
    target_BT = jnp.take_along_axis(logits, known_BT[..., None], axis=-1, mode='fill')[..., 0]
    nll_BT = normalizer_BT - target_BT.astype(jnp.float32)
    loss_BT = nll_BT
    if label_smoothing:  # otherwise, logits may be -inf
        # The mean over v of -log p(v), without an array of the log-probabilities.
        uniform_BT = normalizer_BT - mean_BT
        loss_BT = (1.0 - label_smoothing) * nll_BT + label_smoothing * uniform_BT
    return (loss_BT, nll_BT), (logits, targets, normalizer_BT)


def _cross_entropies_backward(label_smoothing, residuals, gradients):
    logits, targets, normalizer_BT = residuals
    by_loss_BT1, by_nll_BT1 = (gradient[..., None] for gradient in gradients)
    probabilities_BTV = jnp.exp(logits.astype(jnp.float32) - normalizer_BT[..., None])
    is_target_BTV = jnp.arange(logits.shape[-1])[None, None] == targets[..., None]
    uniform = label_smoothing / logits.shape[-1]
    by_logits_BTV = (by_loss_BT1 + by_nll_BT1) * probabilities_BTV - by_loss_BT1 * uniform
    by_target_BT1 = by_loss_BT1 * (1.0 - label_smoothing) + by_nll_BT1
    by_logits_BTV -= jnp.where(is_target_BTV, by_target_BT1, 0.0)
    return by_logits_BTV.astype(logits.dtype), None


_cross_entropies.defvjp(_cross_entropies_forward, _cross_entropies_backward)


@jax.custom_vjp
def symmetric_divergence(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Return (KL(P || Q) + KL(Q || P)) / 2, summed over real targets.

    This is equation 3 of Liang et al. (2021). The gradient is computed from the logits again,
    because JAX would keep three float32 arrays of their size.

    Args:
      logits: [2B, T, V], all finite; rows 2i and 2i + 1 are P and Q of sentence i.
      targets: [B, T] int32 ids; 0 is padding and adds nothing.

    Returns:
      [] float32, in nats.
    """
    return _divergence_forward(logits, targets)[0]


def _log_ratios(logits: jax.Array, normalizer_B2T: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return [B, 2, T, V] log-probabilities of each pass, and their excess over the other pass."""
    pairs_B2TV = logits.astype(jnp.float32).reshape(*normalizer_B2T.shape, -1)
    offset_B2T = normalizer_B2T - normalizer_B2T[:, ::-1]
    log_ratio_B2TV = pairs_B2TV - pairs_B2TV[:, ::-1] - offset_B2T[..., None]
    return pairs_B2TV - normalizer_B2T[..., None], log_ratio_B2TV


def _divergence_forward(logits, targets):
    normalizer_BT = jax.nn.logsumexp(logits.astype(jnp.float32), axis=-1)
    normalizer_B2T = normalizer_BT.reshape(targets.shape[0], 2, -1)
    log_p_B2TV, log_ratio_B2TV = _log_ratios(logits, normalizer_B2T)
    kl_B2T = jnp.sum(jnp.exp(log_p_B2TV) * log_ratio_B2TV, axis=-1)
    real_B1T = (targets != 0)[:, None]
    divergence = jnp.sum(jnp.where(real_B1T, kl_B2T, 0.0)) / 2
    return divergence, (logits, targets, normalizer_B2T, kl_B2T)


def _divergence_backward(residuals, gradient):
    logits, targets, normalizer_B2T, kl_B2T = residuals
    log_p_B2TV, log_ratio_B2TV = _log_ratios(logits, normalizer_B2T)
    p_B2TV, q_B2TV = jnp.exp(log_p_B2TV), jnp.exp(log_p_B2TV - log_ratio_B2TV)
    # For P's logits, the gradient of KL(P || Q) is p (log p - log q - KL), of KL(Q || P) p - q.
    by_logits_B2TV = p_B2TV * (log_ratio_B2TV - kl_B2T[..., None] + 1.0) - q_B2TV
    real_B1T1 = (targets != 0)[:, None, :, None]
    scaled_B2TV = jnp.where(real_B1T1, by_logits_B2TV * (gradient / 2), 0.0)
    return scaled_B2TV.reshape(logits.shape).astype(logits.dtype), None


symmetric_divergence.defvjp(_divergence_forward, _divergence_backward)
