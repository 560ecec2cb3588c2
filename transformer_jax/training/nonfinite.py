"""Steps whose loss or gradient is not finite: skipped with a warning, or the end of the run."""

import logging

import jax
import numpy as np

from transformer_jax.checkpointing.manager import Checkpoints
from transformer_jax.config import Config
from transformer_jax.data.batching import BatchPlan
from transformer_jax.errors import UserError
from transformer_jax.training.optimizer import noam_schedule
from transformer_jax.training.state import TrainState
from transformer_jax.training.train_log import with_empty_window

_logger = logging.getLogger('transformer_jax')


def check_finite(
    config: Config, plan: BatchPlan, checkpoints: Checkpoints, state: TrainState
) -> None:
    """Log a warning about skipped steps, or raise UserError if steps must not be skipped.

    Args:
      config: the run's config.
      plan: the run's batch plan, to name the batch.
      checkpoints: the run's, to name the last one.
      state: the state; its window counts the skipped steps.
    """
    window, taken = jax.device_get((state.window, state.opt_state[0].count))
    step = int(window.first_skipped)
    if not step:
        return
    epoch, index = plan.locate(step - 1)
    bucket, ids = plan.epoch(epoch)[index]
    # The schedule counts only steps that were taken.
    before = step - 1 - (int(state.step) - int(taken) - int(window.skipped))
    rate = noam_schedule(
        config.model.d_model, config.optimizer.warmup_steps, config.optimizer.learning_rate_scale
    )(np.int32(before))
    what = (
        f'the loss or the gradient of step {step} was not finite (learning rate '
        f'{float(rate):.2e}, batch {index} of epoch {epoch}: '
        f'{bucket.rows} pairs of up to {bucket.source_length} + {bucket.target_length} tokens, '
        f'the first of them pair {ids[0]})'
    )
    if config.train.on_nonfinite == 'skip':
        _logger.warning('Skipped %d steps: %s.', int(window.skipped), what)
        return
    steps = checkpoints.steps()
    kept = f'the checkpoint of step {steps[-1]} is kept' if steps else 'no step was saved before'
    raise UserError(
        f"train.on_nonfinite='stop' ends the run: {what}; {kept}. Set it to 'skip' to continue "
        'without such steps, or start again with a lower optimizer.learning_rate_scale.'
    )


def forget_skipped_steps(config: Config, state: TrainState) -> TrainState:
    """Return a resumed state that does not count earlier skipped steps, if skipping is now off."""
    window = state.window
    if config.train.on_nonfinite == 'skip' or not int(window.first_skipped):
        return state
    _logger.warning(
        'Since the last log line before this start, %d steps were skipped, from step %d on.',
        int(window.skipped),
        int(window.first_skipped),
    )
    empty = with_empty_window(state).window
    return state.replace(window=empty._replace(sums=window.sums))
