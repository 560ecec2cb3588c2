"""Adam and learning-rate schedules in optax; the default is the paper's (section 5.3)."""

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


def make_schedule(
    config: OptimizerConfig, d_model: int, steps: int | None = None
) -> optax.Schedule:
    """Return the learning rate that the config asks for, as `noam_schedule` returns it.

    All schedules rise linearly to their peak, which they reach at step `warmup_steps`. 'linear' and
    'cosine' then fall so that the step after the last one would have a learning rate of 0.

    Args:
      config: the settings.
      d_model: width of the model.
      steps: length of the training, which 'linear' and 'cosine' need.

    Raises:
      ValueError: if they miss it.
    """
    if config.schedule == 'noam':
        return noam_schedule(d_model, config.warmup_steps, config.learning_rate_scale)
    if config.ends and steps is None:
        raise ValueError(f'schedule={config.schedule!r} needs steps, the length of the training.')
    peak, warmup, end = config.learning_rate, config.warmup_steps, (steps or 0) + 1
    if config.schedule == 'cosine':
        of_step = optax.warmup_cosine_decay_schedule(0.0, peak, warmup, end)
    else:
        last = peak if config.schedule == 'constant' else 0.0
        of_step = optax.join_schedules(
            [
                optax.linear_schedule(0.0, peak, warmup),
                optax.linear_schedule(peak, last, end - warmup if config.ends else 1),
            ],
            [warmup],
        )
    return lambda count: of_step(count + 1)


def make_optimizer(
    config: OptimizerConfig, d_model: int, schedule: optax.Schedule | None = None
) -> optax.GradientTransformation:
    """Return Adam with the config's settings, or AdamW if weight_decay is not 0.

    Args:
      config: the settings, of which clip_norm scales the gradients before Adam sees them.
      d_model: width of the model.
      schedule: maps the number of updates made to a learning rate; None takes the config's.

    Raises:
      ValueError: if the config's schedule needs the length of the training: see `make_schedule`.
    """
    if schedule is None:
        schedule = make_schedule(config, d_model)
    adam = {'b1': config.beta1, 'b2': config.beta2, 'eps': config.epsilon}
    if config.weight_decay:
        optimizer = optax.adamw(schedule, **adam, weight_decay=config.weight_decay, mask=_matrices)
    else:
        optimizer = optax.adam(schedule, **adam)
    return _clipped(optimizer, config.clip_norm) if config.clip_norm else optimizer


def _clipped(
    optimizer: optax.GradientTransformation, max_norm: float
) -> optax.GradientTransformation:
    """Return an optimizer of clipped gradients, whose state is the one it has without clipping."""
    clip = optax.clip_by_global_norm(max_norm)

    def update(gradients: Any, state: optax.OptState, params: Any = None) -> Any:
        clipped, _ = clip.update(gradients, clip.init(params), params)
        return optimizer.update(clipped, state, params)

    return optax.GradientTransformation(optimizer.init, update)


def _matrices(params: Any) -> Any:
    """Return True for each parameter that decays: all but biases and layer-norm scales."""
    return jax.tree_util.tree_map_with_path(
        lambda path, _: not path[-1].key.endswith(('bias', 'scale')), params
    )
