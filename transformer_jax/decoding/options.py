"""What a search looks for."""

import dataclasses
import functools
import math
from typing import Any

import jax

from transformer_jax.decoding.constraints import UNCONSTRAINED, Constraints
from transformer_jax.decoding.penalties import LENGTH_NORMS

Number = float | jax.Array
# Changing these compiles nothing: they are arguments of a compiled program.
_VALUES = ('n_best', 'length_penalty', 'coverage_penalty', 'temperature', 'seed')
_STATIC = (
    'beam_size',
    'length_norm',
    'coverage_layer',
    'coverage_heads',
    'top_k',
    'top_p',
    'constraints',
    'max_extra_length',
)


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=list(_VALUES), meta_fields=list(_STATIC)
)
@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """Options of beam search, and of sampling if there is a temperature.

    It is a pytree. Its leaves are the numbers that may change without compiling again: n_best,
    penalties, temperature and seed.

    Attributes:
      beam_size: K, hypotheses kept at each step; 1 is greedy search.
      n_best: number of outputs that must be the best ones, at most K.
      length_penalty: alpha of the length penalty.
      length_norm: kind of the length penalty, one of `penalties.LENGTH_NORMS`.
      coverage_penalty: beta of the coverage penalty; None for none.
      coverage_layer: decoder layer whose cross attention covers the source, counted from 1; 0 is
        the last but one.
      coverage_heads: heads of that layer, counted from 0; none stands for all.
      temperature: divides the log-probabilities of tokens that are drawn; None searches.
      top_k: draws from the k most likely tokens only; 0 from all.
      top_p: draws from the most likely tokens that add up to p; 1 from all.
      seed: determines the draws.
      constraints: what outputs must not contain.
      max_extra_length: limit on the tokens that an output has more than its source.
    """

    beam_size: int = 4
    n_best: int | jax.Array = 1
    length_penalty: Number = 0.6
    length_norm: str = 'gnmt'
    coverage_penalty: Number | None = None
    coverage_layer: int = 0
    coverage_heads: tuple[int, ...] = ()
    temperature: Number | None = None
    top_k: int = 0
    top_p: float = 1.0
    seed: int | jax.Array = 0
    constraints: Constraints = UNCONSTRAINED
    max_extra_length: int = 50

    @property
    def is_sampling(self) -> bool:
        """Whether outputs are drawn, each in a row of its own, and not searched for."""
        return self.temperature is not None

    @property
    def hypotheses_per_row(self) -> int:
        """Number of hypotheses in each row of a batch."""
        return 1 if self.is_sampling else self.beam_size

    @property
    def rows_per_sentence(self) -> int:
        """Number of rows that the outputs of a sentence take: one beam holds all of them."""
        return int(self.n_best) if self.is_sampling else 1

    def replace(self, **fields: Any) -> 'SearchOptions':
        """Return the options with other values of some fields.

        Raises:
          TypeError: if there is no such field.
        """
        return dataclasses.replace(self, **fields) if fields else self

    def check(self) -> None:
        """Raise a ValueError if a number is out of range, as far as it is known when compiling."""
        most = math.inf if self.is_sampling else self.beam_size
        if _is_known(self.n_best) and not 1 <= self.n_best <= most:
            raise ValueError(f'n_best={self.n_best} must be from 1 to beam_size={self.beam_size}.')
        if _is_known(self.length_penalty) and not math.isfinite(self.length_penalty):
            raise ValueError(f'length_penalty={self.length_penalty} must be a finite number.')
        if self.length_norm not in LENGTH_NORMS:
            raise ValueError(
                f'length_norm={self.length_norm!r} must be one of {", ".join(LENGTH_NORMS)}.'
            )
        if _is_known(self.temperature) and not 0.0 < self.temperature < math.inf:
            raise ValueError(f'temperature={self.temperature} must be greater than 0 and finite.')
        if self.top_k < 0:
            raise ValueError(f'top_k={self.top_k} must be 0 (all tokens) or greater.')
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f'top_p={self.top_p} must be greater than 0 and at most 1.')


BEAM_OF_FOUR = SearchOptions()  # as in the paper
ONE_SAMPLE = SearchOptions(temperature=1.0)


def _is_known(value: Any) -> bool:
    return isinstance(value, int | float)
