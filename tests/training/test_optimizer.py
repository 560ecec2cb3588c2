import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closeness import assert_close

from transformer_jax.config import OptimizerConfig
from transformer_jax.training.optimizer import make_optimizer, make_schedule, noam_schedule


@pytest.mark.parametrize(
    ('step', 'rate'),
    [(1, 1.746928e-7), (2000, 3.493856e-4), (4000, 6.987712e-4), (100_000, 1.39754e-4)],
)
def test_the_schedule_is_equation_3(step, rate):
    assert float(noam_schedule(512, 4000)(step - 1)) == pytest.approx(rate, rel=1e-5)


def test_the_peak_is_at_the_end_of_the_warmup():
    schedule = noam_schedule(64, 10, scale=2.0)
    rates = [float(schedule(count)) for count in range(30)]
    assert rates.index(max(rates)) == 9
    assert max(rates) == pytest.approx(2.0 / (64 * 10) ** 0.5, rel=1e-5)


def test_the_first_update_is_as_large_as_the_learning_rate():
    # Adam's moments, corrected for their start, make the first step the sign of the gradient.
    optimizer = make_optimizer(OptimizerConfig(warmup_steps=1), d_model=4)
    params = {'w': jnp.array([1.0, 1.0])}
    updates, _ = optimizer.update({'w': jnp.array([3.0, -0.2])}, optimizer.init(params), params)
    assert updates['w'].tolist() == pytest.approx([-0.5, 0.5], rel=1e-5)


def test_weight_decay_shrinks_matrices_by_the_learning_rate_times_the_decay():
    config = OptimizerConfig(warmup_steps=1, weight_decay=0.1)
    optimizer = make_optimizer(config, d_model=4)  # a learning rate of 0.5
    names = ('kernel', 'embedding', 'query', 'bias', 'query_bias', 'scale')
    params = {'layer': {name: jnp.full((2, 2), 3.0) for name in names}}
    zeros = jax.tree.map(jnp.zeros_like, params)
    updates, _ = optimizer.update(zeros, optimizer.init(params), params)
    taken = {name: float(x[0, 0]) for name, x in updates['layer'].items()}
    shrunk = {name: x for name, x in taken.items() if x}
    assert shrunk == pytest.approx({'kernel': -0.15, 'embedding': -0.15, 'query': -0.15}, rel=1e-5)


def test_a_schedule_without_warm_up_falls_from_the_first_step():
    schedule = noam_schedule(d_model=4, warmup_steps=0)
    assert [float(schedule(k)) for k in (0, 3)] == [0.5, 0.25]


@pytest.mark.parametrize(
    'arguments, message', [((0, 9), 'd_model=0 must be'), ((8, -1), 'warmup_steps=-1 must be')]
)
def test_a_schedule_without_width_or_with_negative_steps_is_an_error(arguments, message):
    with pytest.raises(ValueError, match=message):
        noam_schedule(*arguments)


@pytest.mark.parametrize(
    ('schedule', 'rates'),
    [
        ('constant', [0.1, 0.2, 0.2, 0.2, 0.2, 0.2]),
        # From step 2 on, it would be 0 at step 7.
        ('linear', [0.1, 0.2, 0.16, 0.12, 0.08, 0.04]),
        ('cosine', [0.1, *(0.1 * (1 + math.cos(math.pi * k / 5)) for k in range(5))]),
    ],
)
def test_other_schedules_rise_to_their_peak_and_fall_to_the_end(schedule, rates):
    config = OptimizerConfig(schedule=schedule, learning_rate=0.2, warmup_steps=2)
    of_count = make_schedule(config, d_model=4, steps=6)
    assert [float(of_count(count)) for count in range(6)] == pytest.approx(rates, rel=1e-5)


def test_a_schedule_that_ends_needs_the_length_of_the_training():
    config = OptimizerConfig(schedule='cosine', learning_rate=0.2)
    with pytest.raises(ValueError, match="schedule='cosine' needs steps"):
        make_optimizer(config, d_model=4)


def test_a_gradient_longer_than_clip_norm_is_scaled_down_to_it():
    config = OptimizerConfig(clip_norm=1.0)
    plain, clipping = (make_optimizer(c, d_model=4) for c in (OptimizerConfig(), config))
    params = {'a': jnp.zeros(1), 'b': jnp.zeros(1)}
    long = {'a': jnp.array([30.0]), 'b': jnp.array([-40.0])}
    short = {'a': jnp.array([0.6]), 'b': jnp.array([-0.8])}
    state = clipping.init(params)
    assert jax.tree.structure(state) == jax.tree.structure(plain.init(params))
    found, wanted = (o.update(g, state, params) for o, g in ((clipping, long), (plain, short)))
    jax.tree.map(assert_close, found, wanted)
    found, wanted = (o.update(short, state, params) for o in (clipping, plain))
    jax.tree.map(np.testing.assert_array_equal, found, wanted)
