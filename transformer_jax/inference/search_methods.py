"""The two ways to decode a batch: beam search and sampling."""

import dataclasses
import math
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from transformer_jax.config.validation import check_types
from transformer_jax.decoding import Hypotheses, beam_search, sample
from transformer_jax.decoding.hypotheses import StepFn
from transformer_jax.errors import UserError
from transformer_jax.model import (
    DecodingCache,
    grow_cache,
    reorder_hypotheses,
    select_sentences,
)


class Batch(NamedTuple):
    """Rows that are decoded together.

    Attributes:
      source: [B, S] int32 ids; a row of padding is an empty one.
      line: [B] int32, the line number of each row's sentence.
      draw: [B] int32, which of its sentence's draws each row is.
    """

    source: Any
    line: Any
    draw: Any


class SearchMethod(Protocol):
    """The interface of a search method, which is a frozen dataclass."""

    @property
    def hypotheses_per_row(self) -> int:
        """Number of hypotheses in each row of a batch."""

    def rows_per_sentence(self, n_best: int) -> int:
        """Return how many rows of a batch `n_best` outputs of a sentence take."""

    def values(self) -> dict[str, np.generic]:
        """Return the numbers that are arguments of the program: changing them compiles nothing."""

    def without_values(self) -> 'SearchMethod':
        """Return the method for which a program is compiled: `values` have no influence on it."""

    def run(
        self,
        step_fn: StepFn,
        cache: DecodingCache,
        batch: Batch,
        limits: jax.Array,
        values: dict[str, jax.Array],
        *,
        length: int,
        eos_id: int,
        unknown_id: int | None,
        one_device: bool,
    ) -> Hypotheses:
        """Decode a batch.

        Args:
          step_fn: as for `transformer_jax.decoding.beam_search`.
          cache: from `Transformer.start_decoding`.
          batch: the rows.
          limits: [B] int32, the greatest number of tokens of each output.
          values: as `self.values()`, possibly traced.
          length: T, the greatest of the limits.
          eos_id: the token that ends an output.
          unknown_id: a token that is never sampled, or None.
          one_device: whether all rows are on one device.
        """


@dataclasses.dataclass(frozen=True)
class BeamSearch:
    """Searches for the outputs with the highest scores.

    Attributes:
      beam_size: hypotheses kept at each step.
      length_penalty: alpha of `transformer_jax.decoding.length_penalty`.
      n_best: number of outputs, at most the beam size.
    """

    beam_size: int
    length_penalty: float
    n_best: int = 1

    @property
    def hypotheses_per_row(self) -> int:
        """The beam size."""
        return self.beam_size

    def rows_per_sentence(self, n_best: int) -> int:
        """Return 1: one beam holds all outputs of a sentence."""
        del n_best
        return 1

    def values(self) -> dict[str, np.generic]:
        """Return the length penalty."""
        return {'alpha': np.float32(self.length_penalty)}

    def without_values(self) -> 'BeamSearch':
        """Return the method with a neutral length penalty."""
        return dataclasses.replace(self, length_penalty=0.0)

    def run(
        self, step_fn, cache, batch, limits, values, *, length, eos_id, unknown_id, one_device
    ) -> Hypotheses:
        """Decode a batch; see `SearchMethod.run`."""
        del unknown_id
        found = beam_search(
            step_fn,
            cache,
            limits,
            length=length,
            beam_size=self.beam_size,
            eos_id=eos_id,
            alpha=values['alpha'],
            n_best=self.n_best,
            reorder=reorder_hypotheses,
            grow=grow_cache,
            cache_lengths=_cache_lengths(*batch.source.shape, length),
            # Devices do not exchange their sentences.
            select=select_sentences if one_device else None,
        )
        return jax.tree.map(lambda x_BK: x_BK[:, : self.n_best], found)


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Samples outputs instead of searching for the best one.

    Attributes:
      temperature: divides the log-probabilities; a temperature below 1 favours likely tokens, one
        above 1 unlikely tokens. From 1e-6 to 1,000,000.
      top_k: samples from the k most likely tokens only, at most 10,000,000; 0 from all.
      top_p: samples from the most likely tokens that add up to p; 1 from all.
      seed: determines each sample together with the line number.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self):
        check_types('sampling', self)
        # Below this range, sampling is the same as greedy search.
        if not 1e-6 <= self.temperature <= 1e6:
            raise UserError(
                f'temperature={self.temperature} must be a number from 1e-6 to 1,000,000; '
                'leave out --sample for the likeliest tokens.'
            )
        if not 0 <= self.top_k <= 10_000_000:
            raise UserError(f'top_k={self.top_k} must be from 0 (all tokens) to 10,000,000.')
        if not 0.0 < self.top_p <= 1.0:
            raise UserError(f'top_p={self.top_p} must be greater than 0 and at most 1.')
        if not 0 <= self.seed < 2**32:  # JAX would drop the higher bits
            raise UserError(f'seed={self.seed} must be from 0 to 2^32 - 1.')

    @property
    def hypotheses_per_row(self) -> int:
        """1: a row is one draw."""
        return 1

    def rows_per_sentence(self, n_best: int) -> int:
        """Return n_best: each draw is a row of its own."""
        return n_best

    def values(self) -> dict[str, np.generic]:
        """Return temperature and seed."""
        return {'temperature': np.float32(self.temperature), 'seed': np.uint32(self.seed)}

    def without_values(self) -> 'Sampling':
        """Return the method with a neutral temperature and seed."""
        return dataclasses.replace(self, temperature=1.0, seed=0)

    def run(
        self, step_fn, cache, batch, limits, values, *, length, eos_id, unknown_id, one_device
    ) -> Hypotheses:
        """Decode a batch; see `SearchMethod.run`."""
        del one_device

        def known_step_fn(*args):
            logits_RV, cache = step_fn(*args)
            if unknown_id is not None:
                logits_RV = logits_RV.at[:, unknown_id].set(-jnp.inf)
            return logits_RV, cache

        fold = jax.vmap(jax.random.fold_in)
        keys_B = jnp.repeat(jax.random.key(values['seed'])[None], len(batch.line))
        return sample(
            known_step_fn,
            grow_cache(cache, length),
            limits,
            fold(fold(keys_B, batch.line), batch.draw),
            length=length,
            eos_id=eos_id,
            temperature=values['temperature'],
            top_k=self.top_k,
            top_p=self.top_p,
        )


def _cache_lengths(rows: int, source_length: int, longest: int) -> list[int]:
    """Return the lengths to which the cache grows before the longest.

    Few outputs are much longer than their sources, so most of the search runs with a shorter cache.
    """
    likely = min(longest, source_length + max(8, source_length // 4))
    stages = min(4, math.ceil(likely / 30)) if rows >= 16 else 1
    return [math.ceil(likely * stage / stages) for stage in range(1, stages + 1)]
