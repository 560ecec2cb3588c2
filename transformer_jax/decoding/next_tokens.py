"""Which tokens may come next, and how likely they are: never padding, and at the limit only EOS."""

import jax
import jax.numpy as jnp
from jax import lax

_GROUP = 128  # tokens per group of `top_k_tokens`


def next_log_probs(
    logits: jax.Array, allowed: jax.Array, at_limit: jax.Array, eos_id: int, pad_id: int = 0
) -> jax.Array:
    """Return the log-probabilities of all tokens, -inf for those that may not come next.

    Args:
      logits: [R, V].
      allowed: [R, V], the logits under the constraints (`Constraints.apply`).
      at_limit: [R] bool.
      eos_id: the token that ends an output.
      pad_id: padding; may be none of the V tokens.

    Returns:
      [R, V] float32, not normalised again.
    """
    log_probs_RV = jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)
    ids_V = jnp.arange(logits.shape[-1])
    is_allowed_RV = (ids_V != pad_id)[None] & (allowed > -jnp.inf)
    is_allowed_RV = jnp.where(at_limit[:, None], (ids_V == eos_id)[None], is_allowed_RV)
    return jnp.where(is_allowed_RV, log_probs_RV, -jnp.inf)


def top_k_tokens(logits: jax.Array, count: int, pad_id: int = 0) -> tuple[jax.Array, jax.Array]:
    """Return the highest logits of each row, as `jax.lax.top_k` does, but never padding.

    It searches only the groups of tokens with the highest maxima, which takes one pass over the
    logits; sorting takes many.

    Args:
      logits: [R, V].
      count: C, at most V.
      pad_id: padding; may be none of the V tokens.

    Returns:
      Logits [R, C], descending, and tokens [R, C] int32; -inf if only padding is left.
    """
    rows, vocab_size = logits.shape
    if 0 < pad_id < vocab_size:
        logits = logits.at[:, pad_id].set(-jnp.inf)
    groups = vocab_size // _GROUP

    tokens_RN = jnp.broadcast_to(jnp.arange(vocab_size, dtype=jnp.int32)[None], logits.shape)
    logits_RN = logits
    if groups > count:
        even = groups * _GROUP
        maxima_RG = jnp.max(logits[:, :even].reshape(rows, groups, _GROUP), axis=-1)
        if pad_id == 0:  # without a copy of all logits
            maxima_RG = maxima_RG.at[:, 0].set(jnp.max(logits[:, 1:_GROUP], axis=-1))
        _, best_RC = lax.top_k(maxima_RG, count)
        # Sorted, so that the first of equal logits wins, as in the whole row.
        best_RC = jnp.sort(best_RC, axis=-1)
        within_RCN = best_RC[..., None] * _GROUP + jnp.arange(_GROUP, dtype=jnp.int32)[None, None]
        tokens_RN = jnp.concatenate([within_RCN.reshape(rows, -1), tokens_RN[:, even:]], axis=1)
        logits_RN = jnp.take_along_axis(logits, tokens_RN, axis=1)
    logits_RC, where_RC = lax.top_k(jnp.where(tokens_RN == pad_id, -jnp.inf, logits_RN), count)
    return logits_RC, jnp.take_along_axis(tokens_RN, where_RC, axis=1)


def next_tokens(
    logits: jax.Array,
    allowed: jax.Array,
    count: int,
    at_limit: jax.Array,
    eos_id: int,
    pad_id: int = 0,
) -> tuple[jax.Array, jax.Array]:
    """Return the most likely tokens that may come next.

    Args:
      logits: [R, V].
      allowed: [R, V], the logits under the constraints (`Constraints.apply`).
      count: C, at most V.
      at_limit: [R] bool.
      eos_id: the token that ends an output.
      pad_id: padding; may be none of the V tokens.

    Returns:
      Log-probabilities [R, C] float32, descending, and tokens [R, C]. A log-probability is -inf if
      no other token is allowed, or if it is not finite.
    """
    logits = logits.astype(jnp.float32)
    values_RC, tokens_RC = top_k_tokens(allowed.astype(jnp.float32), count, pad_id)
    is_first_C = (jnp.arange(count) == 0)[None]
    eos_RC = jnp.where(is_first_C, logits[:, eos_id, None], -jnp.inf)
    values_RC = jnp.where(at_limit[:, None], eos_RC, values_RC)
    tokens_RC = jnp.where(at_limit[:, None], eos_id, tokens_RC)
    log_probs_RC = values_RC - jax.nn.logsumexp(logits, axis=-1)[:, None]
    # NaN would rank above all earlier hypotheses.
    return jnp.where(jnp.isnan(log_probs_RC), -jnp.inf, log_probs_RC), tokens_RC
