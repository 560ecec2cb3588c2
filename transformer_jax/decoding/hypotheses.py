"""The types and checks that all searches share."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

StepFn = Callable[[jax.Array, jax.Array, Any], tuple[jax.Array, Any]]


class Hypotheses(NamedTuple):
    """Outputs of a search, the best first.

    Attributes:
      tokens: [B, K, T] int32, each output ends with EOS, then padding.
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


def output_limits(max_lengths: jax.Array, length: int, cache: Any, rows: int = 0) -> jax.Array:
    """Return [B] int32, the greatest number of tokens of each output.

    Args:
      max_lengths: [B] int, or one number for all sentences.
      length: T, the limit of all.
      cache: the cache of B sentences, whose arrays tell B if `max_lengths` does not.
      rows: B if the caller knows it, else 0.

    Raises:
      ValueError: if B cannot be told, or `max_lengths` has another shape.
    """
    max_lengths = jnp.asarray(max_lengths, jnp.int32)
    if max_lengths.ndim > 1:
        raise ValueError(
            f'max_lengths has shape {max_lengths.shape}: it must be [batch], a limit for each '
            'sentence.'
        )
    if max_lengths.ndim == 0:
        of_cache = {x.shape[0] for x in jax.tree.leaves(cache) if jnp.ndim(x)}
        if not rows and len(of_cache) != 1:
            raise ValueError(
                'max_lengths is one number, and the arrays of the cache do not agree on the number '
                'of sentences: give a limit for each sentence, as jnp.full(batch, 20) does.'
            )
        max_lengths = jnp.broadcast_to(max_lengths, (rows or of_cache.pop(),))
    return jnp.minimum(max_lengths, length)


def step_inputs(tokens: jax.Array, start_id: int, pad_id: int) -> jax.Array:
    """Return the tokens that a step reads.

    Args:
      tokens: [...] int32, the last token of each row; `pad_id` if it has none yet, or has ended.
      start_id: what the step reads instead of `pad_id`.
      pad_id: padding.
    """
    if start_id == pad_id:
        return tokens
    return jnp.where(tokens == pad_id, start_id, tokens)


def check_step(result: Any, rows: int, eos_id: int, pad_id: int) -> None:
    """Raise a ValueError unless a step has returned logits of `rows` rows with EOS, and a cache."""
    if not isinstance(result, tuple) or len(result) < 2:
        raise ValueError(
            f'step_fn returned {type(result).__name__}: it must return (logits, cache), with None '
            'for no cache.'
        )
    logits = result[0]
    if logits.ndim != 2 or logits.shape[0] != rows:
        raise ValueError(
            f'step_fn returned logits of shape {logits.shape} for {rows} tokens: they must be '
            f'[{rows}, vocabulary].'
        )
    if not 0 <= eos_id < logits.shape[1] or eos_id == pad_id:
        raise ValueError(
            f'eos_id={eos_id} must be a token, from 0 to {logits.shape[1] - 1}, but not padding, '
            f'which is {pad_id}.'
        )
