"""Steps whose loss or gradient is not finite: skipped with a warning, or the end of the run."""

import logging

import jax
import numpy as np

from transformer_jax.errors import UserError
from transformer_jax.training.run import Run
from transformer_jax.training.state import TrainState

_logger = logging.getLogger('transformer_jax')


def check_finite(run: Run, state: TrainState) -> None:
    """Log a warning about skipped steps, or raise UserError if steps must not be skipped.

    Args:
      run: the run.
      state: the state; its window counts the skipped steps.
    """
    window, taken = jax.device_get((state.window, state.opt_state[0].count))
    step = int(window.first_skipped)
    if not step:
        return
    bucket, ids = run.data.plan.batch(step - 1)
    # The schedule counts only steps that were taken.
    before = step - 1 - (int(state.step) - int(taken) - int(window.skipped))
    rate = run.learning_rate(np.int32(before))
    what = (
        f'the loss or the gradient of step {step} was not finite (learning rate '
        f'{float(rate):.2e}, batch of '
        f'{np.count_nonzero(ids >= 0)} pairs in rows of {bucket.source_length} + '
        f'{bucket.target_length} tokens, the first of them pair {ids.flat[0]})'
    )
    if run.config.train.on_nonfinite == 'skip':
        _logger.warning('Skipped %d steps: %s.', int(window.skipped), what)
        return
    steps = run.checkpoints.steps()
    kept = f'the checkpoint of step {steps[-1]} is kept' if steps else 'no step was saved before'
    raise UserError(
        f"train.on_nonfinite='stop' ends the run: {what}; {kept}. Set it to 'skip' to continue "
        'without such steps, or start again with a lower optimizer.learning_rate_scale.'
    )
