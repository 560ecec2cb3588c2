"""One step of training: gradients, dropout, micro-batches, R-Drop, and non-finite values."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_jax.config import ModelConfig, OptimizerConfig
from transformer_jax.model import Transformer, shift_right
from transformer_jax.training.loss import symmetric_divergence
from transformer_jax.training.optimizer import make_optimizer
from transformer_jax.training.state import init_state
from transformer_jax.training.step import _are_finite, eval_step, train_step

OPTIMIZER = make_optimizer(OptimizerConfig(warmup_steps=10), d_model=16)
BATCH = {
    'source': jnp.array([[5, 6, 1], [7, 1, 0]], jnp.int32),
    'target': jnp.array([[8, 9, 3, 1], [4, 1, 0, 0]], jnp.int32),
}


def model(dropout_rate=0.0):
    config = ModelConfig(num_layers=1, d_model=16, d_ff=32, num_heads=2, dropout_rate=dropout_rate)
    return Transformer(config, 12)


@functools.cache
def step(dropout_rate=0.0, seed=0):
    return jax.jit(
        functools.partial(
            train_step,
            model=model(dropout_rate),
            optimizer=OPTIMIZER,
            label_smoothing=0.1,
            seed=seed,
        )
    )


@pytest.fixture(scope='module')
def state():
    return init_state(model(), OPTIMIZER, seed=0)


def equal(a, b):
    return all(map(np.array_equal, jax.tree.leaves(a), jax.tree.leaves(b)))


def close(a, b, tolerance):
    return all(
        np.allclose(x, y, atol=tolerance)
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


def test_a_repeated_batch_is_learned(state):
    losses = []
    for _ in range(60):
        before = float(state.window.sums.nll)
        state = step()(state, BATCH)
        losses.append(float(state.window.sums.nll) - before)
    # The learning rate is so high that the loss jumps; only its last values count.
    assert max(losses[-10:]) < 0.3 * losses[0]


def test_the_same_step_gives_the_same_bytes(state):
    assert equal(step(0.3)(state, BATCH), step(0.3)(state, BATCH))


def test_dropout_differs_between_steps_and_seeds(state):
    later = state.replace(step=state.step + 1)
    assert not equal(step(0.3)(state, BATCH).params, step(0.3)(later, BATCH).params)
    assert not equal(step(0.3)(state, BATCH).params, step(0.3, seed=1)(state, BATCH).params)


def test_padding_changes_no_update(state):
    padded = {name: jnp.pad(array, ((0, 3), (0, 2))) for name, array in BATCH.items()}
    bare, with_padding = step()(state, BATCH), step()(state, padded)
    # Adam's first moment is a tenth of the gradient.
    assert close(bare.opt_state[0].mu, with_padding.opt_state[0].mu, 1e-6)
    assert float(bare.window.sums.loss) == pytest.approx(
        float(with_padding.window.sums.loss), rel=1e-5
    )


def test_the_window_sums_loss_and_tokens(state):
    once = step()(state, BATCH)
    assert int(once.window.sums.tokens) == 6
    assert int(step()(once, BATCH).window.sums.tokens) == 12
    assert int(once.step) == 1


def test_eval_has_no_dropout_and_the_loss_of_training(state):
    sums = jax.jit(functools.partial(eval_step, model=model(0.9), label_smoothing=0.1))(
        state.params, BATCH
    )
    assert float(sums.loss) == pytest.approx(float(step()(state, BATCH).window.sums.loss), rel=1e-5)


def accumulating(micro_batches, state, batch):
    options = {'model': model(), 'optimizer': OPTIMIZER, 'label_smoothing': 0.1, 'seed': 0}
    return jax.jit(functools.partial(train_step, accumulate_steps=micro_batches, **options))(
        state, batch
    )


def test_accumulated_micro_batches_equal_the_whole_batch(state):
    # The micro-batches differ in tokens, so a mean of means would be wrong.
    batch = jax.tree.map(lambda x: jnp.concatenate([x, x[:1], x[:1]]), BATCH)
    whole, micro_batches = (accumulating(n, state, batch) for n in (1, 2))
    assert close(whole.opt_state[0].mu, micro_batches.opt_state[0].mu, 1e-6)
    assert close(whole.params, micro_batches.params, 1e-5)
    assert int(micro_batches.window.sums.tokens) == int(whole.window.sums.tokens)


@pytest.mark.parametrize('micro_batches', [0, 4])
def test_micro_batches_that_do_not_divide_the_rows_are_an_error(state, micro_batches):
    with pytest.raises(ValueError, match=f'accumulate_steps={micro_batches} does not divide'):
        accumulating(micro_batches, state, BATCH)


def test_ema_decay_without_a_moving_average_is_an_error(state):
    with pytest.raises(ValueError, match=r'ema_decay=0\.9: the state has no moving average'):
        train_step(
            state,
            BATCH,
            model=model(),
            optimizer=OPTIMIZER,
            label_smoothing=0.1,
            seed=0,
            ema_decay=0.9,
        )


def test_rematerialisation_changes_only_memory(state):
    remat = dataclasses.replace(model(0.3).config, remat=True)
    step_options = {'optimizer': OPTIMIZER, 'label_smoothing': 0.1, 'seed': 0}
    other = functools.partial(train_step, model=Transformer(remat, 12), **step_options)
    assert close(step(0.3)(state, BATCH), jax.jit(other)(state, BATCH), 1e-5)
    assert 'remat' in str(jax.make_jaxpr(other)(state, BATCH))


def test_a_non_finite_step_is_skipped_and_counted(state):
    broken = state.replace(
        params=jax.tree.map(lambda x: x.at[(0,) * x.ndim].set(jnp.inf), state.params)
    )
    after = step()(step()(broken, BATCH), BATCH)
    assert equal(after.params, broken.params)
    assert equal(after.opt_state, broken.opt_state)
    assert int(after.step) == 2
    assert (int(after.window.skipped), int(after.window.first_skipped)) == (2, 1)
    assert float(after.window.sums.loss) == 0.0


def test_finite_steps_are_never_skipped(state):
    window = step()(state, BATCH).window
    assert (int(window.skipped), int(window.first_skipped)) == (0, 0)


@pytest.mark.parametrize('bad', [None, 0, 1, 2, 40])
def test_accelerators_sum_arrays_of_one_shape_together(bad, monkeypatch):
    monkeypatch.setattr(jax, 'default_backend', lambda: 'tpu')
    arrays = [jnp.ones((2, 3), jnp.bfloat16), jnp.ones(4), *[jnp.ones(5)] * 39]
    if bad is not None:
        arrays[bad] = arrays[bad].at[-1].set(jnp.nan)
    assert bool(_are_finite(arrays)) == (bad is None)


def test_the_finite_check_is_one_loop_in_the_program(state):
    # Without the loop, XLA repeats the check in the update of each parameter.
    program, arrays = step().lower(state, BATCH).compile(), len(jax.tree.leaves(state.params))
    assert program.as_text().count(' is-finite(') < arrays


def test_the_gpu_program_computes_the_same_step(state, monkeypatch):
    expected = step()(state, BATCH)
    monkeypatch.setattr(jax, 'default_backend', lambda: 'gpu')
    config = dataclasses.replace(model().config, dtype='float32')
    as_on_a_gpu = functools.partial(
        train_step, model=Transformer(config, 12), optimizer=OPTIMIZER, label_smoothing=0.1, seed=0
    )
    assert 'optimization_barrier' in str(jax.make_jaxpr(as_on_a_gpu)(state, BATCH))
    assert close(jax.jit(as_on_a_gpu)(state, BATCH), expected, 1e-5)


def regularised(state, batch=BATCH, dropout_rate=0.0, **options):
    options |= {'model': model(dropout_rate), 'optimizer': OPTIMIZER, 'label_smoothing': 0.1}
    return jax.jit(functools.partial(train_step, seed=0, **options))(state, batch)


def test_r_drop_without_dropout_equals_one_pass(state):
    once, twice = regularised(state), regularised(state, r_drop=5.0)
    assert close(once.opt_state[0].mu, twice.opt_state[0].mu, 1e-6)
    assert float(once.window.sums.loss) == pytest.approx(float(twice.window.sums.loss), rel=1e-5)
    assert int(twice.window.sums.tokens) == int(once.window.sums.tokens)


def test_r_drop_brings_two_passes_together(state):
    @jax.jit
    def divergence(state, keys):
        passes = [
            model(0.3).apply(
                {'params': state.params},
                BATCH['source'],
                shift_right(BATCH['target']),
                deterministic=False,
                rngs={'dropout': key},
            )
            for key in keys
        ]
        logits = jnp.stack(passes, axis=1).reshape(-1, *passes[0].shape[1:])
        return symmetric_divergence(logits, BATCH['target'])

    def mean_divergence(state):
        keys = jax.random.split(jax.random.key(0), (20, 2))
        return np.mean([divergence(state, pair) for pair in keys])

    without, with_it = state, state
    with_r_drop = jax.jit(functools.partial(regularised, dropout_rate=0.3, r_drop=20.0))
    for _ in range(10):
        without, with_it = step(0.3)(without, BATCH), with_r_drop(with_it)
    assert mean_divergence(with_it) < 0.7 * mean_divergence(without)


def test_the_moving_average_by_hand(state):
    start = init_state(model(), OPTIMIZER, seed=0, with_ema=True)
    first = regularised(start, ema_decay=0.2)
    second = regularised(first, ema_decay=0.2)
    # The first decays are 1/10 and 2/11, as both are below 0.2.
    expected = jax.tree.map(lambda a, b: a / 10 + 0.9 * b, start.params, first.params)
    assert close(first.ema, expected, 1e-6)
    expected = jax.tree.map(lambda a, b: (2 * a + 9 * b) / 11, expected, second.params)
    assert close(second.ema, expected, 1e-6)
    assert close(second.params, step()(step()(state, BATCH), BATCH).params, 1e-6)
    assert second.weights is second.ema and state.weights is state.params
