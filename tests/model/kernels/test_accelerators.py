"""cuDNN attention and the deterministic lookup.

XLA's attention stands in for cuDNN's where there is no GPU. To test cuDNN's on a GPU:

JAX_PLATFORMS=cuda python -m pytest tests/model/kernels/test_accelerators.py
"""

import functools
import logging
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closeness import assert_close

from transformer_jax.model import (
    ModelConfig,
    MultiHeadAttention,
    Transformer,
    attention,
    causal_mask,
    dot_product_attention,
    layers,
    padding_mask,
)
from transformer_jax.model.embedder import embedding_lookup
from transformer_jax.model.kernels import accelerators
from transformer_jax.model.kernels.accelerators import cudnn_attention, sum_rows

on_gpu = jax.default_backend() == 'gpu'
# The last sentence only fills the batch: it has no tokens.
TOKENS = jnp.array([[5, 7, 3, 9, 2], [4, 8, 1, 0, 0], [0, 0, 0, 0, 0]])
DTYPE = jnp.bfloat16 if on_gpu else jnp.float32
TOLERANCE = 2e-2 if on_gpu else 1e-5


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    """Without a GPU, replace cuDNN's attention by XLA's, and fail on what cuDNN would refuse."""
    if on_gpu:
        return
    theirs = jax.nn.dot_product_attention

    def attend(query, key, value, mask=None, *, implementation, **arguments):
        assert implementation == 'cudnn'
        assert mask is None  # [B, 1, 1, S] is refused
        assert query.shape[1] % 2 == key.shape[1] % 2 == 0  # odd ones are, for gradients
        return theirs(query, key, value, implementation='xla', **arguments)

    monkeypatch.setattr(jax.nn, 'dot_product_attention', attend)


def normal(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), DTYPE)


def close(actual, expected):
    actual, expected = (np.asarray(x, np.float32) for x in (actual, expected))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE * np.abs(expected).max())


@pytest.mark.parametrize('causal', [False, True])
@pytest.mark.parametrize('padded', [False, True])
def test_cudnn_attention_has_the_values_and_gradients_of_equation_1(causal, padded):
    query, key, value, weight = (normal(seed, 3, 5, 2, 8) for seed in range(4))
    mask = padding_mask(TOKENS) if padded else None
    whole = jnp.ones((1, 1, 1, 5), bool) if mask is None else mask
    # The sentence without tokens only needs to be finite.
    counted = jnp.any(whole, -1)[:, 0, 0, None, None, None]

    def loss(attend, *qkv):
        output = attend(*qkv)
        return jnp.sum(jnp.where(counted, output * weight, 0).astype(jnp.float32)), output

    def plain_attention(query, key, value):
        seen = whole & causal_mask(5) if causal else whole
        return dot_product_attention(query, key, value, seen)[0]

    def gradients(attend):
        return jax.jit(jax.grad(functools.partial(loss, attend), argnums=(0, 1, 2), has_aux=True))

    fused = functools.partial(cudnn_attention, mask=mask, causal=causal)
    mine, output = gradients(fused)(query, key, value)
    expected, plain = gradients(plain_attention)(query, key, value)
    assert np.all(np.isfinite(np.asarray(output, np.float32)))
    close(jnp.where(counted, output, 0), jnp.where(counted, plain, 0))
    for gradient, wanted in zip(mine, expected, strict=True):
        close(gradient, wanted)


@pytest.mark.parametrize('mask', [causal_mask(5), padding_mask(TOKENS) & causal_mask(5)])
def test_cudnn_refuses_a_mask_of_more_than_padding(mask):
    qkv = [normal(seed, 3, 5, 2, 8) for seed in range(3)]
    with pytest.raises(ValueError, match=r'it must be \[3, 1, 1, 5\], as padding_mask makes it'):
        cudnn_attention(*qkv, mask)


def test_queries_and_keys_may_differ_in_length():
    query, key, value = normal(0, 3, 4, 2, 8), normal(1, 3, 5, 2, 8), normal(2, 3, 5, 2, 8)
    mask = padding_mask(TOKENS)
    output, (expected, _) = (
        cudnn_attention(query, key, value, mask),
        dot_product_attention(query, key, value, mask),
    )
    close(output[:2], expected[:2])


def test_the_model_has_the_same_logits_with_cudnn(monkeypatch):
    config = ModelConfig(num_layers=2, d_model=16, d_ff=32, num_heads=2, dtype=DTYPE.dtype.name)
    model, target = Transformer(config, 11), jnp.array([[0, 6, 2, 9], [0, 3, 3, 0], [0, 0, 0, 0]])
    params = jax.jit(model.init)(jax.random.key(0), TOKENS, target)
    expected = jax.jit(model.apply)(params, TOKENS, target)
    used = []
    monkeypatch.setattr(
        layers, 'attention_implementation', lambda config: used.append(1) or 'cudnn'
    )
    fused = jax.jit(lambda *arguments: model.apply(*arguments))(params, TOKENS, target)
    assert used
    close(fused[:2], expected[:2])


