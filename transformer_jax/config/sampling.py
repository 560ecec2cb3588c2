"""How outputs are sampled."""

import dataclasses

from transformer_jax.config.validation import check_types
from transformer_jax.errors import UserError


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
