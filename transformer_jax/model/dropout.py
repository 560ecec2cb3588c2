"""Dropout (section 5.4)."""

import jax
from flax import linen as nn

from transformer_jax.model.kernels.dropout import KeepBits, drop, keep_bits


class Dropout(nn.Module):
    """Sets random elements to zero, with a key of the rng 'dropout'.

    Attributes:
      rate: share of elements set to zero.
    """

    rate: float

    def __call__(self, x: jax.Array, *, deterministic: bool) -> jax.Array:
        """Return `x` [..., C] after dropout; unchanged if `deterministic`."""
        return drop(x, self.keep_bits(x.shape, deterministic=deterministic))

    @nn.nowrap
    def keep_bits(self, shape: tuple[int, ...], *, deterministic: bool) -> KeepBits | None:
        """Return the bits for an array of this shape [..., C]; None if all elements stay."""
        if deterministic or self.rate == 0.0:
            return None
        return keep_bits(shape, self.rate, self.make_rng('dropout'))
