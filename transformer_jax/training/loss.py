"""Label-smoothed cross-entropy (paper, section 5.4; Szegedy et al., 2016, section 7)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class LossSums(NamedTuple):
    """Sums over target tokens; whoever wants a mean divides once, at the end.

    Attributes:
      loss: [] float32, label-smoothed cross-entropy, in nats.
      nll: [] float32, negative log-likelihood, in nats; exp(nll / tokens) is the perplexity.
      tokens: [] int32, target tokens, the end marks included.
    """

    loss: jax.Array
    nll: jax.Array
    tokens: jax.Array

    @classmethod
    def zero(cls) -> 'LossSums':
        """Nothing summed yet."""
        return cls(jnp.float32(0), jnp.float32(0), jnp.int32(0))

    def __add__(self, other: 'LossSums') -> 'LossSums':
        return LossSums(*(a + b for a, b in zip(self, other, strict=True)))


def label_smoothed_loss(
    logits: jax.Array, targets: jax.Array, label_smoothing: float = 0.0
) -> LossSums:
    """Cross-entropy against (1 - eps) on the target and eps spread evenly over the vocabulary.

    Args:
      logits: [B, T, V].
      targets: [B, T] int32 ids; 0 is padding and counts for nothing.
      label_smoothing: eps, from 0 to 1.

    Returns:
      `LossSums` over all real targets.
    """
    logits_BTV = logits.astype(jnp.float32)
    normalizer_BT = jax.nn.logsumexp(logits_BTV, axis=-1)
    # A masked sum, not a lookup: devices that hold a part of the vocabulary each can take it there.
    is_target_BTV = jnp.arange(logits.shape[-1])[None, None] == targets[..., None]
    target_BT = jnp.sum(jnp.where(is_target_BTV, logits_BTV, 0.0), axis=-1)
    nll_BT = normalizer_BT - target_BT
    # -mean over v of log p(v), without ever making the log-probabilities.
    uniform_BT = normalizer_BT - jnp.mean(logits_BTV, axis=-1)
    loss_BT = (1.0 - label_smoothing) * nll_BT + label_smoothing * uniform_BT
    real_BT = targets != 0
    return LossSums(
        jnp.sum(jnp.where(real_BT, loss_BT, 0.0)),
        jnp.sum(jnp.where(real_BT, nll_BT, 0.0)),
        jnp.sum(real_BT, dtype=jnp.int32),
    )


@jax.custom_vjp
def symmetric_divergence(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """(KL(P || Q) + KL(Q || P)) / 2, summed over real targets (Liang et al., 2021, equation 3).

    Its gradient is worked out from the logits again: JAX would keep three float32 arrays as large
    as they are.

    Args:
      logits: [2B, T, V]; rows 2i and 2i + 1 are P and Q of sentence i.
      targets: [B, T] int32 ids; 0 is padding and counts for nothing.

    Returns:
      [] float32, in nats.
    """
    return _divergence_forward(logits, targets)[0]


def _log_probs_and_others(
    logits: jax.Array, normalizer_B2T: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """[B, 2, T, V] log-probabilities of each pass, and of the other one."""
    pairs_B2TV = logits.astype(jnp.float32).reshape(*normalizer_B2T.shape, -1)
    log_p_B2TV = pairs_B2TV - normalizer_B2T[..., None]
    return log_p_B2TV, log_p_B2TV[:, ::-1]


def _divergence_forward(logits: jax.Array, targets: jax.Array) -> tuple[jax.Array, tuple]:
    normalizer_B2T = jax.nn.logsumexp(logits.astype(jnp.float32), axis=-1).reshape(
        len(targets), 2, -1
    )
    log_p_B2TV, log_q_B2TV = _log_probs_and_others(logits, normalizer_B2T)
    kl_B2T = jnp.sum(jnp.exp(log_p_B2TV) * (log_p_B2TV - log_q_B2TV), axis=-1)
    real_B1T = (targets != 0)[:, None]
    divergence = jnp.sum(jnp.where(real_B1T, kl_B2T, 0.0)) / 2
    return divergence, (logits, targets, normalizer_B2T, kl_B2T)


def _divergence_backward(residuals: tuple, gradient: jax.Array) -> tuple[jax.Array, None]:
    logits, targets, normalizer_B2T, kl_B2T = residuals
    log_p_B2TV, log_q_B2TV = _log_probs_and_others(logits, normalizer_B2T)
    p_B2TV, q_B2TV = jnp.exp(log_p_B2TV), jnp.exp(log_q_B2TV)
    # By P's logits, KL(P || Q) has the gradient p (log p - log q - KL) and KL(Q || P) has p - q.
    by_logits_B2TV = p_B2TV * (log_p_B2TV - log_q_B2TV - kl_B2T[..., None]) + p_B2TV - q_B2TV
    real_B1T1 = (targets != 0)[:, None, :, None]
    scaled_B2TV = jnp.where(real_B1T1, by_logits_B2TV * (gradient / 2), 0.0)
    return scaled_B2TV.reshape(logits.shape).astype(logits.dtype), None


symmetric_divergence.defvjp(_divergence_forward, _divergence_backward)
