"""What a run keeps from one step to the next."""

from typing import Any, NamedTuple

import flax
import jax
import jax.numpy as jnp
import optax

from transformer_jax.model import Layout, Transformer
from transformer_jax.training.loss import LossSums


class LogWindow(NamedTuple):
    """What happened since the last log line.

    Attributes:
      sums: the losses of the steps taken.
      skipped: [] int32, the number of steps skipped because a loss or gradient was not finite.
      first_skipped: [] int32, the first skipped step, counted from 1; 0 if there is none.
    """

    sums: LossSums
    skipped: jax.Array
    first_skipped: jax.Array

    @classmethod
    def empty(cls) -> 'LogWindow':
        """Return a window that starts now."""
        return cls(LossSums.zero(), jnp.int32(0), jnp.int32(0))


@flax.struct.dataclass
class TrainState:
    """The state after `step` steps.

    Attributes:
      step: [] int32, steps taken or skipped. With the config's seeds it determines the next batch
        and its dropout, so no iterator and no random key has to be saved.
      params: the model's parameters, nested dicts of float32 arrays.
      ema: the exponential moving average of the parameters; None if the run keeps none.
      opt_state: the state of the optax optimizer.
      window: sums for the next log record. They are saved, so a resumed run logs the same.
    """

    step: jax.Array
    params: Any
    ema: Any
    opt_state: optax.OptState
    window: LogWindow

    @property
    def weights(self) -> Any:
        """The parameters to evaluate and translate with: the moving average if there is one."""
        return self.params if self.ema is None else self.ema

    def items(self) -> dict[str, Any]:
        """Return the parts of the state as a checkpoint stores them; see `Checkpoints`."""
        average = {} if self.ema is None else {'ema': self.ema}
        rest = {'step': self.step, 'opt_state': self.opt_state, 'window': self.window}
        return {'params': self.params, **average, 'rest': rest}

    @classmethod
    def from_items(cls, items: dict[str, Any]) -> 'TrainState':
        """Return the state whose parts a checkpoint has stored."""
        return cls(params=items['params'], ema=items.get('ema'), **items['rest'])


def with_weights(state: TrainState, weights: Any) -> TrainState:
    """Return a fresh state with the weights of another run in place of the random ones.

    Args:
      state: from `init_state`, on the devices.
      weights: parameters of the same shapes, nested dicts of NumPy arrays.
    """
    shardings = jax.tree.map(lambda x: x.sharding, state.params)
    # Copies, because a step overwrites its arrays: parameters and average must not share any.
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
    """Return a fresh state whose parameters are drawn from `seed`."""
    tokens = jnp.zeros((1, 1), jnp.int32)
    # Without sharding constraints, because one row cannot be divided among devices.
    bare = model.clone(layout=Layout())
    params = bare.init(jax.random.key(seed), tokens, tokens)['params']
    ema = jax.tree.map(jnp.copy, params) if with_ema else None
    return TrainState(jnp.int32(0), params, ema, optimizer.init(params), LogWindow.empty())
