"""All that a run has to remember from one step to the next."""

from typing import Any

import flax
import jax
import jax.numpy as jnp
import optax

from transformer_jax.model import Transformer
from transformer_jax.training.loss import LossSums


@flax.struct.dataclass
class TrainState:
    """The state after `step` steps.

    Attributes:
      step: [] int32, steps taken; with the config's seeds it determines the next batch and its
        dropout, so that neither iterators nor random keys need saving.
      params: the model's parameters, nested dicts of float32.
      opt_state: optax's.
      window: loss summed since the last log line; kept here so that a resumed run logs the same.
    """

    step: jax.Array
    params: Any
    opt_state: optax.OptState
    window: LossSums


def init_state(
    model: Transformer, optimizer: optax.GradientTransformation, seed: int
) -> TrainState:
    """A fresh state, its parameters drawn from `seed`."""
    tokens = jnp.zeros((1, 1), jnp.int32)
    params = model.init(jax.random.key(seed), tokens, tokens)['params']
    return TrainState(jnp.int32(0), params, optimizer.init(params), LossSums.zero())
