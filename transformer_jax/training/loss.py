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


def symmetric_divergence(
    logits: jax.Array, other_logits: jax.Array, targets: jax.Array
) -> jax.Array:
    """(KL(P || Q) + KL(Q || P)) / 2, summed over real targets (Liang et al., 2021, equation 3).

    Args:
      logits: [B, T, V], of P.
      other_logits: [B, T, V], of Q.
      targets: [B, T] int32 ids; 0 is padding and counts for nothing.

    Returns:
      [] float32, in nats.
    """
    log_p_BTV, log_q_BTV = (
        jax.nn.log_softmax(x.astype(jnp.float32), axis=-1) for x in (logits, other_logits)
    )
    # KL(P || Q) + KL(Q || P) = sum of (p - q) (log p - log q).
    terms_BTV = (jnp.exp(log_p_BTV) - jnp.exp(log_q_BTV)) * (log_p_BTV - log_q_BTV)
    return jnp.sum(jnp.where((targets != 0)[..., None], terms_BTV, 0.0)) / 2
