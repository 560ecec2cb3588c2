"""Feed-forward, residual connections and layers: the order of norm, sum and dropout."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closeness import assert_close
from flax import linen as nn
from tiny_model import normal

from transformer_jax.model import DecoderLayer, EncoderLayer, FeedForward, ModelConfig
from transformer_jax.model.layers import Residual, compute_dtype
from transformer_jax.model.positions import Positions


def tiny(**changes):
    return ModelConfig(**{'d_model': 16, 'd_ff': 32, 'num_heads': 2} | changes)


def parameters(module, *inputs):
    """Return random parameters, far from the initial zeros and ones of biases and norms."""
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(module.init, jax.random.key(0, impl='rbg'), *inputs)
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype), shapes)


def silence_sublayers(variables):
    """Set the last kernel and bias of each sub-layer to 0."""

    def silence(path, leaf):
        names = [entry.key for entry in path]
        return jnp.zeros_like(leaf) if {'output', 'outer'} & set(names) else leaf

    return jax.tree.map_with_path(silence, variables)


def test_feed_forward_by_hand():
    params = {
        'inner': {
            'kernel': jnp.array([[1.0, -1.0, 0.0], [0.0, 1.0, 2.0]]),
            'bias': jnp.array([0.0, 0.5, -10.0]),
        },
        'outer': {
            'kernel': jnp.array([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]]),
            'bias': jnp.array([0.25, -0.25]),
        },
    }
    # Inner: [4, -2.5, -8] becomes [4, 0, 0], and [1, 3.5, -2] becomes [1, 3.5, 0].
    x = jnp.array([[[4.0, 1.0], [1.0, 4.0]]])
    output = FeedForward(d_ff=3).apply({'params': params}, x)
    assert_close(output, [[[4.25, 7.75], [36.25, 71.75]]])


@pytest.mark.parametrize('norm', ['post', 'pre'])
def test_residual_by_hand(norm):
    # LayerNorm([1, 3]) = [-1, 1]; the sub-layer multiplies its input by 10.
    x = jnp.array([[[1.0, 3.0]]])
    module = Residual(ModelConfig(dropout_rate=0.0, norm=norm))
    variables = {
        'params': {'norm': {'scale': jnp.array([1.0, 2.0]), 'bias': jnp.array([0.0, 5.0])}}
    }
    output, _ = module.apply(variables, x, lambda y: (y * 10.0, None), deterministic=True)
    # post: LayerNorm([11, 33]) = [-1, 1], scaled and moved; pre: [1, 3] + 10 · [-1, 7].
    expected = {'post': [-1.0, 7.0], 'pre': [-9.0, 73.0]}[norm]
    np.testing.assert_allclose(output[0, 0], expected, atol=1e-4)


def test_post_norm_residual_adds_in_float32():
    # 256 + 1 is 256 in bfloat16, and a vector without variance would be normalised to 0.
    x = jnp.array([[[256.0, 256.0]]])
    sublayer_output = jnp.array([[[1.0, 0.0]]], jnp.bfloat16)
    (output, other), _ = Residual(ModelConfig(dropout_rate=0.0)).init_with_output(
        jax.random.key(0, impl='rbg'), x, lambda y: (sublayer_output, 'other'), deterministic=True
    )
    assert output.dtype == jnp.float32 and other == 'other'
    np.testing.assert_allclose(output[0, 0], [1.0, -1.0], atol=0.05)


def test_dropout_applies_to_the_sublayer_and_not_to_the_residual_path():
    x = normal(0, 2, 20, 50)
    output, _ = Residual(ModelConfig(dropout_rate=0.25, norm='pre')).apply(
        {'params': {'norm': {'scale': jnp.ones(50), 'bias': jnp.zeros(50)}}},
        x,
        lambda y: (jnp.full_like(y, 3.0), None),
        deterministic=False,
        rngs={'dropout': jax.random.key(0, impl='rbg')},
    )
    added = np.asarray(output - x).round(3)
    # Kept elements are divided by 0.75, so that the mean stays.
    assert set(np.unique(added)) == {0.0, 4.0}
    assert (added == 0).mean() == pytest.approx(0.25, abs=0.03)


def test_post_norm_applies_dropout_before_sum_and_norm():
    output, _ = Residual(ModelConfig(dropout_rate=0.5)).apply(
        {'params': {'norm': {'scale': jnp.ones(1000), 'bias': jnp.zeros(1000)}}},
        jnp.zeros((1, 1, 1000)),
        lambda y: (jnp.ones_like(y), None),
        deterministic=False,
        rngs={'dropout': jax.random.key(0, impl='rbg')},
    )
    # Zeros and twos in about equal numbers are normalised to about -1 and 1, so nothing is 0.
    np.testing.assert_allclose(np.unique(np.asarray(output)), [-1.0, 1.0], atol=0.1)


def test_dropout_is_for_training_and_differs_each_time():
    config = tiny(dropout_rate=0.5)
    layer, x = EncoderLayer(config), normal(0, 1, 3, 16)
    variables = parameters(layer, x)
    apply = jax.jit(layer.apply, static_argnames='deterministic')
    first, second = (
        apply(variables, x, deterministic=False, rngs={'dropout': jax.random.key(seed, impl='rbg')})
        for seed in (1, 2)
    )
    certain = apply(variables, x, deterministic=True)
    assert float(jnp.abs(first - second).max()) > 0.1
    assert float(jnp.abs(first - certain).max()) > 0.1
    quiet = EncoderLayer(tiny(dropout_rate=0.0))
    assert_close(jax.jit(quiet.apply)(variables, x), certain)


def test_dropout_applies_to_the_sum_of_embedding_and_position():
    module = Positions(ModelConfig(d_model=64, num_heads=4, dropout_rate=0.5))
    # Position 0 adds sin 0 = 0 and cos 0 = 1 to threes; kept elements are doubled.
    x = jnp.full((200, 1, 64), 3.0)
    output = np.asarray(
        module.apply(
            {},
            x,
            jnp.array([0]),
            deterministic=False,
            rngs={'dropout': jax.random.key(0, impl='rbg')},
        )
    )
    assert set(np.unique(output[..., 0::2])) == {0.0, 6.0}
    assert set(np.unique(output[..., 1::2])) == {0.0, 8.0}
    assert (output == 0).mean() == pytest.approx(0.5, abs=0.02)
    certain = module.apply({}, x, jnp.array([0]), deterministic=True)
    np.testing.assert_array_equal(np.unique(np.asarray(certain)), [3.0, 4.0])


def test_post_norm_layers_have_normalised_outputs():
    x, memory = normal(0, 2, 3, 16) * 5 + 2, normal(1, 2, 4, 16)
    encoded, _ = jax.jit(EncoderLayer(tiny()).init_with_output)(jax.random.key(0, impl='rbg'), x)
    (decoded, _, _), _ = jax.jit(DecoderLayer(tiny()).init_with_output)(
        jax.random.key(0, impl='rbg'), x, memory
    )
    for output in (encoded, decoded):
        np.testing.assert_allclose(output.mean(-1), np.zeros((2, 3)), atol=1e-5)
        np.testing.assert_allclose(output.var(-1), np.ones((2, 3)), atol=1e-3)


def test_pre_norm_layers_have_an_identity_path():
    x, memory = normal(0, 2, 3, 16) * 5 + 2, normal(1, 2, 4, 16)
    for layer, inputs in (
        (EncoderLayer(tiny(norm='pre')), (x,)),
        (DecoderLayer(tiny(norm='pre')), (x, memory)),
    ):
        variables = silence_sublayers(parameters(layer, *inputs))
        silent = jax.jit(layer.apply)(variables, *inputs)
        output = silent[0] if isinstance(silent, tuple) else silent
        np.testing.assert_array_equal(output, x)


def test_layer_norm_is_in_float32_under_bfloat16():
    layer, x = EncoderLayer(tiny(dtype='bfloat16')), normal(0, 1, 3, 16)
    output, variables = jax.jit(layer.init_with_output)(jax.random.key(0, impl='rbg'), x)
    assert output.dtype == jnp.float32
    assert {leaf.dtype.name for leaf in jax.tree.leaves(variables)} == {'float32'}
    # Rounded to bfloat16 the mean would be off by about 1e-3.
    np.testing.assert_allclose(output.mean(-1), np.zeros((1, 3)), atol=1e-5)


def test_compute_dtype():
    assert compute_dtype(ModelConfig(dtype='auto')) == jnp.float32  # the tests run on the CPU
    assert compute_dtype(ModelConfig(dtype='bfloat16')) == jnp.bfloat16
    assert compute_dtype(ModelConfig(dtype='float32')) == jnp.float32


def test_sums_of_all_layers_stay_float32():
    config = ModelConfig(
        d_model=16, d_ff=32, num_heads=2, norm='pre', activation_dtype='bfloat16', dtype='bfloat16'
    )
    output, _ = EncoderLayer(config).init_with_output(jax.random.key(0), normal(0, 2, 6, 16))
    assert output.dtype == jnp.float32


def test_bfloat16_sums_have_the_same_parameters_and_dropout():
    x = normal(0, 2, 6, 16).astype(jnp.bfloat16).astype(jnp.float32)
    outputs, layers = [], []
    for dtype in ('float32', 'bfloat16'):
        config = ModelConfig(
            d_model=16, d_ff=32, num_heads=2, dropout_rate=0.5, activation_dtype=dtype
        )
        layer = EncoderLayer(config)
        layers.append(layer.init(jax.random.key(0), x))
        rngs = {'dropout': jax.random.key(1)}
        outputs.append(layer.apply(layers[0], x, deterministic=False, rngs=rngs))
    jax.tree.map(np.testing.assert_array_equal, *layers)
    assert [y.dtype for y in outputs] == [jnp.float32, jnp.bfloat16]
    assert_close(np.asarray(outputs[1], np.float32), outputs[0], 0.02)


def test_a_layer_is_a_plain_linen_module_with_plain_parameters():
    layer = EncoderLayer(tiny())
    assert isinstance(layer, nn.Module)
    shapes = jax.eval_shape(layer.init, jax.random.key(0, impl='rbg'), jnp.zeros((1, 2, 16)))
    assert jax.tree.map(lambda leaf: leaf.shape, shapes) == {
        'params': {
            'self_attention': {
                'query': (16, 2, 8),
                'key': (16, 2, 8),
                'value': (16, 2, 8),
                'output': (2, 8, 16),
            },
            'self_attention_residual': {'norm': {'scale': (16,), 'bias': (16,)}},
            'feed_forward': {
                'inner': {'kernel': (16, 32), 'bias': (32,)},
                'outer': {'kernel': (32, 16), 'bias': (16,)},
            },
            'feed_forward_residual': {'norm': {'scale': (16,), 'bias': (16,)}},
        }
    }


@pytest.mark.parametrize(
    ('activation', 'at_1'),
    [('relu', 1.0), ('gelu', 0.8413447), ('swish', 0.7310586), ('quick_gelu', 0.845796)],
)
def test_activations_by_hand(activation, at_1):
    # x · Phi(x) and x · sigmoid(x) at 1.
    params = {name: {'kernel': jnp.eye(1), 'bias': jnp.zeros(1)} for name in ('inner', 'outer')}
    module = FeedForward(d_ff=1, activation=activation)
    output = module.apply({'params': params}, jnp.ones((1, 1, 1)))
    assert float(output[0, 0, 0]) == pytest.approx(at_1, abs=1e-6)


def test_an_unknown_activation_is_an_error():
    with pytest.raises(ValueError, match=r"activation='tanh' must be one of relu, "):
        FeedForward(d_ff=1, activation='tanh').init(jax.random.key(0), jnp.ones((1, 1, 1)))


def test_activation_dropout_applies_to_the_inner_layer():
    params = {
        'inner': {'kernel': jnp.ones((1, 1000)), 'bias': jnp.zeros(1000)},
        'outer': {'kernel': jnp.ones((1000, 1)) / 1000, 'bias': jnp.zeros(1)},
    }
    output = FeedForward(d_ff=1000, dropout_rate=0.5).apply(
        {'params': params},
        jnp.ones((1, 1, 1)),
        deterministic=False,
        rngs={'dropout': jax.random.key(0)},
    )
    assert 0.9 < float(output[0, 0, 0]) < 1.1 and float(output[0, 0, 0]) != 1.0
