"""Modules and losses export once for any batch and any length."""

import jax
import jax.numpy as jnp
import pytest
from closeness import assert_close
from jax import export
from tiny_model import SOURCE, TARGET, VOCAB, model, shapes_of, tiny

from transformer_jax.model import Decoder, Encoder, Layout, Transformer, grow_cache, shift_right
from transformer_jax.model.kernels.chunked_loss import chunked_loss
from transformer_jax.training.loss import label_smoothed_loss, symmetric_divergence

VARIANTS = [
    pytest.param({}, id='paper'),
    pytest.param({'norm': 'pre', 'positions': 'learned', 'd_k': 3, 'd_v': 5}, id='variant'),
]
B, S = export.symbolic_shape('b, s')


def array(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


def ids(*shape):
    return array(*shape, dtype=jnp.int32)


def shape_of_export(function, *inputs):
    """Export a function of arrays that returns one array."""
    (output,) = export.export(jax.jit(function))(*inputs).out_avals
    return output.shape


def lengths():
    # Learned positions have a table of 16.
    return export.symbolic_shape('b, s, t', constraints=['s <= 16', 't <= 16'])


def test_one_exported_transformer_gives_the_logits_of_all_shapes():
    batch, source, target = lengths()
    module, variables, logits = model(num_layers=1)
    inputs = ids(batch, source), ids(batch, target)
    program = export.export(jax.jit(module.apply))(variables, *inputs)
    for x, y in ((SOURCE, TARGET), (SOURCE[:1, :3], TARGET[:1])):
        assert_close(program.call(variables, x, y), logits(x, y))


@pytest.mark.parametrize('changes', VARIANTS)
def test_encoder_and_decoder_export(changes):
    batch, source, target = lengths()
    x, y = array(batch, source, 8), array(batch, target, 8)
    mask = array(batch, 1, 1, source, dtype=bool)
    example = jnp.zeros((1, 2, 8))
    encoder, decoder = (m(tiny(num_layers=1, **changes)) for m in (Encoder, Decoder))

    def both(variables, x, y, mask):
        memory = encoder.apply(variables[0], x, mask)
        return decoder.apply(variables[1], y, memory, mask)[0]

    variables = shapes_of(encoder, example), shapes_of(decoder, example, example)
    assert shape_of_export(both, variables, x, y, mask) == y.shape


def test_a_decoding_step_exports():
    module = Transformer(tiny(num_layers=1), VOCAB)

    def first_step(variables, source):
        cache = grow_cache(module.apply(variables, source, method='start_decoding'), 4)
        start = jnp.zeros(source.shape[0], jnp.int32), jnp.int32(0)
        return module.apply(variables, *start, cache, method='decode_step')[0]

    variables = shapes_of(module, SOURCE, TARGET)
    assert shape_of_export(first_step, variables, ids(B, S)) == (B, VOCAB)


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_the_gradient_of_the_loss_exports(dtype):
    batch, source, target = lengths()
    config = tiny(dtype=dtype, num_layers=1, attention_bias=True, output_bias=True)
    module = Transformer(config, VOCAB)

    def loss(variables, source, targets):
        states, weights = module.apply(
            variables,
            source,
            shift_right(targets),
            deterministic=False,
            rngs={'dropout': jax.random.key(0)},
            method='decoder_states',
        )

        def of_chunk(logits, targets):
            sums = label_smoothed_loss(logits, targets, 0.1)
            return sums.loss, sums

        return chunked_loss(states, weights, targets, of_chunk, layout=Layout())[0]

    def of_embedding(*inputs):
        return jax.grad(loss)(*inputs)['params']['embedding']

    inputs = shapes_of(module, SOURCE, TARGET), ids(batch, source), ids(batch, target)
    assert shape_of_export(of_embedding, *inputs) == (VOCAB, 8)


def test_the_gradient_of_the_divergence_exports():
    logits = array(2 * B, S, VOCAB)
    assert shape_of_export(jax.grad(symmetric_divergence), logits, ids(B, S)) == logits.shape
