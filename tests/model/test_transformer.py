"""The whole model: it computes what the paper says, and keeps its promises."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closeness import assert_close
from tiny_model import SOURCE, TARGET, VARIANTS, VOCAB, model, parameters, shapes_of, tiny

from transformer_jax.model import (
    Decoder,
    Encoder,
    ModelConfig,
    Transformer,
    in_compute_dtype,
    padding_mask,
    parameter_count,
    parameter_shapes,
    shift_right,
    transposed_kernels,
)


def numpy_transformer(params, source, target):
    """Figure 1 for one sentence without padding, two heads, post-norm, sinusoidal positions."""
    params = jax.tree.map(np.asarray, params)

    def norm(x, p):
        centred = x - x.mean(-1, keepdims=True)
        return (
            centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * p['scale'] + p['bias']
        )

    def attend(x, memory, p, mask):
        heads = []
        for n in range(2):
            query, key, value = (
                x @ p['query'][:, n],
                memory @ p['key'][:, n],
                memory @ p['value'][:, n],
            )
            scores = np.where(mask, np.exp(query @ key.T / np.sqrt(query.shape[-1])), 0.0)
            heads.append(scores / scores.sum(-1, keepdims=True) @ value)
        return np.concatenate(heads, -1) @ p['output'].reshape(-1, x.shape[-1])

    def feed_forward(x, p):
        hidden = np.maximum(x @ p['inner']['kernel'] + p['inner']['bias'], 0.0)
        return hidden @ p['outer']['kernel'] + p['outer']['bias']

    def embed(tokens):
        d = params['embedding'].shape[-1]
        x = params['embedding'][tokens] * np.sqrt(d)
        for pos in range(len(tokens)):
            for i in range(d // 2):
                x[pos, 2 * i] += np.sin(pos / 10000 ** (2 * i / d))
                x[pos, 2 * i + 1] += np.cos(pos / 10000 ** (2 * i / d))
        return x

    def sublayer(p, name, x, *inputs):
        function = feed_forward if name == 'feed_forward' else attend
        return norm(
            x + function(x, *inputs[:1], p[name], *inputs[1:]), p[f'{name}_residual']['norm']
        )

    memory = embed(source)
    everything = np.ones((1, len(source)), bool)
    for layer in range(2):
        p = params['encoder'][f'layer_{layer}']
        memory = sublayer(p, 'self_attention', memory, memory, everything)
        memory = sublayer(p, 'feed_forward', memory)
    x, past = embed(target), np.tri(len(target), dtype=bool)
    for layer in range(2):
        p = params['decoder'][f'layer_{layer}']
        x = sublayer(p, 'self_attention', x, x, past)
        x = sublayer(p, 'cross_attention', x, memory, everything)
        x = sublayer(p, 'feed_forward', x)
    return x @ params['embedding'].T


def test_the_default_model_computes_figure_1():
    _, variables, logits = model()
    source, target = [3, 5, 7, 9, 1, 2], [0, 6, 2, 9, 4]
    np.testing.assert_allclose(
        logits(jnp.array([source]), jnp.array([target]))[0],
        numpy_transformer(variables['params'], source, target),
        atol=2e-4,
    )


# Promise 1: causal.


@pytest.mark.parametrize('changes', VARIANTS)
def test_logits_do_not_change_with_later_tokens(changes):
    _, _, logits = model(**changes)
    before = logits(SOURCE, TARGET)
    for i in range(TARGET.shape[1] - 1):
        after = logits(SOURCE, TARGET.at[:, i + 1 :].set(10))
        assert_close(after[:, : i + 1], before[:, : i + 1])
        assert np.all(np.abs(after[:, i + 1] - before[:, i + 1]).max(axis=-1) > 1e-2)


@pytest.mark.parametrize('norm', ['post', 'pre'])
def test_no_gradient_flows_from_a_position_to_a_later_one(norm):
    decoder = Decoder(tiny(norm=norm))
    rng = np.random.default_rng(1)
    x_BTD = jnp.asarray(rng.normal(size=(1, 5, 8)), jnp.float32)
    memory_BSD = jnp.asarray(rng.normal(size=(1, 6, 8)), jnp.float32)
    weights_D = jnp.asarray(rng.normal(size=8), jnp.float32)
    variables = parameters(decoder, x_BTD, memory_BSD)

    def outputs(x_BTD):
        return decoder.apply(variables, x_BTD, memory_BSD)[0][0] @ weights_D

    # [outputs, inputs]: how much each output asks of each input.
    pull = np.abs(jax.jit(jax.jacrev(outputs))(x_BTD)[:, 0]).sum(-1)
    np.testing.assert_array_equal(pull[np.triu_indices(5, 1)], np.zeros(10))
    assert np.all(pull[np.tril_indices(5)] > 1e-4)


# Promise 2: padding-blind.


@pytest.mark.parametrize('changes', VARIANTS)
def test_padding_of_either_side_does_not_change_logits(changes):
    _, _, logits = model(**changes)
    before = logits(SOURCE, TARGET)
    wider = logits(
        jnp.pad(SOURCE, ((0, 0), (0, 7))),
        jnp.pad(TARGET, ((0, 0), (0, 4))),
    )
    assert_close(wider[:, : TARGET.shape[1]], before)


@pytest.mark.parametrize('changes', VARIANTS)
def test_other_sentences_and_their_order_do_not_change_logits(changes):
    _, _, logits = model(**changes)
    before = logits(SOURCE, TARGET)
    # The second sentence alone, without its padding; then among others in another order, one of
    # which is only padding.
    assert_close(logits(SOURCE[1:, :3], TARGET[1:])[0], before[1])
    sources = jnp.stack([SOURCE[1], jnp.zeros(6, int), jnp.full(6, 2), SOURCE[0]])
    targets = jnp.stack([TARGET[1], jnp.zeros(5, int), jnp.full(5, 8), TARGET[0]])
    after = logits(sources, targets)
    assert_close(after[0], before[1])
    assert_close(after[3], before[0])


def test_no_gradient_flows_from_a_sentence_to_its_padding():
    encoder = Encoder(tiny())
    rng = np.random.default_rng(1)
    x_BSD = jnp.asarray(rng.normal(size=(2, 6, 8)), jnp.float32)
    variables, real = parameters(encoder, x_BSD), SOURCE != 0

    def loss(x_BSD):
        output_BSD = encoder.apply(variables, x_BSD, padding_mask(SOURCE))
        return jnp.sum(jnp.sin(output_BSD) * real[..., None])

    pull_BS = np.abs(jax.jit(jax.grad(loss))(x_BSD)).sum(-1)
    np.testing.assert_array_equal(pull_BS[~np.asarray(real)], np.zeros(4))
    assert np.all(pull_BS[np.asarray(real)] > 1e-4)


@pytest.mark.parametrize('norm', ['post', 'pre'])
def test_a_row_of_padding_is_finite_with_finite_gradients(norm):
    module, variables, _ = model(norm=norm)
    nothing = jnp.zeros((1, 4), jnp.int32)

    def loss(variables):
        return jnp.sum(jax.nn.log_softmax(module.apply(variables, nothing, nothing))[..., 1])

    value, gradients = jax.jit(jax.value_and_grad(loss))(variables)
    assert np.isfinite(value)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradients))


# Embeddings and sizes.


def test_one_matrix_embeds_both_languages_and_scores_the_output():
    module, variables, _ = model()
    shapes = [leaf.shape for leaf in jax.tree.leaves(variables) if VOCAB in leaf.shape]
    assert shapes == [(VOCAB, 8)]

    def logit_of_10(variables):
        return module.apply(variables, jnp.array([[3, 5]]), jnp.array([[0, 7]]))[0, -1, 10]

    gradient = jax.jit(jax.grad(logit_of_10))(variables)['params']['embedding']
    # 3 and 5 as the source, 0 and 7 as the target, 10 as the output, and nothing else.
    assert np.flatnonzero(np.abs(gradient).sum(-1) > 1e-4).tolist() == [0, 3, 5, 7, 10]


def test_embeddings_are_scaled_by_the_square_root_of_d_model():
    # Without layers that say anything, a pre-norm encoder is LayerNorm(sqrt(4)·E + PE).
    config = ModelConfig(num_layers=1, d_model=4, d_ff=4, num_heads=1, norm='pre')
    module = Transformer(config, 3)
    variables = jax.tree.map(jnp.zeros_like, parameters(module, SOURCE, TARGET))
    variables['params']['embedding'] = jnp.array([[0.0] * 4, [0.0] * 4, [1.0, 0.5, -2.0, 3.0]])
    variables['params']['encoder']['norm']['scale'] = jnp.ones(4)
    output = module.apply(variables, jnp.array([[2]]), method='encode')[0, 0]
    # 2·E + PE = [2, 2, -4, 7], whose mean is 1.75 and whose variance is 15.1875.
    assert_close(output, np.array([0.25, 0.25, -5.75, 5.25]) / 15.1875**0.5)


def test_variants_have_the_expected_parameters():
    def count(**changes):
        return parameter_count(tiny(**changes), VOCAB)

    paper = count()
    assert count(positions='learned') - paper == 2 * 16 * 8  # two tables
    assert count(norm='pre') - paper == 2 * 2 * 8  # a norm at the end of each stack
    # Six attentions, with queries and keys, or values and output, narrower by one in two heads.
    assert paper - count(d_k=3) == 6 * 2 * 8 * 2
    assert paper - count(d_v=3) == 6 * 2 * 8 * 2


@pytest.mark.parametrize('changes', VARIANTS)
def test_parameter_shapes_are_those_of_an_initialised_model(changes):
    config = tiny(**{'num_layers': 3} | changes)
    initial = shapes_of(Transformer(config, VOCAB), SOURCE, TARGET)['params']
    assert parameter_shapes(config, VOCAB) == initial


def test_parameters_are_float32_in_plain_dicts_whatever_the_compute_dtype():
    for dtype in ('float32', 'bfloat16'):
        shapes = shapes_of(Transformer(tiny(dtype=dtype), VOCAB), SOURCE, TARGET)
        assert {leaf.dtype.name for leaf in jax.tree.leaves(shapes)} == {'float32'}
        assert set(shapes) == {'params'}
        assert type(shapes['params']['encoder']['layer_0']) is dict


def test_bfloat16_gives_float32_logits_near_those_of_float32():
    _, variables, logits = model()
    exact = logits(SOURCE, TARGET)
    rounded = jax.jit(Transformer(tiny(dtype='bfloat16'), VOCAB).apply)(variables, SOURCE, TARGET)
    assert rounded.dtype == exact.dtype == jnp.float32
    assert 0 < float(jnp.abs(rounded - exact).max()) < 0.05 * float(jnp.abs(exact).max())


@pytest.mark.parametrize('changes', VARIANTS)
def test_kernels_in_the_compute_dtype_change_no_bit(changes):
    module, variables, logits = model(dtype='bfloat16', attention_bias=True, **changes)
    params = in_compute_dtype(module.config, variables['params'])
    converted = {
        path[-1].key for path, x in jax.tree.leaves_with_path(params) if x.dtype == jnp.bfloat16
    }
    untied = {'output_embedding'} & {*params}
    assert converted == {'query', 'key', 'value', 'output', 'kernel', *untied}
    found = jax.jit(module.apply)({'params': params}, SOURCE, TARGET)
    np.testing.assert_array_equal(found, logits(SOURCE, TARGET))


@pytest.mark.parametrize('changes', VARIANTS)
def test_transposed_kernels_compute_the_same(changes):
    module, variables, logits = model(**changes)
    transposed = transposed_kernels(module.config, variables['params'])
    wrong = jax.tree.map(jnp.zeros_like, transposed)
    with_transposed = jax.jit(
        lambda kernels: module.apply(variables | {'transposed_kernels': kernels}, SOURCE, TARGET)
    )
    assert_close(with_transposed(transposed), logits(SOURCE, TARGET))
    assert float(jnp.abs(with_transposed(wrong) - logits(SOURCE, TARGET)).max()) > 0.1


def test_transposed_kernels_are_used_for_few_rows_in_float32():
    module, variables, logits = model()
    many = [jnp.tile(tokens, (20, 1)) for tokens in (SOURCE, TARGET)]
    wrong = jax.tree.map(jnp.zeros_like, transposed_kernels(module.config, variables['params']))
    found = jax.jit(module.apply)(variables | {'transposed_kernels': wrong}, *many)
    np.testing.assert_array_equal(found, logits(*many))
    assert transposed_kernels(tiny(dtype='bfloat16'), variables['params']) == {}


def test_float32_has_derivatives_in_both_directions():
    module, variables, _ = model()

    def total(variables):
        return jnp.sum(jnp.sin(module.apply(variables, SOURCE, TARGET)))

    @jax.jit
    def along_themselves(variables):
        forward = jax.jvp(total, (variables,), (variables,))[1]
        backward = jax.tree.map(jnp.vdot, jax.grad(total)(variables), variables)
        return forward, sum(jax.tree.leaves(backward))

    forward, backward = along_themselves(variables)
    assert float(forward) == pytest.approx(float(backward), rel=1e-4)


def test_initial_logits_have_about_unit_variance():
    # Rows of variance 1/D against an output of variance 1: logits of variance about 1.
    module = Transformer(tiny(d_model=64), 500)
    # Keys of 'rbg' compile faster than the default ones.
    key = jax.random.key(0, impl='rbg')
    logits, _ = jax.jit(module.init_with_output)(key, SOURCE, TARGET)
    assert 0.5 < float(logits[:, 1:].std()) < 2.0


# Length.


def test_sinusoidal_positions_have_no_longest_sentence():
    module, variables, _ = model()
    source = jnp.full((1, 300), 3)
    output = jax.jit(functools.partial(module.apply, method='encode'))(variables, source)
    # One token over and over: only its place can tell the positions apart.
    assert np.all(np.isfinite(output))
    assert len(np.unique(np.asarray(output[0]).round(5), axis=0)) == 300


@pytest.mark.parametrize('source_length, target_length', [(17, 5), (6, 17)])
def test_more_positions_than_the_learned_table_is_an_error(source_length, target_length):
    module = Transformer(tiny(positions='learned'), VOCAB)
    with pytest.raises(ValueError, match=r'17 positions are more than the 16 .*max_positions'):
        shapes_of(module, jnp.ones((1, source_length), int), jnp.ones((1, target_length), int))


@pytest.mark.parametrize(
    'source, target, message',
    [
        pytest.param((6,), (1, 5), r'source is int32\[6\]: it must be \[batch', id='one sentence'),
        pytest.param((2, 6), (2, 0), r'target_inputs is int32\[2, 0\]', id='nothing'),
        pytest.param((3, 6), (1, 5), 'source has 3 sentences, but target_inputs 1', id='unequal'),
    ],
)
def test_ids_of_wrong_shapes_are_an_error(source, target, message):
    module = Transformer(tiny(), VOCAB)
    with pytest.raises(ValueError, match=message):
        shapes_of(module, jnp.ones(source, jnp.int32), jnp.ones(target, jnp.int32))


def test_ids_that_are_no_integers_are_an_error():
    with pytest.raises(ValueError, match=r'source is float32\[2, 6\]'):
        shapes_of(Transformer(tiny(), VOCAB), SOURCE.astype(jnp.float32), TARGET)


@pytest.mark.parametrize('token', [VOCAB, -1])
@pytest.mark.parametrize('side', ['source', 'target'])
def test_a_token_outside_the_vocabulary_makes_its_sentence_nan(side, token):
    _, _, logits = model()
    inputs = {'source': SOURCE, 'target': TARGET}
    broken = inputs | {side: inputs[side].at[0, 0].set(token)}
    found, expected = logits(*broken.values()), logits(*inputs.values())
    assert np.isnan(found[0]).all()
    np.testing.assert_array_equal(found[1], expected[1])


def test_attention_maps_of_every_layer_on_request():
    module, variables, _ = model()
    _, kept = jax.jit(functools.partial(module.apply, mutable=['intermediates']))(
        variables, SOURCE, TARGET
    )
    maps = {
        f'{stack}/{layer}/{name}': weights['attention_weights'][0].shape
        for stack, layers in kept['intermediates'].items()
        for layer, attentions in layers.items()
        for name, weights in attentions.items()
    }
    assert maps == {
        'encoder/layer_0/self_attention': (2, 2, 6, 6),
        'encoder/layer_1/self_attention': (2, 2, 6, 6),
        'decoder/layer_0/self_attention': (2, 2, 5, 5),
        'decoder/layer_1/self_attention': (2, 2, 5, 5),
        'decoder/layer_0/cross_attention': (2, 2, 5, 6),
        'decoder/layer_1/cross_attention': (2, 2, 5, 6),
    }


def test_decoder_inputs_are_the_targets_shifted_right():
    assert shift_right(jnp.array([[8, 9, 3, 1], [4, 1, 0, 0]])).tolist() == [
        [0, 8, 9, 3],
        [0, 4, 1, 0],
    ]


def test_dropout_in_training_only():
    module, variables, logits = model(dropout_rate=0.5)
    train = jax.jit(functools.partial(module.apply, deterministic=False))
    first, second = (
        train(variables, SOURCE, TARGET, rngs={'dropout': jax.random.key(seed)}) for seed in (1, 2)
    )
    assert float(jnp.abs(first - second).max()) > 0.1
    assert_close(logits(SOURCE, TARGET), model()[2](SOURCE, TARGET))


def test_without_positions_the_encoder_does_not_know_the_order_of_its_tokens():
    config = tiny(positions='none', d_model=9, num_heads=3, dropout_rate=0.0)
    module = Transformer(config, VOCAB)
    source, target = jnp.array([[5, 6, 7, 1]]), jnp.array([[0, 4]])
    variables = module.init(jax.random.key(0), source, target)
    there = jnp.array([0, 2, 1, 3])
    encoded, other = (
        module.apply(variables, x, method='encode') for x in (source, source[:, there])
    )
    assert_close(encoded[:, there], other)
