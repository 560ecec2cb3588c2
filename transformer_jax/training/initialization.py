"""The state before step 1, divided among the devices."""

import functools
import math
from collections.abc import Callable

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from transformer_jax.config import Config, VocabSizes
from transformer_jax.errors import UserError
from transformer_jax.model import Transformer
from transformer_jax.runtime import program_cache
from transformer_jax.runtime.memory import format_bytes
from transformer_jax.sharding import MeshLayout, state_shardings
from transformer_jax.training.optimizer import make_optimizer, make_schedule
from transformer_jax.training.state import TrainState, init_state


def _initializer(
    config: Config, vocab_size: int | VocabSizes, mesh: Mesh
) -> Callable[[np.uint32], TrainState]:
    """Return the function that makes the initial state from a seed."""
    model = Transformer.of(config.model, vocab_size, MeshLayout(mesh))
    schedule = make_schedule(config.optimizer, config.model.d_model, config.train.steps)
    optimizer = make_optimizer(config.optimizer, config.model.d_model, schedule)
    with_ema = config.optimizer.ema_decay > 0.0
    return functools.partial(init_state, model, optimizer, with_ema=with_ema)


@functools.lru_cache(1)
def abstract_state(config: Config, vocab_size: int | VocabSizes, mesh: Mesh) -> TrainState:
    """Return `initial_state` with a `jax.ShapeDtypeStruct` in place of each array.

    Args:
      config: the run's config.
      vocab_size: V of both sides, or of each.
      mesh: the devices.

    Raises:
      UserError: if the mesh does not divide the model.
    """
    initialize = _initializer(config, vocab_size, mesh)
    shapes = jax.eval_shape(initialize, np.uint32(config.train.seed))

    def with_sharding(shape: jax.ShapeDtypeStruct, sharding: NamedSharding):
        return jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=sharding)

    return jax.tree.map(with_sharding, shapes, state_shardings(shapes, mesh))


def initial_state(config: Config, vocab_size: int | VocabSizes, mesh: Mesh) -> TrainState:
    """Return the state before step 1. Each device makes its own part.

    Args:
      config: the run's config; train.seed determines the parameters.
      vocab_size: V of both sides, or of each.
      mesh: the devices.

    Raises:
      UserError: if the mesh does not divide the model.
    """
    abstract = abstract_state(config, vocab_size, mesh)
    shardings = jax.tree.map(lambda x: x.sharding, abstract)
    jitted = jax.jit(_initializer(config, vocab_size, mesh), out_shardings=shardings)
    seed = np.uint32(config.train.seed)
    programs = program_cache.current()
    key = programs.key('init_state', config.model, vocab_size, abstract)
    return (programs.load(key, seed) or programs.compile(key, jitted.lower(seed)))(seed)


def check_state_fits(config: Config, state: TrainState, limit: int | None) -> None:
    """Raise UserError if one device cannot hold its part of the state.

    Args:
      config: the run's config.
      state: the result of `abstract_state`.
      limit: bytes of memory of a device; None if unknown.
    """
    parts = ((x.sharding.shard_shape(x.shape), x.dtype) for x in jax.tree.leaves(state))
    needed = sum(math.prod(shape) * dtype.itemsize for shape, dtype in parts)
    if limit is not None and needed > limit:
        count = sum(x.size for x in jax.tree.leaves(state.params))
        raise UserError(
            f'model.d_model={config.model.d_model} and the other sizes make {count:,} parameters, '
            f'which with the moments of Adam need {format_bytes(needed)} on a device of '
            f'{format_bytes(limit)}: make the model smaller, or raise '
            f'mesh.fsdp={config.mesh.fsdp} or mesh.tensor={config.mesh.tensor}.'
        )
