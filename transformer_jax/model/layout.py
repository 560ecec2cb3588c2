"""The hook through which a model on many devices is told where its arrays lie."""

import jax


class Layout:
    """Where arrays lie on the devices; this one leaves it to whoever calls the model.

    Equal layouts compare and hash as equal, since models are static arguments of `jax.jit`.

    Attributes:
      row_groups: parts that the rows of a batch are divided into; they divide every batch.
    """

    row_groups: int = 1

    def __call__(self, x: jax.Array, dimensions: str) -> jax.Array:
        """`x`, laid out by its dimensions.

        Args:
          x: any array of the model.
          dimensions: a letter for each of its axes, as in the dimension key ('BTD').
        """
        del dimensions
        return x

    def in_groups(self, x: jax.Array) -> jax.Array:
        """[B, ...] to [G, R, ...], R rows for each of G groups."""
        x_GR = x.reshape(self.row_groups, -1, *x.shape[1:])
        return self(x_GR, 'GR' + '-' * (x.ndim - 1))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))
