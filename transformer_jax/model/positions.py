"""Positional encoding (paper, section 3.5)."""

import numbers

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import export, lax

from transformer_jax.config import ModelConfig
from transformer_jax.model.dropout import Dropout
from transformer_jax.model.embedder import embedding_lookup


def sinusoidal_positions(
    positions: jax.Array | int, size: int, *, halves: bool = False, inclusive: bool = False
) -> jax.Array:
    """Return PE(pos, 2i) = sin(pos / 10000^(2i/d)) and PE(pos, 2i+1) = cos of the same.

    They are computed, not looked up, so sentences may have any length.

    Args:
      positions: [...] int positions, counted from 0, or their number T for all of 0 to T - 1.
      size: D, even.
      halves: all sines first, then all cosines, instead of alternating columns.
      inclusive: the frequencies go from 1 to 1/10000 and include both ends, as in tensor2tensor and
        Marian: frequency i is 10000^(-i/(d/2-1)).

    Returns:
      [..., D] float32, sines in the even columns and cosines in the odd ones.

    Raises:
      ValueError: if `size` is not positive and even, or is 2 and `inclusive`.
    """
    if isinstance(positions, numbers.Integral) or export.is_symbolic_dim(positions):
        positions = jnp.arange(positions)
    positions = jnp.asarray(positions)
    if size < 1 or size % 2:
        raise ValueError(f'sinusoidal positions need a positive even size, not {size}.')
    if inclusive and size < 4:
        raise ValueError(f'inclusive frequencies need a size of 4 or more, not {size}.')
    last = size - 2 if inclusive else size
    frequencies = 10000.0 ** (-jnp.arange(0, size, 2, dtype=jnp.float32) / last)
    angles = positions[..., None].astype(jnp.float32) * frequencies.reshape(
        (1,) * positions.ndim + (-1,)
    )
    waves = [jnp.sin(angles), jnp.cos(angles)]
    if halves:
        return jnp.concatenate(waves, axis=-1)
    return jnp.stack(waves, axis=-1).reshape(*positions.shape, size)


def check_positions(config: ModelConfig, length: int) -> None:
    """Raise a ValueError if the learned table has fewer than `length` positions.

    A symbolic length needs a constraint: jax.export.symbolic_shape('b, s', constraints=['s <= 16'])
    """
    if config.max_sequence_length is not None and length > config.max_sequence_length:
        raise ValueError(
            f'{length} positions are more than the {config.max_sequence_length} learned ones '
            '(model.max_positions).'
        )


def segment_positions(segments: jax.Array) -> jax.Array:
    """Return [B, T] int32 positions that start from 0 in each segment; 0 at padding.

    Args:
      segments: [B, T] int, the segment of each token, 0 for padding; those of a segment are
        adjacent.
    """
    is_first_BT = segments != jnp.pad(segments, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]
    index_BT = lax.broadcasted_iota(jnp.int32, segments.shape, 1)
    first_BT = lax.cummax(jnp.where(is_first_BT, index_BT, 0), axis=1)
    return jnp.where(segments == 0, 0, index_BT - first_BT)


class Positions(nn.Module):
    """Adds positions to embeddings, then applies dropout (sections 3.5 and 5.4).

    Attributes:
      config: `positions`, `max_positions` and `dropout_rate`.
    """

    config: ModelConfig

    @nn.compact
    def __call__(self, x: jax.Array, positions: jax.Array, *, deterministic: bool) -> jax.Array:
        """Add [T] int positions, [1] for all, or [B, T] below T, to [B, T, D] embeddings.

        Raises:
          ValueError: if there are more positions than the learned table has.
        """
        config = self.config
        if config.positions == 'none':
            return Dropout(config.dropout_rate)(x, deterministic=deterministic)
        packed = positions.ndim == 2
        if config.positions != 'learned':
            encoding_TD = sinusoidal_positions(
                jnp.arange(x.shape[1]) if packed else positions,
                config.d_model,
                halves=config.positions != 'sinusoidal',
                inclusive=config.positions == 'sinusoidal_marian',
            )
            encoding = encoding_TD[positions] if packed else encoding_TD[None]
        else:
            shape = (config.max_positions, config.d_model)
            init = nn.initializers.normal(config.d_model**-0.5)
            table = self.param('table', init, shape, jnp.float32)
            if packed:  # a position beyond the table gives NaN
                encoding = embedding_lookup(table, positions)
            else:
                check_positions(config, positions.shape[0])
                encoding = table[positions][None]
        x = x + encoding
        return Dropout(config.dropout_rate)(x, deterministic=deterministic)
