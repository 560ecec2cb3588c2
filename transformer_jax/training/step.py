"""One step of training and of evaluation, as pure functions; others apply jit and shardings."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

from transformer_jax.model import Transformer
from transformer_jax.training.loss import LossSums, label_smoothed_loss
from transformer_jax.training.state import TrainState


def shift_right(targets: jax.Array) -> jax.Array:
    """[B, T] ids to what the decoder is given: 0, then all but the last."""
    return jnp.pad(targets, ((0, 0), (1, 0)))[:, :-1]


def train_step(
    state: TrainState,
    batch: Mapping[str, jax.Array],
    *,
    model: Transformer,
    optimizer: optax.GradientTransformation,
    label_smoothing: float,
    seed: int,
) -> TrainState:
    """Takes one optimizer step on the mean loss per target token.

    Args:
      state: before the step; its `step` and `seed` determine the dropout.
      batch: 'source' [B, S] and 'target' [B, T], int32 ids, 0 where there is nothing.
      model: the Transformer.
      optimizer: from `make_optimizer`.
      label_smoothing: eps.
      seed: of dropout.

    Returns:
      The state after the step, this batch's loss added to its window.
    """
    # Dropout's stream is set apart from that of the initial parameters, which use the bare seed.
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), 1), state.step)

    def mean_loss(params: Any) -> tuple[jax.Array, LossSums]:
        logits_BTV = model.apply(
            {'params': params},
            batch['source'],
            shift_right(batch['target']),
            deterministic=False,
            rngs={'dropout': key},
        )
        sums = label_smoothed_loss(logits_BTV, batch['target'], label_smoothing)
        return sums.loss / jnp.maximum(sums.tokens, 1), sums

    gradients, sums = jax.grad(mean_loss, has_aux=True)(state.params)
    updates, opt_state = optimizer.update(gradients, state.opt_state, state.params)
    return TrainState(
        step=state.step + 1,
        params=optax.apply_updates(state.params, updates),
        opt_state=opt_state,
        window=state.window + sums,
    )


def eval_step(
    params: Any, batch: Mapping[str, jax.Array], *, model: Transformer, label_smoothing: float
) -> LossSums:
    """The loss of a batch without dropout, shaped as for `train_step`."""
    logits_BTV = model.apply({'params': params}, batch['source'], shift_right(batch['target']))
    return label_smoothed_loss(logits_BTV, batch['target'], label_smoothing)
