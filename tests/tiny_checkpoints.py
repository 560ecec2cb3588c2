"""Checkpoints of small states, for tests."""

import jax
import jax.numpy as jnp
import numpy as np

from transformer_jax.checkpointing.manager import Checkpoints
from transformer_jax.sharding import make_mesh, state_shardings
from transformer_jax.training.loss import LossSums
from transformer_jax.training.state import LogWindow, TrainState


def state(step, devices=None):
    value = TrainState(
        step=jnp.int32(step),
        params={
            'a': jnp.full((64, 8), float(step)),
            # Random numbers cannot be compressed, so their bytes are on disk.
            'b': jax.random.normal(jax.random.key(step), (64, 64)),
        },
        ema=None,
        opt_state=({'mu': jnp.full((64, 8), step / 3)}, jnp.int32(step)),
        window=LogWindow(
            LossSums(jnp.float32(step), jnp.float32(0.5), jnp.int32(9)), jnp.int32(1), jnp.int32(3)
        ),
    )
    mesh = make_mesh(devices=devices or jax.devices()[:1])
    return jax.device_put(value, state_shardings(value, mesh))


def save(path, steps, keep=3, **bleu):
    manager = Checkpoints(path, keep=keep)
    for step in steps:
        scored = f'at_{step}' in bleu
        manager.save(state(step).items(), {'bleu': bleu[f'at_{step}']} if scored else None)
    manager.close()


def latest_state(manager, like):
    """Return the newest readable state, or None; `like` gives shapes and shardings."""
    items = manager.restore_latest(like.items())
    return None if items is None else TrainState.from_items(items)


def same(a, b):
    return all(
        np.asarray(x).tobytes() == np.asarray(y).tobytes()
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


def cut(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip(file):
    if file.stat().st_size > 1000:  # the file with the numbers
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 16
        file.write_bytes(bytes(content))
