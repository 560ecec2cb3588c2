"""Beam search with the length penalty of Wu et al. (2016), section 7 (paper, section 6.1).

A finished hypothesis stays in the beam, so fewer hypotheses remain to be extended (as in Marian).
With a beam of one this is greedy search; with a beam that is large enough it is exhaustive.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from transformer_jax.decoding.hypotheses import (
    Hypotheses,
    StepFn,
    check_length,
    check_step,
    output_limits,
    step_inputs,
)
from transformer_jax.decoding.next_tokens import next_tokens
from transformer_jax.decoding.options import BEAM_OF_FOUR, SearchOptions
from transformer_jax.decoding.penalties import coverage_penalty, length_penalty

Reorder = Callable[[Any, jax.Array], Any]
Grow = Callable[[Any, int], Any]
Select = Callable[[Any, jax.Array], Any]


class _Beam(NamedTuple):
    """J hypotheses of each sentence: J is 1 before the first step, then K."""

    limits_B: jax.Array
    prefixes_BP: jax.Array | None  # if outputs have forced beginnings
    coverage_BJS: jax.Array | None  # if there is a coverage penalty
    tokens_BJT: jax.Array
    lengths_BJ: jax.Array
    log_probs_BJ: jax.Array  # -inf for an empty place of the beam
    finished_BJ: jax.Array

    def live(self) -> jax.Array:
        """Return [B, J], whether a hypothesis can be extended."""
        return ~self.finished_BJ & (self.log_probs_BJ > -jnp.inf)


def _filled(x_BX: jax.Array, count: int, value: float) -> jax.Array:
    """Append `value` to [B, X] until X is at least `count`."""
    missing = max(0, count - x_BX.shape[1])
    return jnp.pad(x_BX, ((0, 0), (0, missing)), constant_values=value)


def gather_beams(cache: Any, origins: jax.Array) -> Any:
    """Return a copy of the cache in which new hypotheses have replaced those of each sentence.

    Args:
      cache: a pytree whose arrays have B·J rows, those of J hypotheses of each sentence.
      origins: [B, K] int32, which of the J hypotheses each of the K new ones continues.
    """
    batch = origins.shape[0]

    def take(x: jax.Array) -> jax.Array:
        # Index within each sentence, so that devices with different sentences exchange nothing.
        x_BJ = x.reshape(batch, -1, *x.shape[1:])
        x_BK = jax.vmap(lambda x_J, origin_K: x_J[origin_K])(x_BJ, origins)
        return x_BK.reshape(-1, *x.shape[1:])

    return jax.tree.map(take, cache)


@dataclasses.dataclass(frozen=True)
class _Search:
    """One step of the search, and a loop of steps."""

    step_fn: StepFn
    reorder: Reorder
    options: SearchOptions
    eos_id: int
    start_id: int
    pad_id: int

    def run(
        self, position: jax.Array, beam: _Beam, cache: Any, end: int, few: int = 0
    ) -> tuple[jax.Array, _Beam, Any]:
        """Take steps until `end`, or until at most `few` sentences are unfinished."""

        def continues(state: tuple[jax.Array, _Beam, Any]) -> jax.Array:
            position, beam, _ = state
            return (position < end) & (jnp.sum(jnp.any(beam.live(), axis=1)) > few)

        return lax.while_loop(continues, lambda state: self.step(*state), (position, beam, cache))

    def step(self, position: jax.Array, beam: _Beam, cache: Any) -> tuple[jax.Array, _Beam, Any]:
        """Extend the hypotheses by a token and keep the best K, finished or not."""
        batch, held = beam.lengths_BJ.shape
        beam_size = self.options.beam_size
        last_BJ = beam.tokens_BJT[:, :, jnp.maximum(position - 1, 0)]
        read_R = step_inputs(last_BJ.reshape(-1), self.start_id, self.pad_id)
        result = self.step_fn(read_R, position, cache)
        check_step(result, batch * held, self.eos_id, self.pad_id)
        logits_RV, cache, *attention = result
        prefixes_RP = None
        if beam.prefixes_BP is not None:
            prefixes_RP = jnp.repeat(beam.prefixes_BP, held, axis=0)
        tokens_RT = beam.tokens_BJT.reshape(batch * held, -1)
        allowed_RV = self.options.constraints.apply(
            logits_RV, tokens_RT, position, self.eos_id, prefixes_RP, self.pad_id
        )
        # No more than C tokens of one hypothesis can be chosen.
        count = min(beam_size, logits_RV.shape[-1])
        at_limit_R = position + 1 >= jnp.repeat(beam.limits_B, held)
        added_RC, token_RC = next_tokens(
            logits_RV, allowed_RV, count, at_limit_R, self.eos_id, self.pad_id
        )
        grown_BJC = jnp.where(
            beam.live()[..., None],
            beam.log_probs_BJ[..., None] + added_RC.reshape(batch, held, count),
            -jnp.inf,
        )

        # In a small vocabulary, one hypothesis may have fewer extensions than the beam has places.
        grown_BX = _filled(grown_BJC.reshape(batch, -1), beam_size, -jnp.inf)
        grown_BK, flat_BK = lax.top_k(grown_BX, beam_size)
        token_BX = _filled(token_RC.reshape(batch, -1), beam_size, self.pad_id)
        token_BK = jnp.take_along_axis(token_BX, flat_BK, axis=1)

        # Finished hypotheses stay, then come the most likely: no log-probability is above 0.
        def both(finished_BJ: jax.Array, grown_BK: jax.Array) -> jax.Array:
            return jnp.concatenate([finished_BJ, grown_BK], axis=1)

        rank = both(jnp.where(beam.finished_BJ, 1.0, -jnp.inf), grown_BK)
        _, chosen_BK = lax.top_k(rank, beam_size)

        def choose(finished_BJ: jax.Array, grown_BK: jax.Array) -> jax.Array:
            return jnp.take_along_axis(both(finished_BJ, grown_BK), chosen_BK, axis=1)

        held_BJ = jnp.broadcast_to(jnp.arange(held)[None], (batch, held))
        origin_BK = choose(held_BJ, jnp.minimum(flat_BK // count, held - 1))
        token_BK = choose(jnp.full_like(beam.lengths_BJ, self.pad_id), token_BK)
        log_probs_BK = choose(jnp.where(beam.finished_BJ, beam.log_probs_BJ, -jnp.inf), grown_BK)
        was_finished_BK = choose(beam.finished_BJ, jnp.zeros_like(grown_BK, bool))
        ended_BK = (token_BK == self.eos_id) & (log_probs_BK > -jnp.inf)
        tokens_BKT = jnp.take_along_axis(beam.tokens_BJT, origin_BK[..., None], axis=1)
        coverage_BJS = beam.coverage_BJS
        if coverage_BJS is not None:
            grown_BJS = coverage_BJS + attention[0].reshape(batch, held, -1)
            coverage_BJS = jnp.where(beam.finished_BJ[..., None], coverage_BJS, grown_BJS)
            coverage_BJS = jnp.take_along_axis(coverage_BJS, origin_BK[..., None], axis=1)
        beam = beam._replace(
            coverage_BJS=coverage_BJS,
            tokens_BJT=tokens_BKT.at[:, :, position].set(token_BK),
            lengths_BJ=choose(beam.lengths_BJ, jnp.full_like(token_BK, position + 1)),
            log_probs_BJ=log_probs_BK,
            finished_BJ=was_finished_BK | ended_BK,
        )
        return position + 1, self._stop_finished_sentences(beam), self.reorder(cache, origin_BK)

    def _stop_finished_sentences(self, beam: _Beam) -> _Beam:
        """Stop extending the sentences that cannot find anything better."""
        # Log-probabilities only fall, the length penalty is at most that of the limit or, if alpha
        # is negative, that of a single token, which is 1, and the coverage penalty is at most 0. So
        # no live hypothesis can exceed this bound.
        best_live_B = jnp.max(jnp.where(beam.live(), beam.log_probs_BJ, -jnp.inf), axis=1)
        longest_B = self._length_penalty(beam.limits_B)
        bound_B = best_live_B / jnp.maximum(longest_B, 1.0)
        best_BK, _ = lax.top_k(self.scores(beam), self.options.beam_size)
        worst_kept_B = jnp.take(best_BK, self.options.n_best - 1, axis=1)
        ends_BJ = ~beam.finished_BJ & (worst_kept_B >= bound_B)[:, None]
        return beam._replace(log_probs_BJ=jnp.where(ends_BJ, -jnp.inf, beam.log_probs_BJ))

    def scores(self, beam: _Beam) -> jax.Array:
        """Return [B, J], -inf for unfinished hypotheses."""
        scores_BJ = beam.log_probs_BJ / self._length_penalty(beam.lengths_BJ)
        if beam.coverage_BJS is not None:
            scores_BJ += coverage_penalty(beam.coverage_BJS, self.options.coverage_penalty)
        return jnp.where(beam.finished_BJ, scores_BJ, -jnp.inf)

    def _length_penalty(self, lengths: jax.Array) -> jax.Array:
        return length_penalty(lengths, self.options.length_penalty, self.options.length_norm)


def beam_search(
    step_fn: StepFn,
    cache: Any,
    max_lengths: jax.Array,
    options: SearchOptions = BEAM_OF_FOUR,
    *,
    length: int,
    eos_id: int,
    start_id: int = 0,
    pad_id: int = 0,
    coverage: jax.Array | None = None,
    prefixes: jax.Array | None = None,
    reorder: Reorder = gather_beams,
    grow: Grow | None = None,
    cache_lengths: Sequence[int] = (),
    select: Select | None = None,
    **fields: Any,
) -> Hypotheses:
    """Return the outputs with the highest score.

    The score is the log-probability / length penalty + coverage penalty (`penalties`).

    A sentence is finished when all hypotheses in its beam are, or as soon as no live one can reach
    the score of the n_best-th finished one. The outputs of a sentence do not depend on the others.

    Args:
      step_fn: from tokens [B·J] int32, a position (int32 scalar) and the cache to logits [B·J, V]
        and the new cache. J is 1 at position 0, where all hypotheses are the same and the token is
        `start_id`; then J is K.
      cache: the cache of one hypothesis of each sentence, a pytree for `step_fn` and `reorder`; for
        `gather_beams` its arrays have B rows.
      max_lengths: [B] int, the greatest number of tokens of each output, including EOS; 0 counts as
        1. One number is the limit of all. At the limit the next token is EOS, with its own
        probability.
      options: beam size, penalties, constraints and number of outputs.
      length: T, which limits `max_lengths`.
      eos_id: the token that ends an output, from 0 to V - 1.
      start_id: the token that the first step reads.
      pad_id: padding, which is never part of an output and follows EOS in the result. A number that
        is no token, for example -1, if the vocabulary has no padding.
      coverage: [B, S] float32 at the start: 0 for source tokens, 1 for padding; needed for a
        coverage penalty. With it, `step_fn` returns a third value: the attention [B·J, S] of this
        step to the source.
      prefixes: [B, P] int32, the first tokens of each output, then `pad_id`; None if there are
        none.
      reorder: a function of the cache of J hypotheses of each sentence and of [B, K] int32, the
        hypothesis that each new one continues. It returns the cache of the K new ones.
      grow: a function of the cache and a length, which returns the cache with capacity for so many
        tokens; None if `cache` has capacity for `length` tokens.
      cache_lengths: lengths to which the cache grows, one after the other, between the first step,
        for which it grows to 1, and the last stage, `length`. If the cost of a step depends on the
        cache length, more stages are faster. Each stage is compiled separately.
      select: a function of the cache and of [b] int32, which returns the cache of these sentences.
        With it, the unfinished sentences are decoded in batches of a quarter, as soon as only a
        quarter of them is left or the last of `cache_lengths` is full.
      **fields: fields of `options`, for example beam_size.

    Returns:
      `Hypotheses`.

    Raises:
      ValueError: if an option is out of range, eos_id no token or padding, length less than 1, a
        coverage penalty has no `coverage`, cache_lengths do not ascend to `length` at most,
        max_lengths is one number and the cache has no arrays, or `step_fn` returns anything else.
      TypeError: if `options` have no such field.
    """
    options = options.replace(**fields)
    options.check()
    check_length(length)
    if (coverage is None) != (options.coverage_penalty is None):
        raise ValueError('coverage and options.coverage_penalty need each other: give both.')
    if list(cache_lengths) != sorted(set(cache_lengths)) or not all(
        1 <= capacity <= length for capacity in cache_lengths
    ):
        raise ValueError(
            f'cache_lengths={cache_lengths} must ascend, from 1 to length={length} at most.'
        )
    search = _Search(step_fn, reorder, options, eos_id, start_id, pad_id)
    grow = grow or (lambda cache, _: cache)
    limits_B = output_limits(max_lengths, length, cache)
    batch = limits_B.shape[0]
    beam = _Beam(
        limits_B=limits_B,
        prefixes_BP=prefixes,
        coverage_BJS=None if coverage is None else coverage[:, None],
        tokens_BJT=jnp.full((batch, 1, length), pad_id, jnp.int32),
        lengths_BJ=jnp.zeros((batch, 1), jnp.int32),
        log_probs_BJ=jnp.zeros((batch, 1), jnp.float32),
        finished_BJ=jnp.zeros((batch, 1), bool),
    )
    quarter = batch // 4 if select is not None and batch % 4 == 0 else batch
    few = quarter if quarter < batch else 0
    # The first step is apart, because K equal hypotheses would cost K times as much.
    position, beam, cache = search.step(jnp.int32(0), beam, grow(cache, 1))
    for capacity in cache_lengths:
        position, beam, cache = search.run(position, beam, grow(cache, capacity), capacity, few)
    if select is None:
        _, beam, _ = search.run(position, beam, grow(cache, length), length)
    else:

        def finish(beam: _Beam, ids: jax.Array) -> _Beam:
            return search.run(position, beam, grow(select(cache, ids), length), length)[1]

        def finish_quarter(ids: jax.Array) -> _Beam:
            taken = jax.tree.map(lambda x: x[ids], beam)
            return lax.cond(jnp.any(taken.live()), finish, lambda beam, _: beam, taken, ids)

        # With the unfinished sentences first, the later quarters often have nothing left to do.
        order_B = jnp.argsort(~jnp.any(beam.live(), axis=1))
        quarters = lax.map(finish_quarter, order_B.reshape(-1, quarter))
        back_B = jnp.argsort(order_B)
        beam = jax.tree.map(lambda x: x.reshape(batch, *x.shape[2:])[back_B], quarters)
    best_BK, order_BK = lax.top_k(search.scores(beam), options.beam_size)
    found_BK = best_BK > -jnp.inf
    tokens_BKT = jnp.take_along_axis(beam.tokens_BJT, order_BK[..., None], axis=1)
    return Hypotheses(
        tokens=jnp.where(found_BK[..., None], tokens_BKT, pad_id),
        lengths=jnp.where(found_BK, jnp.take_along_axis(beam.lengths_BJ, order_BK, axis=1), 0),
        scores=best_BK,
        log_probs=jnp.take_along_axis(beam.log_probs_BJ, order_BK, axis=1),
    )
