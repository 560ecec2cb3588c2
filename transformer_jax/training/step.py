"""One step of training and of evaluation, as pure functions; others apply jit and shardings."""

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

from transformer_jax.model import Transformer, in_compute_dtype, shift_right
from transformer_jax.model.kernels.chunked_loss import chunked_loss
from transformer_jax.training.loss import LossSums, label_smoothed_loss, symmetric_divergence
from transformer_jax.training.state import LogWindow, TrainState


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
    """Take one optimizer step on the mean loss per target token.

    If the loss or a gradient is not finite, parameters and optimizer state stay the same, and the
    window counts a skipped step.

    Args:
      state: the state before the step; its `step` and `seed` determine the dropout.
      batch: 'source' [B, S] and 'target' [B, T], int32 ids, 0 for padding. If pairs are packed,
        also their 'source_segments' and 'target_segments'; see `Transformer.decoder_states`.
      model: the Transformer.
      optimizer: from `make_optimizer`.
      label_smoothing: eps.
      seed: the seed of dropout.
      accumulate_steps: number of micro-batches whose gradients are added; it divides B.
      r_drop: alpha of R-Drop (Liang et al., 2021, equation 4). Its loss is halved here, so that
        without the divergence it equals the loss of one pass.
      ema_decay: decay of the moving average in `state`, if there is one. Early on it is at most
        (1 + step) / (10 + step), as in TensorFlow, so that the first parameters soon fade.

    Returns:
      The state after the step. Its window includes this batch's loss.

    Raises:
      ValueError: if accumulate_steps does not divide the rows, or if ema_decay is given but `state`
        has no moving average.
    """
    rows = batch['target'].shape[0]
    if accumulate_steps < 1 or rows % accumulate_steps:
        raise ValueError(f'accumulate_steps={accumulate_steps} does not divide {rows} rows.')
    if ema_decay and state.ema is None:
        raise ValueError(
            f'ema_decay={ema_decay}: the state has no moving average. Create it with with_ema=True.'
        )
    # The initial parameters use the bare seed; dropout folds in 1 to have its own random stream.
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), 1), state.step)
    tokens = jnp.maximum(jnp.sum(batch['target'] != 0), 1)

    def gradient(batch: Mapping[str, jax.Array], key: jax.Array) -> tuple[Any, LossSums]:
        if r_drop:
            # Adjacent copies of each pair stay on one device, and dropout differs from row to row.
            batch = {name: jnp.repeat(x, 2, axis=0) for name, x in batch.items()}

        def share_of_mean_loss(params: Any) -> tuple[jax.Array, LossSums]:
            loss, sums = _batch_loss(params, batch, model, label_smoothing, r_drop, dropout_key=key)
            return loss / tokens, sums

        # With respect to what the products take: XLA would write each gradient in float32, too.
        in_products = in_compute_dtype(model.config, state.params)
        return jax.grad(share_of_mean_loss, has_aux=True)(in_products)

    if accumulate_steps == 1:
        gradients, sums = gradient(batch, key)
    else:
        # Each micro-batch takes every accumulate_steps-th row, so that devices keep their own rows.
        micro_batches = {
            name: x.reshape(-1, accumulate_steps, x.shape[1]).swapaxes(0, 1)
            for name, x in batch.items()
        }
        keys = jax.random.split(key, accumulate_steps)
        zeros = (jax.tree.map(jnp.zeros_like, state.params), LossSums.zero())
        (gradients, sums), _ = jax.lax.scan(
            lambda total, inputs: (jax.tree.map(jnp.add, total, gradient(*inputs)), None),
            zeros,
            (micro_batches, keys),
        )
    finite = _are_finite((sums.loss, gradients))
    gradients = jax.tree.map(lambda x, like: x.astype(like.dtype), gradients, state.params)
    updates, opt_state = optimizer.update(gradients, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)

    def choose(new: Any, old: Any) -> Any:
        return jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, old)

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
    """Return [] bool, whether all elements of a tree of arrays are finite."""
    if jax.default_backend() == 'gpu':
        # Without this, XLA merges the sum of a bias's gradient with the sum over positions that
        # makes it, which takes another pass over the activations.
        arrays = jax.lax.optimization_barrier(arrays)
    # The sum of an array is not finite if an element is not. A norm would also need the squares.
    if jax.default_backend() != 'cpu':
        return jnp.isfinite(sum(_sums_of_alike(jax.tree.leaves(arrays))))
    totals = jax.tree.map(jnp.sum, arrays)
    # A loop stops XLA from fusing (and recomputing) this check into hundreds of consumers.
    finite = jnp.isfinite(jnp.stack(jax.tree.leaves(totals)))
    return jax.lax.fori_loop(0, len(finite), lambda k, so_far: so_far & finite[k], True)


def _sums_of_alike(arrays: Iterable[jax.Array]) -> list[jax.Array]:
    """Return the sum of each array in float32; one kernel sums up to 16 of the same shape."""
    alike: dict[Any, list[jax.Array]] = {}
    for x in arrays:
        alike.setdefault((x.shape, x.dtype), []).append(x.astype(jnp.float32))
    sums: list[jax.Array] = []
    for group in alike.values():
        for begin in range(0, len(group), 16):
            part = tuple(group[begin : begin + 16])
            zeros = (jnp.float32(0),) * len(part)
            axes = range(part[0].ndim)
            sums += jax.lax.reduce(part, zeros, lambda a, b: tuple(map(jnp.add, a, b)), axes)
    return sums


def _batch_loss(
    params: Any,
    batch: Mapping[str, jax.Array],
    model: Transformer,
    label_smoothing: float,
    r_drop: float = 0.0,
    dropout_key: jax.Array | None = None,
) -> tuple[jax.Array, LossSums]:
    """Return the objective of training, summed over the target tokens, and the sums to report."""
    segments = {name: x for name, x in batch.items() if name.endswith('_segments')}
    states_BTD, weights = model.apply(
        {'params': params},
        batch['source'],
        shift_right(batch['target'], segments=segments.get('target_segments')),
        **segments,
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
        logits_dtype=jnp.dtype('float32' if dropout_key is None else model.config.activation_dtype),
    )


def eval_step(
    params: Any, batch: Mapping[str, jax.Array], *, model: Transformer, label_smoothing: float
) -> LossSums:
    """Return the loss sums of a batch without dropout.

    Args:
      params: the model's parameters.
      batch: as for `train_step`.
      model: the Transformer.
      label_smoothing: eps.
    """
    _, sums = _batch_loss(params, batch, model, label_smoothing)
    return sums
