"""Modules take lists for arrays, another padding by a mask, and name what they cannot take."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_model import SOURCE, TARGET, model, normal, tiny

from transformer_jax.model import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    MultiHeadAttention,
    dot_product_attention,
    padding_mask,
    shift_right,
)

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


# Batch, queries and keys are equally many, so that any two axes would broadcast.
X = normal(0, 3, 3, 8)
HEADS = X.reshape(3, 3, 2, 4)
ATTENTION = MultiHeadAttention(2)


def initialised(module, *inputs, **options):
    return jax.eval_shape(lambda: module.init(jax.random.key(0), *inputs, **options))


TAKERS = {
    'function': ('mask', lambda mask: dot_product_attention(HEADS, HEADS, HEADS, mask)),
    'attention': ('mask', lambda mask: initialised(ATTENTION, X, mask=mask)),
    'of a memory': ('mask', lambda mask: initialised(ATTENTION, X, X, mask)),
    'encoder layer': ('mask', lambda mask: initialised(EncoderLayer(tiny()), X, mask)),
    'encoder': ('mask', lambda mask: initialised(Encoder(tiny()), X, mask)),
    'self': ('self_mask', lambda mask: initialised(DecoderLayer(tiny()), X, X, mask)),
    'memory': (
        'memory_mask',
        lambda mask: initialised(DecoderLayer(tiny()), X, X, memory_mask=mask),
    ),
    'decoder': ('memory_mask', lambda mask: initialised(Decoder(tiny()), X, X, mask)),
}


@pytest.mark.parametrize('shape', [(3, 3), (3, 1, 3), (3,), (), (1, 3, 1, 1, 3)])
@pytest.mark.parametrize('taker', TAKERS)
def test_a_mask_of_other_than_four_axes_is_refused(taker, shape):
    name, take = TAKERS[taker]
    message = rf'^{name} has shape .*four axes, \[batch, heads, queries, keys\].*padding_mask'
    with pytest.raises(ValueError, match=message):
        take(jnp.ones(shape, bool))


@pytest.mark.parametrize('shape', [(2, 1, 1, 3), (1, 3, 1, 3), (1, 1, 2, 3), (1, 1, 1, 2)])
def test_a_mask_that_does_not_fit_is_refused(shape):
    with pytest.raises(ValueError, match=r'axis must be 1 or .* \[3, 2, 3, 3\]'):
        dot_product_attention(HEADS, HEADS, HEADS, jnp.ones(shape, bool))


def test_a_mask_does_not_make_a_batch_greater():
    with pytest.raises(ValueError, match=r'shape \[3, 1, 1, 3\]: .* \[1, 2, 3, 3\]'):
        initialised(ATTENTION, X[:1], mask=jnp.ones((3, 1, 1, 3), bool))
