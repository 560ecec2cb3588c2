"""Sentences in batches of similar length, for whatever runs a program over whole sentences.

Scores, alignments, attention, features and the loss of a corpus all take them from here. A search
has shapes of its own, see `translating.batch_decoder`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from transformer_jax.data.batching.buckets import batches_by_length
from transformer_jax.data.batching.token_store import Sentences
from transformer_jax.runtime.signals import stop_if_requested

# Positions of a batch, for each side. On CPUs, what a batch needs should fit into the cache.
_POSITIONS = {'cpu': 2048}
_ACCELERATOR_POSITIONS = 2**15
LOSS_POSITIONS = 2048  # on all devices: training has little memory left
ATTENTION_POSITIONS = 512  # all maps and all logits are in memory together


def usual_positions() -> int:
    """Return the positions of a batch that suit the devices of this process."""
    return _POSITIONS.get(jax.default_backend(), _ACCELERATOR_POSITIONS)


def sorted_batches(
    sides: Mapping[str, Sentences],
    *,
    positions: int,
    most: int | None = None,
    max_rows: int | None = None,
) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """Yield batches of sentences or pairs, the longest first, in few shapes.

    If a sentence does not fit into memory, this shows in the first batch.

    Args:
      sides: 'source', 'target' or both, as many sentences each.
      positions: see `batches_by_length`, like `most` and `max_rows`.
      most: limit of a batch's length; None for no limit.
      max_rows: the greatest number of rows; None for no limit.

    Yields:
      [B] int, the index of the sentence of each row, -1 for a row of padding; and [B, L] int32 ids
      of each side.
    """
    lengths = np.maximum.reduce([side.lengths for side in sides.values()])
    if not len(lengths):
        return
    for (_, length, _), ids in batches_by_length(lengths, positions, most, max_rows):
        stop_if_requested()
        yield ids, {name: side.padded(ids, length) for name, side in sides.items()}


def rows_of(ids: np.ndarray, arrays: Any) -> Iterator[tuple[int, Any]]:
    """Yield the index of each sentence of a batch, and its rows of arrays that a program returned.

    Args:
      ids: from `sorted_batches`.
      arrays: a pytree whose arrays begin with the axis B.
    """
    for row, index in enumerate(ids[ids >= 0].tolist()):
        yield index, jax.tree.map(lambda x, row=row: x[row], arrays)