def test_a_mask_of_more_than_padding_is_left_to_xla(monkeypatch):
    monkeypatch.setattr(attention, 'cudnn_attention', None)
    x, segments = normal(0, 2, 5, 16), jnp.array([[1, 1, 2, 2, 2], [1, 2, 3, 0, 0]])
    fused, plain = (
        MultiHeadAttention(num_heads=2, implementation=one, dtype=DTYPE) for one in ('cudnn', 'xla')
    )
    mask = attention.segment_mask(segments, segments)
    variables = plain.init(jax.random.key(0), x)
    (mine, _), (expected, _) = (one.apply(variables, x, mask=mask) for one in (fused, plain))
    np.testing.assert_array_equal(mine, expected)


def test_the_attention_weights_are_available_on_request():
    x = normal(0, 2, 3, 16)
    module = MultiHeadAttention(num_heads=2, implementation='cudnn', dtype=DTYPE)
    variables = module.init(jax.random.key(0), x)
    (_, _), kept = module.apply(variables, x, causal=True, mutable=['intermediates'])
    (weights,) = kept['intermediates']['attention_weights']
    np.testing.assert_array_equal(weights[:, :, 0, 1:], np.zeros((2, 2, 2)))


def test_cudnn_refuses_dropout_of_the_weights():
    module = MultiHeadAttention(num_heads=2, implementation='cudnn', dropout_rate=0.1)
    with pytest.raises(ValueError, match=r"dropout_rate=0\.1 does not go with .*'cudnn'"):
        module.init(jax.random.key(0), normal(0, 1, 3, 16))


@pytest.mark.skipif(on_gpu, reason='there is a GPU')
def test_without_a_gpu_xla_is_used_with_one_warning(caplog):
    config = ModelConfig(attention_implementation='cudnn')
    accelerators._warn_no_cudnn.cache_clear()
    with caplog.at_level(logging.WARNING, 'transformer_jax'):
        assert [accelerators.attention_implementation(config) for _ in range(2)] == ['xla', 'xla']
    assert [record.getMessage() for record in caplog.records] == [
        "model.attention_implementation='cudnn' needs an NVIDIA GPU since Ampere (compute "
        "capability 8.0), and there is none: attention is 'xla' here."
    ]


@pytest.mark.parametrize(
    'version, capability, used',
    [
        ('cuda 13000', '7.5', 'xla'),
        ('cuda 13000', '8.0', 'cudnn'),
        ('cuda 13000', '10.0', 'cudnn'),
        ('rocm 60000', 'gfx942', 'xla'),
    ],
)
def test_gpus_without_a_cudnn_kernel_use_xla(version, capability, used, monkeypatch):
    client = types.SimpleNamespace(platform_version=version)
    gpu = types.SimpleNamespace(client=client, compute_capability=capability)
    monkeypatch.setattr(jax, 'default_backend', lambda: 'gpu')
    monkeypatch.setattr(jax, 'local_devices', lambda: [gpu])
    config = ModelConfig(attention_implementation='cudnn')
    assert accelerators.attention_implementation(config) == used
    # 'auto' takes it only for batches that are padded at their end.
    assert accelerators.attention_implementation(ModelConfig()) == 'xla'
    padded = accelerators.for_padded_batches(ModelConfig())
    assert accelerators.attention_implementation(padded) == used
    for other in (ModelConfig(dtype='float32'), ModelConfig(attention_implementation='xla')):
        assert accelerators.for_padded_batches(other) == other


def float32_normal(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


@pytest.mark.parametrize('count', [1, 2, 7, 64])
def test_sum_rows_adds_the_values_of_each_row(count):
    indices = np.random.default_rng(count).integers(2, 9, count)
    values = float32_normal(0, count, 3)
    expected = np.zeros((11, 3))
    np.add.at(expected, indices, np.asarray(values))
    sums = jax.jit(sum_rows, static_argnums=0)(11, jnp.asarray(indices, jnp.int32), values)
    assert_close(sums, expected)
    absent = np.setdiff1d(np.arange(11), indices)
    np.testing.assert_array_equal(np.asarray(sums)[absent], 0)


def test_the_sum_of_a_row_does_not_depend_on_other_rows():
    # A difference of running sums would lose digits after large rows.
    values, others = float32_normal(0, 50, 2), 1e6 * float32_normal(1, 50, 2)
    sums = jax.jit(sum_rows, static_argnums=0)
    alone = sums(3, jnp.full(50, 1), values)
    below = sums(3, np.repeat([0, 1], 50), jnp.concatenate([others, values]))
    assert_close(alone[1], below[1])


def test_the_deterministic_lookup_has_the_gradient_of_a_lookup(monkeypatch):
    table, indices = float32_normal(0, 6, 4), jnp.array([[1, 3, 3], [0, 1, 1]])
    weight = float32_normal(1, 2, 3, 4)

    def gradient():
        total = lambda table: jnp.sum(jnp.sin(embedding_lookup(table, indices)) * weight)  # noqa: E731
        return jax.jit(jax.grad(total))(table)

    expected = gradient()
    monkeypatch.setattr(jax, 'default_backend', lambda: 'gpu')
    scattered = jax.make_jaxpr(
        lambda table: jax.vjp(lambda t: embedding_lookup(t, indices), table)[1](weight)
    )
    assert 'scatter' not in str(scattered(table))
    assert_close(gradient(), expected)
