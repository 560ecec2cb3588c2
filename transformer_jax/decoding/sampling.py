"""Greedy search and sampling with temperature, top-k and top-p (Holtzman et al., 2020)."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from transformer_jax.decoding.constraints import UNCONSTRAINED, Constraints
from transformer_jax.decoding.hypotheses import (
    Hypotheses,
    StepFn,
    check_length,
    check_step,
    output_limits,
    step_inputs,
)
from transformer_jax.decoding.next_tokens import next_log_probs
from transformer_jax.decoding.options import ONE_SAMPLE, SearchOptions


def _one_path(
    choose: Callable[[jax.Array, jax.Array], jax.Array],
    step_fn: StepFn,
    cache: Any,
    limits_R: jax.Array,
    length: int,
    eos_id: int,
    start_id: int,
    pad_id: int,
    constraints: Constraints,
    prefixes_RP: jax.Array | None,
) -> Hypotheses:
    """Extend each row by `choose(log_probs_RV, position)` until EOS."""
    rows = limits_R.shape[0]

    def step(state):
        i, tokens_RT, log_probs_R, lengths_R, finished_R, cache = state
        last_R = tokens_RT[:, jnp.maximum(i - 1, 0)]
        result = step_fn(step_inputs(last_R, start_id, pad_id), i, cache)
        check_step(result, rows, eos_id, pad_id)
        logits_RV, cache = result
        allowed_RV = constraints.apply(logits_RV, tokens_RT, i, eos_id, prefixes_RP, pad_id)
        next_RV = next_log_probs(logits_RV, allowed_RV, i + 1 >= limits_R, eos_id, pad_id)
        token_R = jnp.where(finished_R, pad_id, choose(next_RV, i).astype(jnp.int32))
        added_R = jnp.take_along_axis(next_RV, token_R[:, None], axis=1)[:, 0]
        added_R = jnp.where(finished_R, 0.0, jnp.where(jnp.isnan(added_R), -jnp.inf, added_R))
        log_probs_R += added_R
        return (
            i + 1,
            tokens_RT.at[:, i].set(token_R),
            log_probs_R,
            jnp.where(finished_R, lengths_R, i + 1),
            finished_R | (token_R == eos_id) | (log_probs_R == -jnp.inf),
            cache,
        )

    start = (
        jnp.int32(0),
        jnp.full((rows, length), pad_id, jnp.int32),
        jnp.zeros(rows, jnp.float32),
        jnp.zeros(rows, jnp.int32),
        jnp.zeros(rows, bool),
        cache,
    )
    _, tokens_RT, log_probs_R, lengths_R, _, _ = lax.while_loop(
        lambda state: (state[0] < length) & ~jnp.all(state[4]), step, start
    )
    # If the model allows no token, there is no output.
    found_R = log_probs_R > -jnp.inf
    tokens_RT = jnp.where(found_R[:, None], tokens_RT, pad_id)
    lengths_R = jnp.where(found_R, lengths_R, 0)
    return Hypotheses(
        tokens_RT[:, None], lengths_R[:, None], log_probs_R[:, None], log_probs_R[:, None]
    )


def greedy_search(
    step_fn: StepFn,
    cache: Any,
    max_lengths: jax.Array,
    *,
    length: int,
    eos_id: int,
    start_id: int = 0,
    pad_id: int = 0,
    constraints: Constraints = UNCONSTRAINED,
    prefixes: jax.Array | None = None,
) -> Hypotheses:
    """Return the outputs made of the most likely token at each step.

    Args:
      step_fn: as for `beam_search`, with one row per sentence.
      cache: a pytree whose arrays have B rows.
      max_lengths: [B] int, the greatest number of tokens of each output, including EOS; one number
        is the limit of all.
      length: T, which limits `max_lengths`.
      eos_id: the token that ends an output, from 0 to V - 1.
      start_id: the token that the first step reads.
      pad_id: padding, as for `beam_search`.
      constraints: what outputs must not contain.
      prefixes: [B, P] int32, the first tokens of each output, then `pad_id`; None if there are
        none.

    Returns:
      `Hypotheses` with K = 1; the score is the log-probability.

    Raises:
      ValueError: as `beam_search`, for the arguments that both have.
    """
    check_length(length)
    limits_R = output_limits(max_lengths, length, cache)

    def argmax(log_probs_RV: jax.Array, position: jax.Array) -> jax.Array:
        return jnp.argmax(log_probs_RV, axis=-1)

    ids = eos_id, start_id, pad_id
    return _one_path(argmax, step_fn, cache, limits_R, length, *ids, constraints, prefixes)


def truncate(log_probs: jax.Array, *, top_k: int = 0, top_p: float = 1.0) -> jax.Array:
    """Set the log-probabilities of unlikely tokens to -inf.

    Args:
      log_probs: [R, V].
      top_k: keeps the k most likely tokens; 0 keeps all.
      top_p: keeps the fewest tokens whose probabilities add up to p; 1 keeps all.

    Returns:
      [R, V], not normalised again.
    """
    top_k = min(top_k, log_probs.shape[-1])
    if top_p >= 1.0:  # avoid the sorting, which takes longer than the model
        if not top_k:
            return log_probs
        values_RC, tokens_RC = lax.top_k(log_probs, top_k)
        nothing_RV = jnp.full_like(log_probs, -jnp.inf)
        return jnp.put_along_axis(nothing_RV, tokens_RC, values_RC, axis=-1, inplace=False)
    order_RV = jnp.argsort(-log_probs, axis=-1)
    probs_RV = jax.nn.softmax(jnp.take_along_axis(log_probs, order_RV, axis=-1), axis=-1)
    # A token stays if all more likely tokens add up to less than p, so the first always stays.
    stays_RV = jnp.cumsum(probs_RV, axis=-1) - probs_RV < top_p
    if top_k:
        stays_RV &= jnp.arange(log_probs.shape[-1])[None] < top_k
    stays_RV = jnp.take_along_axis(stays_RV, jnp.argsort(order_RV, axis=-1), axis=-1)
    return jnp.where(stays_RV, log_probs, -jnp.inf)


def _checked_keys(keys: jax.Array) -> tuple[jax.Array, int]:
    """Return random keys, and how many there are; 0 if it is one key, not an array of keys."""
    shape, dtype = jnp.shape(keys), jnp.result_type(keys)
    if not jnp.issubdtype(dtype, jax.dtypes.prng_key):  # an array of numbers, as PRNGKey makes
        if dtype != jnp.uint32 or not shape:
            raise ValueError(f'keys={keys!r} is no random key, such as jax.random.key(0).')
        shape = shape[:-1]
    if len(shape) > 1:
        raise ValueError(f'keys has shape {shape}: it must be [batch], a key for each sentence.')
    return jnp.asarray(keys), shape[0] if shape else 0


def sample(
    step_fn: StepFn,
    cache: Any,
    max_lengths: jax.Array,
    keys: jax.Array,
    options: SearchOptions = ONE_SAMPLE,
    *,
    length: int,
    eos_id: int,
    start_id: int = 0,
    pad_id: int = 0,
    prefixes: jax.Array | None = None,
    **fields: Any,
) -> Hypotheses:
    """Return outputs whose tokens are drawn from the model's distribution.

    Args:
      step_fn: as for `beam_search`, with one row per sentence.
      cache: a pytree whose arrays have B rows.
      max_lengths: [B] int, the greatest number of tokens of each output, including EOS; one number
        is the limit of all.
      keys: [B] random keys, one per sentence, so that a draw does not depend on its batch; one key
        (`jax.random.key(0)`) is split into B.
      options: temperature, top_k and top_p (see `truncate`; after the temperature), constraints.
      length: T, which limits `max_lengths`.
      eos_id: the token that ends an output, from 0 to V - 1.
      start_id: the token that the first step reads.
      pad_id: padding, as for `beam_search`.
      prefixes: [B, P] int32, the first tokens of each output, then `pad_id`; None if there are
        none.
      **fields: fields of `options`, for example temperature.

    Returns:
      `Hypotheses` with K = 1; the score is the model's own log-probability of the draw.

    Raises:
      ValueError: if an option is out of range, `keys` are no keys, or there are not B of them;
        otherwise as `beam_search`.
      TypeError: if `options` have no such field.
    """
    options = options.replace(**fields)
    options.check()
    check_length(length)
    keys, count = _checked_keys(keys)
    limits_R = output_limits(max_lengths, length, cache, count)
    rows = limits_R.shape[0]
    if not count:
        keys = jax.random.split(keys, rows)
    elif count != rows:
        raise ValueError(f'there are {count} keys for {rows} sentences: give one key, or one each.')

    def draw(log_probs_RV: jax.Array, position: jax.Array) -> jax.Array:
        # Subtract the best first: otherwise a very small temperature rounds all to the same number.
        below_best_RV = log_probs_RV - jnp.max(log_probs_RV, axis=-1, keepdims=True)
        sharpened_RV = jax.nn.log_softmax(below_best_RV / options.temperature, axis=-1)
        allowed_RV = truncate(sharpened_RV, top_k=options.top_k, top_p=options.top_p)
        step_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, position)
        return jax.vmap(jax.random.categorical)(step_keys, allowed_RV)

    ids = eos_id, start_id, pad_id
    return _one_path(draw, step_fn, cache, limits_R, length, *ids, options.constraints, prefixes)
