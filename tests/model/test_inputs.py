"""Modules take lists for arrays, another padding by a mask, and name what they cannot take."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_model import SOURCE, TARGET, model

from transformer_jax.model import padding_mask, shift_right

MODULE, VARIABLES, LOGITS = model()
REAL = SOURCE != 0


def apply(*inputs, **options):
    return MODULE.apply(VARIABLES, *inputs, **options)


def test_lists_are_taken_for_arrays():
    np.testing.assert_array_equal(apply(SOURCE.tolist(), TARGET.tolist()), apply(SOURCE, TARGET))
    np.testing.assert_array_equal(padding_mask([[3, 0]]), [[[[True, False]]]])
    np.testing.assert_array_equal(shift_right([[5, 6, 1]], start_id=2), [[2, 5, 6]])


@pytest.mark.parametrize('method', [None, 'encode', 'start_decoding'])
def test_padding_may_have_any_id_if_a_mask_tells_it(method):
    inputs = (TARGET,) if method is None else ()
    other = jnp.where(REAL, SOURCE, -100)
    found = apply(other, *inputs, source_mask=REAL, method=method)
    expected = apply(SOURCE, *inputs, method=method)
    for one, same in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(one, same)


def test_0_is_a_token_if_the_mask_says_so():
    everything = apply(SOURCE, TARGET, source_mask=jnp.ones_like(REAL))
    assert (everything != apply(SOURCE, TARGET)).any()


@pytest.mark.parametrize(
    'source, options, message',
    [
        ([[3, 1], [4, 5, 1]], {}, 'source is no array: .* pad the sentences to one length with 0'),
        (SOURCE, {'source_mask': REAL[:, :2]}, r'source_mask is bool\[2, 2\]: .* \[2, 6\]'),
        (SOURCE, {'source_mask': SOURCE}, r'source_mask is int32\[2, 6\]: it must be bool'),
    ],
)
def test_what_cannot_be_taken_is_named(source, options, message):
    with pytest.raises(ValueError, match=message):
        apply(source, TARGET, **options)
