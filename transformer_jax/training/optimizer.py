"""Adam with the paper's learning-rate schedule, in optax (section 5.3)."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from transformer_jax.config import OptimizerConfig


def noam_schedule(
    d_model: int, warmup_steps: int | jax.Array, scale: float | jax.Array = 1.0
) -> optax.Schedule:
    """Return scale · d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5) (equation 3).

    Args:
      d_model: width of the model, 1 or more.
      warmup_steps: steps of linear rise; 0 for none. The peak is scale / sqrt(d_model ·
        warmup_steps).
      scale: factor on the whole schedule.

    Returns:
      A function from the number of updates already made (0 before the first) to the learning rate
      of the next update, [] float32, as optax's optimizers take it. The paper counts steps from 1.

    Raises:
      ValueError: if d_model is less than 1, or warmup_steps less than 0.
    """
    if d_model < 1:
        raise ValueError(f'd_model={d_model} must be 1 or more.')
    if isinstance(warmup_steps, int | float) and warmup_steps < 0:
        raise ValueError(f'warmup_steps={warmup_steps} must be 0 or more.')

    def schedule(count):
        step = jnp.asarray(count, jnp.float32) + 1.0
        warmup = jnp.asarray(warmup_steps, jnp.float32)
        return scale * d_model**-0.5 * jnp.minimum(step**-0.5, step * warmup**-1.5)

    return schedule


def make_optimizer(
    config: OptimizerConfig, d_model: int, schedule: optax.Schedule | None = None
) -> optax.GradientTransformation:
    """Return Adam with the config's settings, or AdamW if weight_decay is not 0.

    Args:
      config: the settings; its schedule is used only if `schedule` is None.
      d_model: width of the model.
      schedule: maps the number of updates made to a learning rate; None takes the config's.
    """
    if schedule is None:
        schedule = noam_schedule(d_model, config.warmup_steps, config.learning_rate_scale)
    adam = {'b1': config.beta1, 'b2': config.beta2, 'eps': config.epsilon}
    if not config.weight_decay:
        return optax.adam(schedule, **adam)
    return optax.adamw(schedule, **adam, weight_decay=config.weight_decay, mask=_matrices)


def _matrices(params: Any) -> Any:
    """Return True for each parameter that decays: all but biases and layer-norm scales."""
    return jax.tree_util.tree_map_with_path(
        lambda path, _: not path[-1].key.endswith(('bias', 'scale')), params
    )
