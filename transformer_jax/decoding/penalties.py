"""What the score of an output has besides its log-probability: length and coverage penalties.

score = log-probability / length penalty + coverage penalty (Wu et al., 2016, section 7).
"""

import jax
import jax.numpy as jnp

LENGTH_NORMS = ('gnmt', 'power', 'none')
_LEAST_COVERAGE = 1e-9  # of a token, so that its logarithm stays finite


def length_penalty(lengths: jax.Array, alpha: float, norm: str = 'gnmt') -> jax.Array:
    """Return the divisors of log-probabilities.

    'gnmt' is ((5 + length) / 6)^alpha, Wu et al. (2016), equation 14, as in the paper. 'power' is
    length^alpha, by which Marian, Hugging Face and CTranslate2 rank. 'none' is 1.

    Args:
      lengths: [...] number of tokens of the outputs, including EOS.
      alpha: 0 is no penalty; a positive alpha favours longer outputs, a negative one shorter ones.
      norm: one of `LENGTH_NORMS`.

    Returns:
      [...] float32.

    Raises:
      ValueError: if the norm is unknown.
    """
    lengths, alpha = lengths.astype(jnp.float32), jnp.asarray(alpha, jnp.float32)
    if norm == 'gnmt':
        return ((5.0 + lengths) / 6.0) ** alpha
    if norm == 'power':
        return jnp.maximum(lengths, 1.0) ** alpha
    if norm == 'none':
        return jnp.ones_like(lengths)
    raise ValueError(f'length_norm={norm!r} must be one of {", ".join(LENGTH_NORMS)}.')


def coverage_penalty(coverage: jax.Array, beta: float) -> jax.Array:
    """Return beta · sum over source tokens of log(min(coverage, 1)).

    Wu et al. (2016), equation 15: an output that leaves a source token without attention gets a
    lower score.

    Args:
      coverage: [..., S], the attention that each source token has had in all steps together; 1 for
        padding.
      beta: weight of the penalty, 0 or more.

    Returns:
      [...] float32, at most 0.
    """
    return beta * jnp.sum(jnp.log(jnp.clip(coverage, _LEAST_COVERAGE, 1.0)), axis=-1)
