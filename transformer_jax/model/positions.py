"""Positional encoding (paper, section 3.5)."""

import jax
import jax.numpy as jnp


def sinusoidal_positions(positions: jax.Array, size: int, *, halves: bool = False) -> jax.Array:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same.

    Computed from the positions, not looked up, so that there is no longest sentence.

    Args:
      positions: [...] int positions, counted from 0.
      size: D, even.
      halves: all sines, then all cosines, instead of in turn: the same columns in another order.

    Returns:
      [..., D] float32, sines in the even columns and cosines in the odd ones.

    Raises:
      ValueError: if `size` is odd.
    """
    if size % 2:
        raise ValueError(f'sinusoidal positions need an even size, not {size}.')
    frequencies = 10000.0 ** (-jnp.arange(0, size, 2, dtype=jnp.float32) / size)
    angles = positions[..., None].astype(jnp.float32) * frequencies.reshape(
        (1,) * positions.ndim + (-1,)
    )
    waves = [jnp.sin(angles), jnp.cos(angles)]
    if halves:
        return jnp.concatenate(waves, axis=-1)
    return jnp.stack(waves, axis=-1).reshape(*positions.shape, size)
