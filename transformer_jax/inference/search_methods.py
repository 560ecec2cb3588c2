"""The two ways to decode a batch: beam search and sampling."""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from transformer_jax.config.validation import check_types
from transformer_jax.decoding import Hypotheses, beam_search, sample
from transformer_jax.decoding.hypotheses import StepFn
from transformer_jax.errors import UserError
from transformer_jax.model import DecodingCache, grow_cache, reorder_hypotheses, select_sentences

# Numbers that are arguments of a compiled program, so that changing them compiles nothing.
Values = dict[str, Any]


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
        """Number of hypotheses in each row of a batch."""
        return self.beam_size

    def rows_per_sentence(self, n_best: int) -> int:
        """Return the number of rows that `n_best` outputs take: one beam holds all of them."""
        del n_best
        return 1

    def split(self) -> tuple[Values, 'BeamSearch']:
        """Return the values that are arguments of the program, and the method without them."""
        values = {'alpha': np.float32(self.length_penalty)}
        return values, dataclasses.replace(self, length_penalty=0.0)

    def run(
        self,
        step_fn: StepFn,
        cache: DecodingCache,
        batch: Batch,
        limits: jax.Array,
        values: Values,
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
          values: from `split`.
          length: T, the greatest of the limits.
          eos_id: the token that ends an output.
          unknown_id: a token that is never sampled, or None.
          one_device: whether all rows are on one device.
        """
        del unknown_id
        return beam_search(
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
        """Number of hypotheses in each row of a batch."""
        return 1

    def rows_per_sentence(self, n_best: int) -> int:
        """Return the number of rows that `n_best` outputs take: each one is a row."""
        return n_best

    def split(self) -> tuple[Values, 'Sampling']:
        """Return the values that are arguments of the program, and the method without them."""
        values = {'temperature': np.float32(self.temperature), 'seed': np.uint32(self.seed)}
        return values, dataclasses.replace(self, temperature=1.0, seed=0)

    def run(
        self, step_fn, cache, batch, limits, values, *, length, eos_id, unknown_id, one_device
    ) -> Hypotheses:
        """Decode a batch, see `BeamSearch.run`."""
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


SearchMethod = BeamSearch | Sampling


def _cache_lengths(rows: int, source_length: int, longest: int) -> list[int]:
    """Return the lengths to which the cache grows before the longest.

    Few outputs are much longer than their sources, so most of the search runs with a shorter cache.
    """
    likely = min(longest, source_length + max(8, source_length // 4))
    stages = min(4, math.ceil(likely / 30)) if rows >= 16 else 1
    return [math.ceil(likely * stage / stages) for stage in range(1, stages + 1)]
