"""The mean of checkpoints (section 6.1 of the paper)."""

import logging
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from transformer_jax.checkpointing.manager import Checkpoints
from transformer_jax.errors import first_line
from transformer_jax.runtime.signals import stop_if_requested

_logger = logging.getLogger('transformer_jax')


def average(
    checkpoints: Checkpoints,
    steps: Sequence[int],
    count: int | None = None,
    like: Any = None,
    largest_gap: float = math.inf,
) -> tuple[Any, list[int]]:
    """Return the mean of the weights of checkpoints.

    If a checkpoint has a moving average of its parameters, that average is its weights.

    Args:
      checkpoints: a run's checkpoints.
      steps: the steps of the checkpoints to average, in order of preference. A checkpoint that
        cannot be read is left out with a warning.
      count: the most checkpoints to average; None averages all.
      like: parameters whose shardings the result gets; None returns NumPy arrays.
      largest_gap: a step that lies further than this behind the one before ends the mean, once one
        has been read. See `CheckpointChoice.largest_gap`.

    Returns:
      The parameters, and the steps they are the mean of, ascending.

    Raises:
      UserError: if a checkpoint cannot be reached now.
      FileNotFoundError: if no checkpoint can be read.
    """
    total, used = None, []
    for before, step in zip([math.inf, *steps], steps, strict=False):
        if len(used) == count or (used and before - step > largest_gap):
            break
        stop_if_requested()
        try:
            weights = checkpoints.restore_weights(step, like)
        except Exception as error:  # orbax and tensorstore raise many kinds
            checkpoints.check_in_reach(step, error)
            gone = not checkpoints.path(step).exists()
            what = 'deleted by another process' if gone else f'damaged ({first_line(error)})'
            _logger.warning('The checkpoint of step %d is %s: it is left out.', step, what)
            continue
        total = weights if total is None else jax.tree.map(lambda a, b: a + b, total, weights)
        used.append(step)
    if not used:
        raise FileNotFoundError(f'no readable checkpoint in {checkpoints.directory}')
    # Multiply, because XLA and NumPy round quotients differently, and training must end with the
    # same weights as `evaluate` computes.
    share = np.float32(1 / len(used))
    return jax.tree.map(lambda x: x * share, total), sorted(used)
