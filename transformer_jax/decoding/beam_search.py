"""Beam search with the length penalty of Wu et al. (2016), section 7 (paper, section 6.1).

A finished hypothesis keeps its place in the beam, which narrows by one (Marian searches so too):
with one place this is greedy search, with enough places it is exhaustive.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

StepFn = Callable[[jax.Array, jax.Array, Any], tuple[jax.Array, Any]]
Reorder = Callable[[Any, jax.Array], Any]
Grow = Callable[[Any, int], Any]
Select = Callable[[Any, jax.Array], Any]
_GROUP = 128  # tokens of which `top_k_tokens` looks at the best first


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
    """J hypotheses of each sentence: one at first, K from the first step on."""

    limits_B: jax.Array
    tokens_BJT: jax.Array
    lengths_BJ: jax.Array
    log_probs_BJ: jax.Array  # -inf for a place that nobody holds
    finished_BJ: jax.Array

    def live(self) -> jax.Array:
        """[B, J] whether a hypothesis may go on."""
        return ~self.finished_BJ & (self.log_probs_BJ > -jnp.inf)


def length_penalty(lengths: jax.Array, alpha: float) -> jax.Array:
    """((5 + length) / 6)^alpha, Wu et al. (2016), equation 14.

    Args:
      lengths: [...] tokens of the outputs, the end mark included.
      alpha: 0 leaves the log-probability as it is; more favours longer outputs, less shorter ones.

    Returns:
      [...] float32 divisors of log-probabilities.
    """
    return ((5.0 + lengths.astype(jnp.float32)) / 6.0) ** jnp.asarray(alpha, jnp.float32)


def check_length(length: int) -> None:
    """A ValueError unless there is room for a token."""
    if length < 1:
        raise ValueError(f'length={length} must be 1 or more.')


def check_eos_id(eos_id: int, logits: jax.Array) -> None:
    """A ValueError unless the end mark has one of the `logits` [R, V], and is not padding."""
    if not 0 < eos_id < logits.shape[-1]:
        raise ValueError(
            f'eos_id={eos_id} must be from 1, since 0 is padding, to the last token, '
            f'{logits.shape[-1] - 1}.'
        )


def next_log_probs(
    logits_RV: jax.Array, position: jax.Array, limits_R: jax.Array, eos_id: int
) -> jax.Array:
    """Log-probabilities [R, V] of the next token: never padding, and at the limit the end only."""
    log_probs_RV = jax.nn.log_softmax(logits_RV.astype(jnp.float32), axis=-1)
    ids_V = jnp.arange(logits_RV.shape[-1])
    at_limit_R = position + 1 >= limits_R
    allowed_RV = jnp.where(at_limit_R[:, None], (ids_V == eos_id)[None], (ids_V != 0)[None])
    return jnp.where(allowed_RV, log_probs_RV, -jnp.inf)


def top_k_tokens(logits: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """The highest logits of each row, as `jax.lax.top_k` finds them, but never padding (token 0).

    Only groups of tokens with the highest maxima are looked into: one pass over the logits, where
    sorting takes many.

    Args:
      logits: [R, V].
      count: C, at most V.

    Returns:
      Logits [R, C], descending, and tokens [R, C] int32; -inf where there is no other than padding.
    """
    rows, vocab_size = logits.shape
    groups = vocab_size // _GROUP

    tokens_RN = jnp.broadcast_to(jnp.arange(vocab_size, dtype=jnp.int32)[None], logits.shape)
    logits_RN = logits
    if groups > count:
        even = groups * _GROUP
        maxima_RG = jnp.max(logits[:, :even].reshape(rows, groups, _GROUP), axis=-1)
        maxima_RG = maxima_RG.at[:, 0].set(jnp.max(logits[:, 1:_GROUP], axis=-1))
        _, best_RC = lax.top_k(maxima_RG, count)
        # In order, so that of equal logits the first token wins, as in the whole row.
        best_RC = jnp.sort(best_RC, axis=-1)
        within_RCN = best_RC[..., None] * _GROUP + jnp.arange(_GROUP, dtype=jnp.int32)[None, None]
        tokens_RN = jnp.concatenate([within_RCN.reshape(rows, -1), tokens_RN[:, even:]], axis=1)
        logits_RN = jnp.take_along_axis(logits, tokens_RN, axis=1)
    logits_RC, where_RC = lax.top_k(jnp.where(tokens_RN == 0, -jnp.inf, logits_RN), count)
    return logits_RC, jnp.take_along_axis(tokens_RN, where_RC, axis=1)


def next_tokens(
    logits: jax.Array, count: int, at_limit: jax.Array, eos_id: int
) -> tuple[jax.Array, jax.Array]:
    """The likeliest tokens that may come next: never padding, and at the limit the end only.

    Args:
      logits: [R, V].
      count: C, at most V.
      at_limit: [R] bool.
      eos_id: the end mark.

    Returns:
      Log-probabilities [R, C] float32, descending, -inf where there is no other or they are not
      finite; tokens [R, C].
    """
    logits = logits.astype(jnp.float32)
    values_RC, tokens_RC = top_k_tokens(logits, count)
    is_first_C = (jnp.arange(count) == 0)[None]
    end_RC = jnp.where(is_first_C, logits[:, eos_id, None], -jnp.inf)
    values_RC = jnp.where(at_limit[:, None], end_RC, values_RC)
    tokens_RC = jnp.where(at_limit[:, None], eos_id, tokens_RC)
    log_probs_RC = values_RC - jax.nn.logsumexp(logits, axis=-1)[:, None]
    # NaN would rank above all that has been found so far.
    return jnp.where(jnp.isnan(log_probs_RC), -jnp.inf, log_probs_RC), tokens_RC


def _filled(x_BX: jax.Array, count: int, value: float) -> jax.Array:
    """[B, X] with as much of `value` at its end as makes X at least `count`."""
    missing = max(0, count - x_BX.shape[1])
    return jnp.pad(x_BX, ((0, 0), (0, missing)), constant_values=value)


def take_rows(cache: Any, origins: jax.Array) -> Any:
    """A cache after each hypothesis has been replaced by one of its sentence, all of it copied.

    Args:
      cache: a pytree whose arrays have B·J rows, those of J hypotheses of each sentence.
      origins: [B, K] int32, which of the J takes each of the places, which may be more.
    """
    batch = len(origins)

    def take(x: jax.Array) -> jax.Array:
        # Each sentence's hypotheses among themselves: devices that share out the sentences have
        # all they need.
        x_BJ = x.reshape(batch, len(x) // batch, *x.shape[1:])
        x_BK = jax.vmap(lambda x_J, origin_K: x_J[origin_K])(x_BJ, origins)
        return x_BK.reshape(-1, *x.shape[1:])

    return jax.tree.map(take, cache)


@dataclasses.dataclass(frozen=True)
class _Search:
    """A step of the search, and steps as long as there is something to go on with."""

    step_fn: StepFn
    reorder: Reorder
    beam_size: int
    eos_id: int
    alpha: float
    n_best: int

    def run(
        self, position: jax.Array, beam: _Beam, cache: Any, end: int, few: int = 0
    ) -> tuple[jax.Array, _Beam, Any]:
        """Goes on until all are done, or at most `few` sentences are not, or `end` is reached."""

        def goes_on(state: tuple[jax.Array, _Beam, Any]) -> jax.Array:
            position, beam, _ = state
            return (position < end) & (jnp.sum(jnp.any(beam.live(), axis=1)) > few)

        return lax.while_loop(goes_on, lambda state: self.step(*state), (position, beam, cache))

    def step(self, position: jax.Array, beam: _Beam, cache: Any) -> tuple[jax.Array, _Beam, Any]:
        """Gives each place of a beam to one of those that are finished or grow from it."""
        batch, held = beam.lengths_BJ.shape
        last_BJ = beam.tokens_BJT[:, :, jnp.maximum(position - 1, 0)]
        logits_RV, cache = self.step_fn(last_BJ.reshape(-1), position, cache)
        check_eos_id(self.eos_id, logits_RV)
        # C: more of one hypothesis cannot be chosen.
        count = min(self.beam_size, logits_RV.shape[-1])
        at_limit_R = position + 1 >= jnp.repeat(beam.limits_B, held)
        added_RC, token_RC = next_tokens(logits_RV, count, at_limit_R, self.eos_id)
        grown_BJC = jnp.where(
            beam.live()[..., None],
            beam.log_probs_BJ[..., None] + added_RC.reshape(batch, held, count),
            -jnp.inf,
        )

        # One hypothesis of a few tokens may grow into fewer than there are places.
        grown_BX = _filled(grown_BJC.reshape(batch, -1), self.beam_size, -jnp.inf)
        grown_BK, flat_BK = lax.top_k(grown_BX, self.beam_size)
        token_BX = _filled(token_RC.reshape(batch, -1), self.beam_size, 0)
        token_BK = jnp.take_along_axis(token_BX, flat_BK, axis=1)

        # No log-probability exceeds 0: places go to the finished first, then to the likeliest.
        def both(finished_BJ: jax.Array, grown_BK: jax.Array) -> jax.Array:
            return jnp.concatenate([finished_BJ, grown_BK], axis=1)

        rank = both(jnp.where(beam.finished_BJ, 1.0, -jnp.inf), grown_BK)
        _, chosen_BK = lax.top_k(rank, self.beam_size)

        def choose(finished_BJ: jax.Array, grown_BK: jax.Array) -> jax.Array:
            return jnp.take_along_axis(both(finished_BJ, grown_BK), chosen_BK, axis=1)

        held_BJ = jnp.broadcast_to(jnp.arange(held)[None], (batch, held))
        origin_BK = choose(held_BJ, jnp.minimum(flat_BK // count, held - 1))
        token_BK = choose(jnp.zeros_like(beam.lengths_BJ), token_BK)
        log_probs_BK = choose(jnp.where(beam.finished_BJ, beam.log_probs_BJ, -jnp.inf), grown_BK)
        was_finished_BK = choose(beam.finished_BJ, jnp.zeros_like(grown_BK, bool))
        ended_BK = (token_BK == self.eos_id) & (log_probs_BK > -jnp.inf)
        tokens_BKT = jnp.take_along_axis(beam.tokens_BJT, origin_BK[..., None], axis=1)
        beam = _Beam(
            limits_B=beam.limits_B,
            tokens_BJT=tokens_BKT.at[:, :, position].set(token_BK),
            lengths_BJ=choose(beam.lengths_BJ, jnp.full_like(token_BK, position + 1)),
            log_probs_BJ=log_probs_BK,
            finished_BJ=was_finished_BK | ended_BK,
        )
        return position + 1, self._without_the_hopeless(beam), self.reorder(cache, origin_BK)

    def _without_the_hopeless(self, beam: _Beam) -> _Beam:
        """Ends sentences that cannot find anything better."""
        # Log-probabilities only fall. The penalty divides by at most that of the limit, or where it
        # favours shorter outputs by that of a single token, which is 1.
        best_live_B = jnp.max(jnp.where(beam.live(), beam.log_probs_BJ, -jnp.inf), axis=1)
        bound_B = best_live_B / jnp.maximum(length_penalty(beam.limits_B, self.alpha), 1.0)
        worst_kept_B = lax.top_k(self.scores(beam), self.n_best)[0][:, -1]
        ends_BJ = ~beam.finished_BJ & (worst_kept_B >= bound_B)[:, None]
        return beam._replace(log_probs_BJ=jnp.where(ends_BJ, -jnp.inf, beam.log_probs_BJ))

    def scores(self, beam: _Beam) -> jax.Array:
        """[B, J], -inf for what is not finished."""
        penalty_BJ = length_penalty(beam.lengths_BJ, self.alpha)
        return jnp.where(beam.finished_BJ, beam.log_probs_BJ / penalty_BJ, -jnp.inf)


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
    reorder: Reorder = take_rows,
    grow: Grow | None = None,
    cache_lengths: Sequence[int] = (),
    select: Select | None = None,
) -> Hypotheses:
    """Finds the outputs of highest score = log-probability / length penalty.

    A sentence is done when its beam is full of finished hypotheses, or as soon as no live one can
    reach the score of the n_best-th finished one. Its result does not depend on the others'.

    Args:
      step_fn: from tokens [B·J] int32, a position (int32 scalar) and the cache to logits [B·J, V]
        and the new cache. J is 1 at position 0, where all hypotheses are alike and the token is 0,
        and K from then on. Token 0 is padding and is never put out.
      cache: of one hypothesis of each sentence, a pytree that `step_fn` and `reorder` know how to
        read; for `take_rows` its arrays have B rows.
      max_lengths: [B] int32, most tokens of each output, the end mark included, so that 0 is no
        less than 1; at the limit the end mark is taken, with its own probability.
      length: T; a smaller limit than `max_lengths` where it is less.
      beam_size: K.
      eos_id: the end mark, from 1 to V - 1.
      alpha: of the length penalty.
      n_best: how many of the K outputs have to be right, at most K.
      reorder: from the cache of J hypotheses of each sentence and [B, K] int32, which of them
        takes each place, to the cache of K.
      grow: from the cache and a length to the cache with room for so many tokens; without it
        `cache` has room for `length` of them.
      cache_lengths: lengths to which the cache grows one after the other, after the first step,
        which has
        room for a token, and before the last, `length`: where a step costs by the room there is,
        more of them cost less. Each is compiled by itself.
      select: from the cache and [b] int32 to the cache of these sentences. With it the stragglers,
        as soon as a quarter of the sentences are left or the last of `cache_lengths` is full,
        go on in
        batches of a quarter.

    Returns:
      `Hypotheses`.

    Raises:
      ValueError: if n_best is not from 1 to beam_size, eos_id not from 1 to V - 1, length less
        than 1, alpha not finite, or cache_lengths do not ascend to `length` at most.
    """
    if not 1 <= n_best <= beam_size:
        raise ValueError(f'n_best={n_best} must be from 1 to beam_size={beam_size}.')
    check_length(length)
    if isinstance(alpha, int | float) and not math.isfinite(alpha):
        raise ValueError(f'alpha={alpha} must be a finite number.')
    if list(cache_lengths) != sorted(set(cache_lengths)) or not all(
        1 <= room <= length for room in cache_lengths
    ):
        raise ValueError(
            f'cache_lengths={cache_lengths} must ascend, from 1 to length={length} at most.'
        )
    search = _Search(step_fn, reorder, beam_size, eos_id, alpha, n_best)
    grow = grow or (lambda cache, _: cache)
    max_lengths = jnp.asarray(max_lengths, jnp.int32)
    batch = max_lengths.shape[0]
    beam = _Beam(
        limits_B=jnp.minimum(max_lengths, length),
        tokens_BJT=jnp.zeros((batch, 1, length), jnp.int32),
        lengths_BJ=jnp.zeros((batch, 1), jnp.int32),
        log_probs_BJ=jnp.zeros((batch, 1), jnp.float32),
        finished_BJ=jnp.zeros((batch, 1), bool),
    )
    part = batch // 4 if select is not None and batch % 4 == 0 else batch
    few = part if part < batch else 0
    # By itself: K equal hypotheses would cost K times as much.
    position, beam, cache = search.step(jnp.int32(0), beam, grow(cache, 1))
    for room in cache_lengths:
        position, beam, cache = search.run(position, beam, grow(cache, room), room, few)
    if select is None:
        _, beam, _ = search.run(position, beam, grow(cache, length), length)
    else:

        def finish(beam: _Beam, ids: jax.Array) -> _Beam:
            return search.run(position, beam, grow(select(cache, ids), length), length)[1]

        def finish_part(ids: jax.Array) -> _Beam:
            taken = jax.tree.map(lambda x: x[ids], beam)
            return lax.cond(jnp.any(taken.live()), finish, lambda beam, _: beam, taken, ids)

        order_B = jnp.argsort(~jnp.any(beam.live(), axis=1))  # those that are not done first
        parts = lax.map(finish_part, order_B.reshape(-1, part))
        back_B = jnp.argsort(order_B)
        beam = jax.tree.map(lambda x: x.reshape(batch, *x.shape[2:])[back_B], parts)
    best_BK, order_BK = lax.top_k(search.scores(beam), beam_size)
    found_BK = best_BK > -jnp.inf
    tokens_BKT = jnp.take_along_axis(beam.tokens_BJT, order_BK[..., None], axis=1)
    return Hypotheses(
        tokens=jnp.where(found_BK[..., None], tokens_BKT, 0),
        lengths=jnp.where(found_BK, jnp.take_along_axis(beam.lengths_BJ, order_BK, axis=1), 0),
        scores=best_BK,
        log_probs=jnp.take_along_axis(beam.log_probs_BJ, order_BK, axis=1),
    )
