"""All that a run has to remember from one step to the next."""

from typing import Any, NamedTuple

import flax
import jax
import jax.numpy as jnp
import optax

from transformer_jax.model import Transformer
from transformer_jax.training.loss import LossSums


class Window(NamedTuple):
    """What happened since the last log line.

    Attributes:
      sums: losses of the steps taken.
      skipped: [] int32, steps not taken since their loss or gradient was not finite.
      first_skipped: [] int32, the first of them, counted from 1; 0 where there is none.
    """

    sums: LossSums
    skipped: jax.Array
    first_skipped: jax.Array

    @classmethod
    def empty(cls) -> 'Window':
        """The window that begins now."""
        return cls(LossSums.zero(), jnp.int32(0), jnp.int32(0))


@flax.struct.dataclass
class TrainState:
    """The state after `step` steps.

    Attributes:
      step: [] int32, steps taken or skipped; with the config's seeds it determines the next batch
        and its dropout, so that neither iterators nor random keys need saving.
      params: the model's parameters, nested dicts of float32.
      ema: exponential moving average of the parameters; None where there is none.
      opt_state: optax's.
      window: kept here so that a resumed run logs the same.
    """

    step: jax.Array
    params: Any
    ema: Any
    opt_state: optax.OptState
    window: Window

    @property
    def weights(self) -> Any:
        """The parameters to evaluate and to translate with: the average, where there is one."""
        return self.params if self.ema is None else self.ema

    def items(self) -> dict[str, Any]:
        """The parts of the state as a checkpoint stores them; see `Checkpoints`."""
        average = {} if self.ema is None else {'ema': self.ema}
        rest = {'step': self.step, 'opt_state': self.opt_state, 'window': self.window}
        return {'params': self.params, **average, 'rest': rest}

    @classmethod
    def from_items(cls, items: dict[str, Any]) -> 'TrainState':
        """The state whose parts a checkpoint has stored."""
        return cls(params=items['params'], ema=items.get('ema'), **items['rest'])


def with_weights(state: TrainState, weights: Any) -> TrainState:
    """A fresh state with the weights of another run in place of its random ones.

    Args:
      state: from `init_state`, laid on the devices.
      weights: parameters of the same shapes, nested dicts of NumPy arrays.
    """
    shardings = jax.tree.map(lambda x: x.sharding, state.params)
    # Copies, for the next step writes over its arrays, and over each of them once only.
    copy = jax.jit(lambda tree: jax.tree.map(jnp.copy, tree), out_shardings=shardings)
    placed = jax.device_put(weights, shardings)
    return state.replace(params=copy(placed), ema=None if state.ema is None else copy(placed))


def init_state(
    model: Transformer,
    optimizer: optax.GradientTransformation,
    seed: int | jax.Array,
    *,
    with_ema: bool = False,
) -> TrainState:
    """A fresh state, its parameters drawn from `seed`."""
    tokens = jnp.zeros((1, 1), jnp.int32)
    # Without constraints: one row cannot be divided among devices.
    bare = Transformer(model.config, model.vocab_size)
    params = bare.init(jax.random.key(seed), tokens, tokens)['params']
    ema = jax.tree.map(jnp.copy, params) if with_ema else None
    return TrainState(jnp.int32(0), params, ema, optimizer.init(params), Window.empty())
