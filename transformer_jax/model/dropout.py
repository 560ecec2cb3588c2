"""Dropout (section 5.4)."""

import jax
from flax import linen as nn

from transformer_jax.model.kernels.dropout import dropout


class Dropout(nn.Module):
    """Applies `dropout` with a key of the rng 'dropout'.

    Attributes:
      rate: share of elements set to zero.
    """

    rate: float

    @nn.compact
    def __call__(self, x: jax.Array, *, deterministic: bool) -> jax.Array:
        """Return `x` [..., C] after dropout; unchanged if `deterministic`."""
        if deterministic or self.rate == 0.0:
            return x
        return dropout(x, self.rate, self.make_rng('dropout'))
