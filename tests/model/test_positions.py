"""The paper's formula for positions, in numbers worked out by hand."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_jax.config import ModelConfig
from transformer_jax.model import sinusoidal_positions
from transformer_jax.model.positions import Positions


def test_position_0_alternates_sines_and_cosines_of_0():
    np.testing.assert_array_equal(
        sinusoidal_positions(jnp.array([0]), 6), [[0.0, 1.0, 0.0, 1.0, 0.0, 1.0]]
    )


def test_position_1_of_width_4():
    # 10000^(0/4) = 1 and 10000^(2/4) = 100: sin 1, cos 1, sin 0.01, cos 0.01.
    np.testing.assert_allclose(
        sinusoidal_positions(jnp.array([1]), 4)[0],
        [0.84147098, 0.54030231, 0.00999983, 0.99995],
        atol=1e-6,
    )


def test_position_3_of_width_6():
    # sin and cos of 3, of 3 / 10000^(1/3) = 0.13924767 and of 3 / 10000^(2/3) = 0.0064633.
    np.testing.assert_allclose(
        sinusoidal_positions(jnp.array([3]), 6)[0],
        [0.14112001, -0.9899925, 0.13879810, 0.99032074, 0.00646326, 0.99997911],
        atol=1e-6,
    )


def test_wavelengths_run_from_2_pi_to_10000_times_2_pi():
    angles = jnp.arctan2(
        *jnp.moveaxis(sinusoidal_positions(jnp.array(1), 512).reshape(-1, 2), 1, 0)
    )
    wavelengths = 2 * np.pi / np.asarray(angles)
    assert wavelengths[0] == pytest.approx(2 * np.pi, rel=1e-5)
    # The last of the 256 frequencies is the one before 10000 would be reached.
    assert wavelengths[-1] == pytest.approx(2 * np.pi * 10000 ** (510 / 512), rel=1e-4)


def test_positions_may_have_any_shape_and_order():
    positions = jnp.array([[5, 0], [2, 7]])
    encoding = sinusoidal_positions(positions, 4)
    assert encoding.shape == (2, 2, 4)
    assert encoding.dtype == jnp.float32
    np.testing.assert_array_equal(encoding[1, 1], sinusoidal_positions(jnp.array(7), 4))


@pytest.mark.parametrize('start', [1, 100, 20_000])
def test_a_fixed_offset_is_the_same_rotation_at_every_position(start):
    # Section 3.5: PE(pos + k) is a linear function of PE(pos), so their product knows only k.
    near = sinusoidal_positions(jnp.arange(8), 16)
    far = sinusoidal_positions(start + jnp.arange(8), 16)
    np.testing.assert_allclose(far @ far.T, near @ near.T, atol=1e-2)
    assert len(np.unique(np.asarray(far).round(6), axis=0)) == 8


def test_odd_width_is_an_error():
    with pytest.raises(ValueError, match='even size, not 5'):
        sinusoidal_positions(jnp.arange(3), 5)


def test_a_position_may_be_traced():
    step = jax.jit(lambda position: sinusoidal_positions(position, 4))
    np.testing.assert_allclose(step(jnp.int32(1))[0], 0.84147098, atol=1e-6)


def test_halves_are_the_same_columns_in_another_order():
    positions = jnp.arange(7)
    in_turn, halves = (sinusoidal_positions(positions, 6, halves=h) for h in (False, True))
    np.testing.assert_array_equal(halves, in_turn[:, [0, 2, 4, 1, 3, 5]])


def test_marian_positions_have_frequencies_from_1_to_1_in_10000():
    # Of width 6: 1, 10000^(-1/2) = 0.01 and 10000^(-2/2) = 0.0001; first sines, then cosines.
    np.testing.assert_allclose(
        sinusoidal_positions(jnp.array([2]), 6, halves=True, inclusive=True)[0],
        [0.9092974, 0.0199987, 0.0002, -0.4161468, 0.9998, 1.0],
        atol=1e-6,
    )


@pytest.mark.parametrize(
    'kind, last', [('sinusoidal', 8), ('sinusoidal_halves', 8), ('sinusoidal_marian', 6)]
)
def test_each_kind_of_sinusoids_is_its_formula(kind, last):
    config = ModelConfig(d_model=8, num_heads=1, positions=kind)
    module, nothing = Positions(config), jnp.zeros((1, 5, 8))
    found = module.apply({}, nothing, jnp.arange(5), deterministic=True)[0]
    for position in range(5):
        angles = [position / 10000 ** (2 * i / last) for i in range(4)]
        waves = [[math.sin(x) for x in angles], [math.cos(x) for x in angles]]
        expected = np.ravel(waves, 'F' if kind == 'sinusoidal' else 'C')
        np.testing.assert_allclose(found[position], expected, atol=1e-6)


def test_inclusive_frequencies_need_two_of_them():
    with pytest.raises(ValueError, match='need a size of 4 or more, not 2'):
        sinusoidal_positions(jnp.array([1]), 2, inclusive=True)


def test_a_number_stands_for_all_positions_below_it():
    np.testing.assert_array_equal(
        sinusoidal_positions(5, 4), sinusoidal_positions([0, 1, 2, 3, 4], 4)
    )
    assert sinusoidal_positions(jnp.int32(3), 4).shape == (4,)
