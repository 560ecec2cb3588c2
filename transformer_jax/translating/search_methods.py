"""How a batch is decoded: by beam search or by sampling, and under which constraints."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from transformer_jax.config import DecodeConfig
from transformer_jax.config.validation import check_types
from transformer_jax.decoding import Constraints, Hypotheses, beam_search, sample
from transformer_jax.decoding.hypotheses import StepFn
from transformer_jax.errors import UserError
from transformer_jax.inference.network import Caches, CrossAttention, grow, reorder, select

# Numbers that are arguments of a compiled program, so that changing them compiles nothing.
Values = dict[str, Any]


class Batch(NamedTuple):
    """Rows that are decoded together.

    Attributes:
      source: [B, S] int32 ids; a row of padding is an empty one.
      line: [B] int32, the line number of each row's sentence.
      draw: [B] int32, which of its line's draws each row is.
      prefix: [B, P] int32, the forced first tokens of each output, then 0; None if there are none.
    """

    source: Any
    line: Any
    draw: Any
    prefix: Any = None


@dataclasses.dataclass(frozen=True)
class BeamSearch:
    """Searches for the outputs with the highest scores.

    Attributes:
      beam_size: hypotheses kept at each step.
      length_penalty: alpha of `transformer_jax.decoding.length_penalty`.
      length_norm: kind of that penalty.
      n_best: number of outputs, at most the beam size.
      coverage_penalty: beta of `transformer_jax.decoding.coverage_penalty`.
      attention: the attention that covers the source; None if there is no coverage penalty.
    """

    beam_size: int
    length_penalty: float
    length_norm: str = 'gnmt'
    n_best: int = 1
    coverage_penalty: float = 0.0
    attention: CrossAttention | None = None

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
        values = {
            'alpha': np.float32(self.length_penalty),
            'beta': np.float32(self.coverage_penalty),
            'n_best': np.int32(self.n_best),
        }
        without = {'length_penalty': 0.0, 'coverage_penalty': 0.0, 'n_best': 1}
        return values, dataclasses.replace(self, **without)

    def run(
        self,
        step_fn: StepFn,
        caches: Caches,
        batch: Batch,
        limits: jax.Array,
        values: Values,
        *,
        length: int,
        eos_id: int,
        constraints: Constraints,
        one_device: bool,
    ) -> Hypotheses:
        """Decode a batch.

        Args:
          step_fn: as for `transformer_jax.decoding.beam_search`, with `attention` if that is set.
          caches: from `Ensemble.start_decoding`.
          batch: the rows.
          limits: [B] int32, the greatest number of tokens of each output.
          values: from `split`.
          length: T, the greatest of the limits.
          eos_id: the token that ends an output.
          constraints: what outputs must not contain.
          one_device: whether all rows are on one device.
        """
        is_padding_BS = (batch.source == 0).astype(jnp.float32)
        return beam_search(
            step_fn,
            caches,
            limits,
            length=length,
            beam_size=self.beam_size,
            eos_id=eos_id,
            alpha=values['alpha'],
            length_norm=self.length_norm,
            beta=values['beta'],
            coverage=None if self.attention is None else is_padding_BS,
            constraints=constraints,
            prefixes=batch.prefix,
            n_best=values['n_best'],
            reorder=reorder,
            grow=grow,
            cache_lengths=_cache_lengths(*batch.source.shape, length),
            # Devices do not exchange their sentences.
            select=select if one_device else None,
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

    attention = None  # a sample needs none

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
        self, step_fn, caches, batch, limits, values, *, length, eos_id, constraints, one_device
    ) -> Hypotheses:
        """Decode a batch, see `BeamSearch.run`."""
        del one_device
        fold = jax.vmap(jax.random.fold_in)
        keys_B = jnp.repeat(jax.random.key(values['seed'])[None], len(batch.line))
        return sample(
            step_fn,
            grow(caches, length),
            limits,
            fold(fold(keys_B, batch.line), batch.draw),
            length=length,
            eos_id=eos_id,
            temperature=values['temperature'],
            top_k=self.top_k,
            top_p=self.top_p,
            constraints=constraints,
            prefixes=batch.prefix,
        )


SearchMethod = BeamSearch | Sampling


class Search(NamedTuple):
    """What is asked for about each sentence.

    Attributes:
      method: how outputs are found.
      constraints: what they must not contain.
      n_best: outputs for each sentence.
      max_extra_length: limit on the tokens that an output has more than its source.
    """

    method: SearchMethod
    constraints: Constraints
    n_best: int
    max_extra_length: int

    @classmethod
    def of(
        cls,
        decode: DecodeConfig,
        *,
        n_best: int = 1,
        sampling: Sampling | None = None,
        suppress: Sequence[int] = (),
    ) -> 'Search':
        """Return the search that a section `decode` describes.

        Args:
          decode: the options.
          n_best: outputs for each sentence; for beam search, at most the beam size.
          sampling: samples the outputs; None searches for the best ones.
          suppress: ids of `decode.suppress_tokens`.
        """
        covers = decode.coverage_penalty > 0
        method = sampling or BeamSearch(
            decode.beam_size,
            decode.length_penalty,
            decode.length_norm,
            n_best,
            decode.coverage_penalty,
            CrossAttention.of(decode) if covers else None,
        )
        constraints = Constraints(decode.min_length, decode.no_repeat_ngram, tuple(suppress))
        return cls(method, constraints, n_best, decode.max_extra_length)


def _cache_lengths(rows: int, source_length: int, longest: int) -> list[int]:
    """Return the lengths to which the cache grows before the longest.

    Few outputs are much longer than their sources, so most of the search runs with a shorter cache.
    If the sizes are symbolic, there is one length only.
    """
    if export.is_symbolic_dim(longest):
        return []
    if export.is_symbolic_dim(rows):
        rows = 1
    likely = min(longest, source_length + max(8, source_length // 4))
    stages = min(4, math.ceil(likely / 30)) if rows >= 16 else 1
    return [math.ceil(likely * stage / stages) for stage in range(1, stages + 1)]
