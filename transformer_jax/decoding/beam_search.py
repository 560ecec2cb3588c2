"""Beam search with the length penalty of Wu et al. (2016), section 7 (paper, section 6.1).

A finished hypothesis keeps its place in the beam, which narrows by one (Marian searches so too):
with one place this is greedy search, with enough places it is exhaustive.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

StepFn = Callable[[jax.Array, jax.Array, Any], tuple[jax.Array, Any]]


class Hypotheses(NamedTuple):
    """Outputs, the best first.

    Attributes:
      tokens: [B, K, T] int32, each ended by the end mark, then 0.
      lengths: [B, K] int32, tokens with the end mark.
      scores: [B, K] float32, log-probability over length penalty.
      log_probs: [B, K] float32, natural log of the probability.

    Where a sentence has fewer than K outputs the rest have scores of -inf and no tokens.
    """

    tokens: jax.Array
    lengths: jax.Array
    scores: jax.Array
    log_probs: jax.Array


class _Beam(NamedTuple):
    position: jax.Array  # [] int32
    tokens_BKT: jax.Array
    lengths_BK: jax.Array
    log_probs_BK: jax.Array  # -inf for a place that nobody holds
    finished_BK: jax.Array
    cache: Any


def length_penalty(lengths: jax.Array, alpha: float) -> jax.Array:
    """((5 + length) / 6)^alpha, Wu et al. (2016), equation 14.

    Args:
      lengths: [...] tokens of the outputs, the end mark included.
      alpha: 0 leaves the log-probability as it is; larger favours longer outputs.

    Returns:
      [...] float32 divisors of log-probabilities.
    """
    return ((5.0 + lengths.astype(jnp.float32)) / 6.0) ** alpha


def next_log_probs(
    logits_RV: jax.Array, position: jax.Array, limits_R: jax.Array, eos_id: int
) -> jax.Array:
    """Log-probabilities [R, V] of the next token: never padding, and at the limit the end only."""
    log_probs_RV = jax.nn.log_softmax(logits_RV.astype(jnp.float32), axis=-1)
    ids_V = jnp.arange(logits_RV.shape[-1])
    at_limit_R = position + 1 >= limits_R
    allowed_RV = jnp.where(at_limit_R[:, None], (ids_V == eos_id)[None], (ids_V != 0)[None])
    return jnp.where(allowed_RV, log_probs_RV, -jnp.inf)


def beam_search(
    step_fn: StepFn,
    cache: Any,
    max_lengths: jax.Array,
    *,
    length: int,
    beam_size: int,
    eos_id: int,
    alpha: float = 0.6,
    n_best: int = 1,
) -> Hypotheses:
    """Finds the outputs of highest score = log-probability / length penalty.

    A sentence is done when its beam is full of finished hypotheses, or as soon as no live one can
    reach the score of the n_best-th finished one. Its result does not depend on the others'.

    Args:
      step_fn: from tokens [B·K] int32 (0 at the start), a position (int32 scalar) and the cache to
        logits [B·K, V] and the new cache.
      cache: a pytree whose arrays have B·K rows.
      max_lengths: [B] int32, most tokens of each output, the end mark included; at the limit the
        end mark is taken, with its own probability.
      length: T; a smaller limit than `max_lengths` where it is less.
      beam_size: K.
      eos_id: the end mark.
      alpha: of the length penalty, not negative.
      n_best: how many of the K outputs have to be right, at most K.

    Returns:
      `Hypotheses`.

    Raises:
      ValueError: if n_best is not from 1 to beam_size.
    """
    if not 1 <= n_best <= beam_size:
        raise ValueError(f'n_best={n_best} must be from 1 to beam_size={beam_size}.')
    max_lengths = jnp.minimum(max_lengths, length)
    batch, slots = max_lengths.shape[0], jnp.arange(beam_size)
    limits_BK = jnp.repeat(max_lengths[:, None], beam_size, axis=1)

    def scores(beam: _Beam) -> jax.Array:
        penalty_BK = length_penalty(beam.lengths_BK, alpha)
        return jnp.where(beam.finished_BK, beam.log_probs_BK / penalty_BK, -jnp.inf)

    def live(beam: _Beam) -> jax.Array:
        return ~beam.finished_BK & (beam.log_probs_BK > -jnp.inf)

    def step(beam: _Beam) -> _Beam:
        i = beam.position
        last_BK = beam.tokens_BKT[:, :, jnp.maximum(i - 1, 0)]
        logits_RV, cache = step_fn(last_BK.reshape(-1), i, beam.cache)
        vocab_size = logits_RV.shape[-1]
        added_BKV = next_log_probs(logits_RV, i, limits_BK.reshape(-1), eos_id).reshape(
            batch, beam_size, vocab_size
        )
        grown_BKV = jnp.where(
            live(beam)[..., None], beam.log_probs_BK[..., None] + added_BKV, -jnp.inf
        )
        grown_BK, flat_BK = lax.top_k(grown_BKV.reshape(batch, -1), beam_size)
        token_BK = (flat_BK % vocab_size).astype(jnp.int32)

        # No log-probability exceeds 0: places go to the finished first, then to the likeliest.
        def both(finished_BK: jax.Array, grown_BK: jax.Array) -> jax.Array:
            return jnp.concatenate([finished_BK, grown_BK], axis=1)

        rank = both(jnp.where(beam.finished_BK, 1.0, -jnp.inf), grown_BK)
        _, chosen_BK = lax.top_k(rank, beam_size)

        def choose(finished_BK: jax.Array, grown_BK: jax.Array) -> jax.Array:
            return jnp.take_along_axis(both(finished_BK, grown_BK), chosen_BK, axis=1)

        held_BK = jnp.broadcast_to(slots[None], (batch, beam_size))
        origin_BK = choose(held_BK, flat_BK // vocab_size)
        token_BK = choose(jnp.zeros_like(token_BK), token_BK)
        log_probs_BK = choose(jnp.where(beam.finished_BK, beam.log_probs_BK, -jnp.inf), grown_BK)
        was_finished_BK = choose(beam.finished_BK, jnp.zeros_like(beam.finished_BK))
        ended_BK = (token_BK == eos_id) & (log_probs_BK > -jnp.inf)
        tokens_BKT = jnp.take_along_axis(beam.tokens_BKT, origin_BK[..., None], axis=1)

        def reorder(x: jax.Array) -> jax.Array:
            # Each sentence's hypotheses among themselves: devices that share out the sentences have
            # all they need.
            x_BK = x.reshape(batch, beam_size, *x.shape[1:])
            return jax.vmap(lambda x_K, origin_K: x_K[origin_K])(x_BK, origin_BK).reshape(x.shape)

        beam = _Beam(
            position=i + 1,
            tokens_BKT=tokens_BKT.at[:, :, i].set(token_BK),
            lengths_BK=choose(beam.lengths_BK, jnp.full_like(beam.lengths_BK, i + 1)),
            log_probs_BK=log_probs_BK,
            finished_BK=was_finished_BK | ended_BK,
            cache=jax.tree.map(reorder, cache),
        )
        # Log-probabilities only fall and the penalty divides by at most that of the limit.
        best_live_B = jnp.max(jnp.where(live(beam), beam.log_probs_BK, -jnp.inf), axis=1)
        bound_B = best_live_B / length_penalty(max_lengths, alpha)
        worst_kept_B = lax.top_k(scores(beam), n_best)[0][:, -1]
        done_BK = jnp.broadcast_to((worst_kept_B >= bound_B)[:, None], (batch, beam_size))
        return beam._replace(
            log_probs_BK=jnp.where(done_BK & ~beam.finished_BK, -jnp.inf, beam.log_probs_BK)
        )

    start = _Beam(
        position=jnp.int32(0),
        tokens_BKT=jnp.zeros((batch, beam_size, length), jnp.int32),
        lengths_BK=jnp.zeros((batch, beam_size), jnp.int32),
        # All places begin alike, so only the first is alive: K equal beams would stay equal.
        log_probs_BK=jnp.where(slots == 0, 0.0, -jnp.inf)[None].repeat(batch, axis=0),
        finished_BK=jnp.zeros((batch, beam_size), bool),
        cache=cache,
    )
    beam = lax.while_loop(lambda beam: (beam.position < length) & jnp.any(live(beam)), step, start)
    best_BK, order_BK = lax.top_k(scores(beam), beam_size)
    found_BK = best_BK > -jnp.inf
    tokens_BKT = jnp.take_along_axis(beam.tokens_BKT, order_BK[..., None], axis=1)
    return Hypotheses(
        tokens=jnp.where(found_BK[..., None], tokens_BKT, 0),
        lengths=jnp.where(found_BK, jnp.take_along_axis(beam.lengths_BK, order_BK, axis=1), 0),
        scores=best_BK,
        log_probs=jnp.take_along_axis(beam.log_probs_BK, order_BK, axis=1),
    )
