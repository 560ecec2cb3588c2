"""The types and checks that all searches share."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

StepFn = Callable[[jax.Array, jax.Array, Any], tuple[jax.Array, Any]]


class Hypotheses(NamedTuple):
    """Outputs of a search, the best first.

    Attributes:
      tokens: [B, K, T] int32, each output ends with EOS, then 0.
      lengths: [B, K] int32, number of tokens including EOS.
      scores: [B, K] float32, log-probability divided by the length penalty.
      log_probs: [B, K] float32, natural log of the probability.

    If a sentence has fewer than K outputs, the rest have scores of -inf and no tokens.
    """

    tokens: jax.Array
    lengths: jax.Array
    scores: jax.Array
    log_probs: jax.Array


def check_length(length: int) -> None:
    """Raise a ValueError if outputs of at most `length` tokens cannot have a token."""
    if length < 1:
        raise ValueError(f'length={length} must be 1 or more.')


def check_eos_id(eos_id: int, logits: jax.Array) -> None:
    """Raise a ValueError if EOS is padding, or is not a token of the `logits` [R, V]."""
    if not 0 < eos_id < logits.shape[-1]:
        raise ValueError(
            f'eos_id={eos_id} must be from 1, since 0 is padding, to the last token, '
            f'{logits.shape[-1] - 1}.'
        )
