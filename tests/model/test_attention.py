"""Attention against equation 1 computed by hand, and the promises of its masks and its cache."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closeness import assert_close
from tiny_model import normal

from transformer_jax.model import (
    KVCache,
    MultiHeadAttention,
    causal_mask,
    dot_product_attention,
    padding_mask,
)

# Dimension key: B batch, T queries, S keys, N heads, H head size, D model.


def one_head(rows):
    """Return [T, H] numbers as [1, T, 1, H]."""
    return jnp.asarray(rows, jnp.float32)[None, :, None, :]


def parameters(module, *inputs):
    """Return random parameters with the shapes of the module."""
    shapes = jax.eval_shape(module.init, jax.random.key(0), *inputs)
    rng = np.random.default_rng(9)
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype), shapes)


def numpy_attention(params, x, memory, mask):
    """Compute section 3.2.2 as a loop over heads: head_n = Attention(x W_n^Q, m W_n^K, m W_n^V)."""
    x, memory, params = jax.tree.map(np.asarray, (x, memory, params))
    out = np.zeros(x.shape)
    for batch in range(x.shape[0]):
        for head in range(params['query'].shape[1]):
            query = x[batch] @ params['query'][:, head]
            key = memory[batch] @ params['key'][:, head]
            value = memory[batch] @ params['value'][:, head]
            scores = np.where(mask[batch], query @ key.T / np.sqrt(key.shape[-1]), -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            out[batch] += weights @ value @ params['output'][head]
    return out


def test_equation_1_by_hand():
    # Scores Q K^T / sqrt(4): [2·ln 3 / 2, 0] = [ln 3, 0], so the weights are 3/4 and 1/4.
    query = one_head([[2 * np.log(3.0), 0, 0, 0]])
    key = one_head([[1, 0, 0, 0], [0, 1, 0, 0]])
    value = one_head([[8, 0], [0, 4]])
    output, weights = dot_product_attention(query, key, value)
    assert_close(weights[0, 0], [[0.75, 0.25]])
    assert_close(output[0, :, 0], [[6.0, 1.0]])


def test_three_inputs_by_hand():
    # Scores that are not scaled: queries times the square root of d_k undo the division by it.
    x = jnp.array([[1.0, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]])
    to_query = jnp.array([[1.0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]])
    to_key = jnp.array([[0.0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]])
    to_value = jnp.array([[0.0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]])
    query, key, value = (
        (x @ matrix)[None, :, None] for matrix in (to_query * 3**0.5, to_key, to_value)
    )
    output, weights = dot_product_attention(query, key, value)
    # The first input has the scores 2, 4, 4.
    assert_close(weights[0, 0, 0], [0.06337894, 0.46831053, 0.46831053])
    assert_close(output[0, 0, 0], [1.93662106, 6.68310531, 1.59506841])


@pytest.mark.parametrize('d_k, odds', [(1, 16.0), (4, 4.0), (16, 2.0)])
def test_scores_are_divided_by_the_square_root_of_d_k(d_k, odds):
    # Dividing the raw scores ln 16 and 0 by 1, 2 and 4 gives odds of 16, 4 and 2 to one.
    query = one_head([[np.log(16.0)] + [0.0] * (d_k - 1)])
    key = one_head([[1.0] + [0.0] * (d_k - 1), [0.0] * d_k])
    _, weights = dot_product_attention(query, key, one_head([[0.0], [0.0]]))
    assert_close(weights[0, 0, 0, 0] / weights[0, 0, 0, 1], odds)


def test_masked_positions_have_no_weight_and_no_influence():
    query, mask = one_head([[1.0, 2.0]]), jnp.array([True, False, True])[None, None, None]
    key = one_head([[1.0, 0.0], [9.0, 9.0], [1.0, 0.0]])
    value = one_head([[2.0], [1000.0], [4.0]])
    output, weights = dot_product_attention(query, key, value, mask)
    assert_close(weights[0, 0], [[0.5, 0.0, 0.5]])
    assert_close(output[0, 0, 0], [3.0])


def test_a_query_that_may_look_nowhere_gets_zeros():
    query, key, value = normal(0, 1, 2, 1, 4), normal(1, 1, 3, 1, 4), normal(2, 1, 3, 1, 5)
    mask = jnp.array([[True, True, False], [False, False, False]])[None, None]
    output, weights = dot_product_attention(query, key, value, mask)
    np.testing.assert_array_equal(output[0, 1], np.zeros((1, 5)))
    np.testing.assert_array_equal(weights[0, 0, 1], np.zeros(3))
    assert np.all(np.asarray(output[0, 0]) != 0)


def test_a_query_that_may_look_nowhere_has_zero_gradients():
    arrays = normal(0, 1, 2, 1, 4), normal(1, 1, 3, 1, 4), normal(2, 1, 3, 1, 5)
    mask = jnp.zeros((1, 1, 2, 3), bool)

    def loss(query, key, value):
        return jnp.sum(jnp.sin(dot_product_attention(query, key, value, mask)[0] + 1.0))

    for gradient in jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(*arrays):
        np.testing.assert_array_equal(gradient, np.zeros(gradient.shape))


def test_causal_mask():
    assert causal_mask(3).dtype == bool
    np.testing.assert_array_equal(
        causal_mask(3), [[[[True, False, False], [True, True, False], [True, True, True]]]]
    )


def test_padding_mask():
    mask = padding_mask(jnp.array([[5, 7, 0], [4, 0, 0]]))
    assert mask.dtype == bool
    np.testing.assert_array_equal(mask, [[[[True, True, False]]], [[[True, False, False]]]])
    np.testing.assert_array_equal(
        padding_mask(jnp.array([[5, 7, 0]]), pad_id=7), [[[[True, False, True]]]]
    )


def test_all_heads_equal_a_loop_over_heads():
    x, memory = normal(0, 2, 3, 12), normal(1, 2, 5, 12)
    mask = jnp.array([[True] * 5, [True] * 2 + [False] * 3])[:, None, None]
    module = MultiHeadAttention(num_heads=3)
    variables = parameters(module, x, memory)
    output, seen = jax.jit(module.apply)(variables, x, memory, mask)
    expected = numpy_attention(variables['params'], x, memory, np.asarray(mask[:, 0]))
    assert_close(output, expected)
    assert (seen.key.shape, seen.value.shape) == ((2, 3, 4, 5), (2, 3, 5, 4))


def test_heads_do_not_mix_before_the_output_projection():
    # Identity projections: head 0 carries columns 0-1, head 1 columns 2-3, and each averages.
    heads = jnp.eye(4).reshape(4, 2, 2)
    params = {
        'query': jnp.zeros((4, 2, 2)),
        'key': heads,
        'value': heads.at[:, 1].multiply(10.0),
        'output': jnp.eye(4).reshape(2, 2, 4),
    }
    x = jnp.array([[[1.0, 2.0, 3.0, 4.0], [3.0, 6.0, 5.0, 8.0]]])
    output, _ = MultiHeadAttention(num_heads=2).apply({'params': params}, x)
    assert_close(output, [[[2.0, 4.0, 40.0, 60.0]] * 2])


def test_d_k_and_d_v_may_differ():
    x = normal(0, 2, 3, 10)
    module = MultiHeadAttention(num_heads=4, key_size=3, value_size=7)
    variables = parameters(module, x)
    output, seen = jax.jit(module.apply)(variables, x)
    assert jax.tree.map(jnp.shape, variables['params']) == {
        'query': (10, 4, 3),
        'key': (10, 4, 3),
        'value': (10, 4, 7),
        'output': (4, 7, 10),
    }
    assert (seen.key.shape, seen.value.shape) == ((2, 4, 3, 3), (2, 4, 3, 7))
    mask = np.ones((2, 3, 3), bool)
    assert_close(output, numpy_attention(variables['params'], x, x, mask))


@pytest.mark.parametrize('sizes', [{}, {'key_size': 4}, {'value_size': 4}])
def test_a_width_that_heads_do_not_divide_is_an_error(sizes):
    module = MultiHeadAttention(num_heads=3, **sizes)
    with pytest.raises(ValueError, match='10 is not divisible by num_heads=3'):
        module.init(jax.random.key(0), jnp.zeros((1, 2, 10)))


def test_initial_matrices_have_the_fan_of_the_model_not_of_a_head():
    # Xavier on [D, N·H] with D = N·H = 64: uniform up to sqrt(6 / 128) = 0.2165.
    variables = MultiHeadAttention(num_heads=8).init(jax.random.key(0), jnp.zeros((1, 1, 64)))
    for kernel in variables['params'].values():
        assert 0.21 < float(jnp.abs(kernel).max()) <= 0.2166


def test_the_gain_scales_queries_keys_and_values():
    module = MultiHeadAttention(num_heads=8, gain=0.5)
    params = module.init(jax.random.key(0), jnp.zeros((1, 1, 64)))['params']
    largest = {name: float(jnp.abs(kernel).max()) for name, kernel in params.items()}
    assert 0.21 < largest.pop('output') <= 0.2166
    assert all(0.105 < value <= 0.1083 for value in largest.values())


def test_steps_with_a_cache_equal_the_full_causal_pass():
    x = normal(0, 2, 4, 6)
    module = MultiHeadAttention(num_heads=2, key_size=5, value_size=3)
    variables = parameters(module, x)
    apply = jax.jit(module.apply)
    expected, _ = apply(variables, x, mask=causal_mask(4))
    # The cache is longer than needed, and filled with numbers that no query may see.
    cache = KVCache(jnp.full((2, 2, 5, 7), 50.0), jnp.full((2, 2, 7, 3), 1e6))
    for position in range(4):
        step, cache = apply(
            variables,
            x[:, position, None],
            mask=(jnp.arange(7) <= position)[None, None, None],
            cache=cache,
            position=jnp.int32(position),
        )
        assert_close(step[:, 0], expected[:, position])


def test_memory_may_be_given_as_its_keys_and_values():
    x, memory = normal(0, 2, 3, 6), normal(1, 2, 5, 6)
    mask = padding_mask(jnp.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]))
    module = MultiHeadAttention(num_heads=2)
    variables = parameters(module, x, memory)
    expected, seen = jax.jit(module.apply)(variables, x, memory, mask)
    again, _ = jax.jit(module.apply)(variables, x, seen, mask)
    np.testing.assert_array_equal(again, expected)


@pytest.mark.parametrize('causal', [False, True])
def test_an_additive_mask_is_an_error(causal):
    mask = jnp.where(causal_mask(2), 0.0, -jnp.inf)
    with pytest.raises(ValueError, match='mask is float32: it must be bool, True where'):
        MultiHeadAttention(1).init(
            jax.random.key(0), jnp.zeros((1, 2, 4)), mask=mask, causal=causal
        )
    with pytest.raises(ValueError, match='mask is float32: it must be bool, True where'):
        dot_product_attention(*jnp.zeros((3, 1, 2, 1, 4)), mask)


@pytest.mark.parametrize(
    'attributes, x, memory, message',
    [
        ({'implementation': 'cudn'}, (1, 2, 4), None, "implementation='cudn' must be 'xla' or"),
        ({'num_heads': 0}, (1, 2, 4), None, 'num_heads=0 must be 1 or more'),
        ({}, (2, 4), None, r'x has shape \(2, 4\): it must be \[batch, length, 4\]'),
        (
            {},
            (1, 2, 4),
            (1, 3, 5),
            r'memory has shape \(1, 3, 5\): it must be \[batch, length, 4\]',
        ),
    ],
)
def test_shapes_and_attributes_out_of_range_are_errors(attributes, x, memory, message):
    module = MultiHeadAttention(**{'num_heads': 2} | attributes)
    memory = None if memory is None else jnp.zeros(memory)
    with pytest.raises(ValueError, match=message):
        module.init(jax.random.key(0), jnp.zeros(x), memory)


@pytest.mark.parametrize('given', ['cache', 'position'])
def test_cache_and_position_belong_together(given):
    cache = KVCache(jnp.zeros((1, 1, 4, 2)), jnp.zeros((1, 1, 2, 4)))
    arguments = {'cache': cache, 'position': jnp.int32(0)}
    with pytest.raises(ValueError, match='cache and position belong together'):
        MultiHeadAttention(1).init(
            jax.random.key(0), jnp.zeros((1, 1, 4)), **{given: arguments[given]}
        )


def test_causal_is_the_causal_mask_and_combines_with_padding():
    x, mask = normal(0, 2, 3, 8), padding_mask(jnp.array([[1, 1, 1], [1, 0, 0]]))
    module = MultiHeadAttention(num_heads=2)
    variables = parameters(module, x)
    output, _ = module.apply(variables, x, mask=mask, causal=True)
    expected, _ = module.apply(variables, x, mask=mask & causal_mask(3))
    np.testing.assert_array_equal(output, expected)


def test_causal_with_a_memory_is_an_error():
    x = jnp.zeros((1, 1, 4))
    with pytest.raises(ValueError, match='causal=True is only for self-attention without a cache'):
        MultiHeadAttention(1).init(jax.random.key(0), x, x, causal=True)


def test_weights_are_sown_only_on_request():
    x = normal(0, 2, 3, 8)
    module = MultiHeadAttention(num_heads=4)
    variables = parameters(module, x)
    assert set(variables) == {'params'}
    _, nothing = module.apply(variables, x, mutable=['other'])
    assert not nothing
    _, kept = module.apply(variables, x, mask=causal_mask(3), mutable=['intermediates'])
    (weights,) = kept['intermediates']['attention_weights']
    assert weights.shape == (2, 4, 3, 3)
    assert_close(weights.sum(-1), np.ones((2, 4, 3)))
    np.testing.assert_array_equal(weights[:, :, 0, 1:], np.zeros((2, 4, 2)))


@pytest.mark.parametrize('backend, heads', [('cpu', 'float32'), ('gpu', 'bfloat16')])
def test_bfloat16_is_used_for_products_only(monkeypatch, backend, heads):
    monkeypatch.setattr(jax, 'default_backend', lambda: backend)
    x = normal(0, 2, 9, 8)
    module = MultiHeadAttention(num_heads=2, dtype=jnp.bfloat16)
    variables = parameters(module, x)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(variables)} == {'float32'}
    (output, seen), kept = module.apply(variables, x, mutable=['intermediates'])
    assert output.dtype == jnp.bfloat16
    assert seen.key.dtype == seen.value.dtype == heads
    (weights,) = kept['intermediates']['attention_weights']
    assert weights.dtype == jnp.float32
    # Weights rounded to bfloat16 would add up to 1 to about 3 digits only.
    assert_close(weights.sum(-1), np.ones((2, 2, 9)))


def test_bfloat16_scores_reach_the_softmax_unrounded():
    # Scores 512 and 514, divided by sqrt(4); bfloat16 knows no number between 512 and 516.
    query = one_head([[2.0, 2.0, 0.0, 0.0]]).astype(jnp.bfloat16)
    key = one_head([[256.0, 0.0, 0.0, 0.0], [256.0, 1.0, 0.0, 0.0]]).astype(jnp.bfloat16)
    _, weights = dot_product_attention(query, key, key)
    np.testing.assert_allclose(weights[0, 0, 0, 1] / weights[0, 0, 0, 0], np.e, rtol=1e-3)


def test_dropout_applies_to_the_weights_only():
    x = normal(0, 1, 4, 8)
    module = MultiHeadAttention(num_heads=2, dropout_rate=0.5)
    variables = module.init(jax.random.key(0), x)
    rngs = {'dropout': jax.random.key(1)}
    drop = functools.partial(module.apply, variables, x, rngs=rngs, mutable=['intermediates'])
    (dropped, _), seen = drop(deterministic=False)
    (whole, _), seen_whole = drop(deterministic=True)
    assert not np.allclose(dropped, whole)
    # The sown weights are those before dropout.
    np.testing.assert_array_equal(*map(jax.tree.leaves, (seen, seen_whole)))


def test_biases_are_added_to_each_projection():
    x = normal(0, 1, 3, 8)
    plain, biased = (MultiHeadAttention(num_heads=2, use_bias=b) for b in (False, True))
    params = biased.init(jax.random.key(0), x)['params']
    assert {name for name in params if name.endswith('_bias')} == {
        'query_bias',
        'key_bias',
        'value_bias',
        'output_bias',
    }
    assert_close(biased.apply({'params': params}, x)[0], plain.apply({'params': params}, x)[0])
    # A bias on the values of every key passes the softmax as it is; so does that of the output.
    moved = params | {'value_bias': jnp.ones((2, 4)), 'output_bias': jnp.full(8, 3.0)}
    expected = plain.apply({'params': params}, x)[0] + params['output'].sum((0, 1))[None, None] + 3
    assert_close(biased.apply({'params': moved}, x)[0], expected)
