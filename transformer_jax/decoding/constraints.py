"""Constraints of the outputs: pure functions of the next tokens' scores.

They decide which tokens may come next and never change a probability, so the score of an output is
the model's own.
"""

import dataclasses

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class Constraints:
    """What outputs must not contain.

    Attributes:
      min_length: least number of tokens of an output, without EOS.
      no_repeat_ngram: n for which no sequence of n tokens occurs twice in an output; 0 allows all.
      suppress: tokens that no output contains.
    """

    min_length: int = 0
    no_repeat_ngram: int = 0
    suppress: tuple[int, ...] = ()

    def apply(
        self,
        scores: jax.Array,
        tokens: jax.Array,
        position: jax.Array,
        eos_id: int,
        prefixes: jax.Array | None = None,
        pad_id: int = 0,
    ) -> jax.Array:
        """Return the scores with -inf for the tokens that may not come next.

        Args:
          scores: [R, V] of the token at `position`.
          tokens: [R, T] int32, the tokens so far.
          position: int32 scalar.
          eos_id: the token that ends an output.
          prefixes: [R, P] int32, the first tokens of each output, then padding; they may break the
            other constraints. None if there are none.
          pad_id: padding.
        """
        allowed = scores
        if self.suppress:
            allowed = allowed.at[:, jnp.array(self.suppress)].set(-jnp.inf)
        if self.min_length:
            too_early = position < self.min_length
            allowed = allowed.at[:, eos_id].add(jnp.where(too_early, -jnp.inf, 0.0))
        if self.no_repeat_ngram:
            allowed = forbid_repeats(allowed, tokens, position, self.no_repeat_ngram)
        if prefixes is None:
            return allowed
        return force_prefixes(scores, allowed, position, prefixes, pad_id)


UNCONSTRAINED = Constraints()


def forbid_repeats(scores: jax.Array, tokens: jax.Array, position: jax.Array, n: int) -> jax.Array:
    """Return the scores with -inf for tokens that would complete an n-gram a second time.

    Args:
      scores: [R, V] of the token at `position`.
      tokens: [R, T] int32, the tokens so far.
      position: int32 scalar.
      n: length of the n-grams, 1 or more.
    """
    starts = tokens.shape[1] - n + 1
    if starts < 1:
        return scores
    # The window of n tokens from each start: its first n - 1 against the last n - 1 tokens.
    same_RW = jnp.broadcast_to(jnp.arange(starts) + n - 1 < position, (tokens.shape[0], starts))
    for k in range(n - 1):
        last_R = tokens[:, jnp.maximum(position - n + 1 + k, 0)]
        same_RW &= tokens[:, k : k + starts] == last_R[:, None]
    banned_RW = jnp.where(same_RW, tokens[:, n - 1 :], scores.shape[1])

    def forbid(scores_V: jax.Array, banned_W: jax.Array) -> jax.Array:
        return scores_V.at[banned_W].set(-jnp.inf, mode='drop')

    # Row by row, so that devices with different rows exchange nothing.
    return jax.vmap(forbid)(scores, banned_RW)


def force_prefixes(
    scores: jax.Array,
    allowed: jax.Array,
    position: jax.Array,
    prefixes: jax.Array,
    pad_id: int = 0,
) -> jax.Array:
    """Return `allowed`, but within a prefix its token alone, with its own score.

    Args:
      scores: [R, V] of the token at `position`.
      allowed: [R, V], the scores under the other constraints.
      position: int32 scalar.
      prefixes: [R, P] int32, the first tokens of each output, then padding.
      pad_id: padding.
    """
    length = prefixes.shape[1]
    forced_R = prefixes[:, jnp.minimum(position, length - 1)]
    is_forced_R = (position < length) & (forced_R != pad_id)
    is_token_RV = jnp.arange(scores.shape[1])[None] == forced_R[:, None]
    only_RV = jnp.where(is_token_RV, scores, -jnp.inf)
    return jnp.where(is_forced_R[:, None], only_RV, allowed)
