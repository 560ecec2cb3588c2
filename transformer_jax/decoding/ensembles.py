"""The prediction of several models together."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp

ENSEMBLES = ('probabilities', 'log_probabilities')


def average_predictions(logits: Sequence[jax.Array], ensemble: str = 'probabilities') -> jax.Array:
    """Return logits of the mean prediction of several models.

    Args:
      logits: [..., V] of each model, finite.
      ensemble: 'probabilities' averages these, 'log_probabilities' their logarithms, which favours
        tokens that no model finds unlikely.

    Returns:
      [..., V] float32; for one model its logits as they are.

    Raises:
      ValueError: if `ensemble` is not one of `ENSEMBLES`.
    """
    if ensemble not in ENSEMBLES:
        raise ValueError(f'ensemble={ensemble!r} must be one of {", ".join(ENSEMBLES)}.')
    if len(logits) == 1:
        return logits[0]
    log_probs = [jax.nn.log_softmax(x.astype(jnp.float32), axis=-1) for x in logits]
    if ensemble == 'log_probabilities':
        return sum(log_probs) / len(log_probs)
    # In one pass; `jax.nn.logsumexp` would write a stack of them and read it twice.
    highest = functools.reduce(jnp.maximum, log_probs)
    return highest + jnp.log(sum(jnp.exp(x - highest) for x in log_probs) / len(log_probs))
