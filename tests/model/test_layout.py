"""The default layout, which leaves arrays where they are."""

import jax.numpy as jnp
import numpy as np

from transformer_jax.model import Layout


def test_equal_layouts_are_one_static_argument():
    assert Layout() == Layout()
    assert hash(Layout()) == hash(Layout())


def test_the_default_layout_moves_nothing_and_has_one_group():
    x = jnp.arange(6).reshape(3, 2)
    assert Layout()(x, 'BT') is x
    np.testing.assert_array_equal(Layout().in_groups(x), x[None])
