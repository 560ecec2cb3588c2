"""One step of training and of evaluation, as pure functions; others apply jit and shardings."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

from transformer_jax.model import Transformer
from transformer_jax.model.embedder import chunked_loss
from transformer_jax.training.loss import LossSums, label_smoothed_loss, symmetric_divergence
from transformer_jax.training.state import LogWindow, TrainState


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
    seed: int | jax.Array,
    accumulate_steps: int = 1,
    r_drop: float = 0.0,
    ema_decay: float = 0.0,
) -> TrainState:
    """Takes one optimizer step on the mean loss per target token.

    A step whose loss or gradient is not finite leaves parameters and optimizer as they were and is
    noted in the window.

    Args:
      state: before the step; its `step` and `seed` determine the dropout.
      batch: 'source' [B, S] and 'target' [B, T], int32 ids, 0 where there is nothing.
      model: the Transformer.
      optimizer: from `make_optimizer`.
      label_smoothing: eps.
      seed: of dropout.
      accumulate_steps: parts of the batch whose gradients are added one after the other; divides B.
      r_drop: alpha of R-Drop (Liang et al., 2021, equation 4), whose loss is halved here, so that
        without the divergence it is that of one pass.
      ema_decay: of the moving average in `state`, if it has one. Early on it is (1 + step) /
        (10 + step), as in TensorFlow, so that the first parameters are soon forgotten.

    Returns:
      The state after the step, this batch's loss added to its window.

    Raises:
      ValueError: if accumulate_steps does not divide the rows, or `state` has no moving average for
        ema_decay.
    """
    rows = batch['target'].shape[0]
    if accumulate_steps < 1 or rows % accumulate_steps:
        raise ValueError(f'accumulate_steps={accumulate_steps} does not divide {rows} rows.')
    if ema_decay and state.ema is None:
        raise ValueError(f'ema_decay={ema_decay}, but the state was made without with_ema.')
    # Dropout's stream is set apart from that of the initial parameters, which use the bare seed.
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), 1), state.step)
    tokens = jnp.maximum(jnp.sum(batch['target'] != 0), 1)

    def gradient(part: Mapping[str, jax.Array], key: jax.Array) -> tuple[Any, LossSums]:
        if r_drop:
            # Each pair twice, side by side on one device: dropout differs from row to row.
            part = {name: jnp.repeat(x, 2, axis=0) for name, x in part.items()}

        def share_of_mean_loss(params: Any) -> tuple[jax.Array, LossSums]:
            loss, sums = _batch_loss(params, part, model, label_smoothing, r_drop, dropout_key=key)
            return loss / tokens, sums

        return jax.grad(share_of_mean_loss, has_aux=True)(state.params)

    if accumulate_steps == 1:
        gradients, sums = gradient(batch, key)
    else:
        # Every accumulate_steps-th row, so that each device goes on with rows of its own.
        parts = {
            name: x.reshape(-1, accumulate_steps, x.shape[1]).swapaxes(0, 1)
            for name, x in batch.items()
        }
        keys = jax.random.split(key, accumulate_steps)
        nothing = (jax.tree.map(jnp.zeros_like, state.params), LossSums.zero())
        (gradients, sums), _ = jax.lax.scan(
            lambda total, part: (jax.tree.map(jnp.add, total, gradient(*part)), None),
            nothing,
            (parts, keys),
        )
    updates, opt_state = optimizer.update(gradients, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)

    finite = _are_finite((sums.loss, gradients))

    def choose(taken: Any, left: Any) -> Any:
        return jax.tree.map(lambda a, b: jnp.where(finite, a, b), taken, left)

    ema = state.ema
    if ema is not None:
        decay = jnp.minimum(ema_decay, (1 + state.step) / (10 + state.step))
        ema = jax.tree.map(lambda mean, new: decay * mean + (1 - decay) * new, ema, params)
    before = state.window
    first = jnp.where(before.first_skipped == 0, state.step + 1, before.first_skipped)
    return TrainState(
        step=state.step + 1,
        params=choose(params, state.params),
        ema=choose(ema, state.ema),
        opt_state=choose(opt_state, state.opt_state),
        window=LogWindow(
            sums=choose(before.sums + sums, before.sums),
            skipped=before.skipped + ~finite,
            first_skipped=jnp.where(finite, before.first_skipped, first),
        ),
    )


def _are_finite(arrays: Any) -> jax.Array:
    """[] bool, whether all elements of a tree of arrays are finite."""
    if jax.default_backend() == 'gpu':
        # Else XLA takes the sum of a bias's gradient, a sum over positions itself, as one of both:
        # another pass over activations.
        arrays = jax.lax.optimization_barrier(arrays)
    # A sum keeps what is not finite, and unlike a norm needs no squares of all parameters.
    totals = jax.tree.map(jnp.sum, arrays)
    if jax.default_backend() != 'cpu':
        return jnp.isfinite(optax.tree.sum(totals))
    # A loop, which XLA takes apart from all else: it would add up these scalars anew in each of the
    # hundreds of places that ask for the result, and compile all that.
    finite = jnp.isfinite(jnp.stack(jax.tree.leaves(totals)))
    return jax.lax.fori_loop(0, len(finite), lambda k, so_far: so_far & finite[k], True)


def _batch_loss(
    params: Any,
    batch: Mapping[str, jax.Array],
    model: Transformer,
    label_smoothing: float,
    r_drop: float = 0.0,
    dropout_key: jax.Array | None = None,
) -> tuple[jax.Array, LossSums]:
    """Return the objective of training, summed over the target tokens, and the sums to report."""
    states_BTD, weights = model.apply(
        {'params': params},
        batch['source'],
        shift_right(batch['target']),
        deterministic=dropout_key is None,
        rngs={} if dropout_key is None else {'dropout': dropout_key},
        method='decoder_states',
    )

    def objective(logits: jax.Array, targets: jax.Array) -> tuple[jax.Array, LossSums]:
        sums = label_smoothed_loss(logits, targets, label_smoothing)
        if not r_drop:
            return sums.loss, sums
        sums = LossSums(sums.loss / 2, sums.nll / 2, sums.tokens // 2)
        return sums.loss + r_drop / 2 * symmetric_divergence(logits, targets[::2]), sums

    return chunked_loss(
        states_BTD,
        weights,
        batch['target'],
        objective,
        layout=model.layout,
        row_group_size=2 if r_drop else 1,
    )


def eval_step(
    params: Any, batch: Mapping[str, jax.Array], *, model: Transformer, label_smoothing: float
) -> LossSums:
    """The loss of a batch without dropout, shaped as for `train_step`."""
    _, sums = _batch_loss(params, batch, model, label_smoothing)
    return sums
