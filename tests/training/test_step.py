import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_jax.config import ModelConfig, OptimizerConfig
from transformer_jax.model import Transformer
from transformer_jax.sharding import make_mesh, shard_batch, state_shardings
from transformer_jax.training.optimizer import make_optimizer
from transformer_jax.training.state import init_state
from transformer_jax.training.step import eval_step, shift_right, train_step

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


def test_targets_shift_right():
    assert shift_right(BATCH['target']).tolist() == [[0, 8, 9, 3], [0, 4, 1, 0]]


def test_a_batch_seen_again_and_again_is_learned(state):
    losses = []
    for _ in range(30):
        before = float(state.window.nll)
        state = step()(state, BATCH)
        losses.append(float(state.window.nll) - before)
    assert losses[-1] < 0.3 * losses[0]


def test_the_same_step_gives_the_same_bytes(state):
    assert equal(step(0.3)(state, BATCH), step(0.3)(state, BATCH))


def test_dropout_is_another_at_each_step_and_for_each_seed(state):
    later = state.replace(step=state.step + 1)
    assert not equal(step(0.3)(state, BATCH).params, step(0.3)(later, BATCH).params)
    assert not equal(step(0.3)(state, BATCH).params, step(0.3, seed=1)(state, BATCH).params)


def test_padding_changes_no_update(state):
    padded = {name: jnp.pad(array, ((0, 3), (0, 2))) for name, array in BATCH.items()}
    bare, with_padding = step()(state, BATCH), step()(state, padded)
    # Adam's first moment is a tenth of the gradient.
    assert close(bare.opt_state[0].mu, with_padding.opt_state[0].mu, 1e-6)
    assert float(bare.window.loss) == pytest.approx(float(with_padding.window.loss), rel=1e-5)


def test_the_window_sums_loss_and_tokens(state):
    once = step()(state, BATCH)
    assert int(once.window.tokens) == 6
    assert int(step()(once, BATCH).window.tokens) == 12
    assert int(once.step) == 1


def test_eval_has_no_dropout_and_the_loss_of_training(state):
    sums = eval_step(state.params, BATCH, model=model(0.9), label_smoothing=0.1)
    assert float(sums.loss) == pytest.approx(float(step()(state, BATCH).window.loss), rel=1e-5)


def test_eight_devices_do_what_one_does(state):
    def run(devices):
        mesh = make_mesh(devices)
        placed = jax.device_put(state, state_shardings(state, mesh))
        for _ in range(3):
            placed = step()(placed, shard_batch(jax.tree.map(np.asarray, BATCH), mesh))
        return placed.opt_state[0].mu, placed.window

    assert close(run(jax.devices()[:1]), run(jax.devices()), 1e-5)
