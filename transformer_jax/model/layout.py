"""The hook that tells a model on many devices where to put its arrays."""

import jax


class Layout:
    """Where arrays lie on the devices; this class leaves it to the caller of the model.

    Equal layouts compare and hash as equal, because models are static arguments of `jax.jit`.

    Attributes:
      row_groups: the number of groups into which rows are divided; it divides every batch.
    """

    row_groups: int = 1

    def __call__(self, x: jax.Array, dimensions: str) -> jax.Array:
        """Return `x`, laid out by its dimensions.

        Args:
          x: any array of the model.
          dimensions: a letter for each axis of `x`, as in the dimension key ('BTD').
        """
        del dimensions
        return x

    def in_groups(self, x: jax.Array) -> jax.Array:
        """Reshape [B, ...] to [G, R, ...], R rows for each of G groups."""
        x_GR = x.reshape(self.row_groups, -1, *x.shape[1:])
        return self(x_GR, 'GR' + '-' * (x.ndim - 1))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))
