"""One, two or three embedding matrices, and a decoder that starts with zeros."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closeness import assert_close
from tiny_model import SOURCE, TARGET, VOCAB, model, parameters, tiny

from transformer_jax.config import VocabSizes
from transformer_jax.model import Transformer, parameter_count, parameter_shapes

PAIR = jnp.array([[3, 5]]), jnp.array([[0, 7]])


@pytest.mark.parametrize(
    'tied, rows',
    [
        ('all', {'embedding': [0, 3, 5, 7, 10]}),
        ('decoder', {'embedding': [0, 7, 10], 'source_embedding': [3, 5]}),
        ('none', {'embedding': [0, 7], 'source_embedding': [3, 5], 'output_embedding': [10]}),
    ],
)
def test_each_matrix_has_the_gradients_of_its_uses(tied, rows):
    module, variables, _ = model(tied_embeddings=tied)

    def logit_of_10(variables):
        return module.apply(variables, *PAIR)[0, -1, 10]

    gradients = jax.jit(jax.grad(logit_of_10))(variables)['params']
    matrices = {k: x for k, x in gradients.items() if k.endswith('embedding')}
    # 3 and 5 as the source, 0 and 7 as the target, 10 as the output, and nothing else.
    found = {k: np.flatnonzero(np.abs(x).sum(-1) > 1e-4).tolist() for k, x in matrices.items()}
    assert found == rows


def test_matrices_of_the_same_values_compute_the_same_however_tied():
    _, variables, logits = model()
    same = variables['params']['embedding']
    untied, *_ = model(tied_embeddings='none')
    params = variables['params'] | {'source_embedding': same, 'output_embedding': same}
    found = jax.jit(untied.apply)({'params': params}, SOURCE, TARGET)
    assert_close(found, logits(SOURCE, TARGET))


def test_the_sides_may_have_vocabularies_of_different_sizes():
    config, sizes = tiny(tied_embeddings='decoder'), VocabSizes(target=7, source=VOCAB)
    module = Transformer.of(config, sizes)
    shapes = parameter_shapes(config, sizes)
    assert shapes['embedding'].shape == (7, 8)
    assert shapes['source_embedding'].shape == (VOCAB, 8)
    assert parameter_count(config, sizes) == parameter_count(config, 7) + 4 * 8
    target = jnp.minimum(TARGET, 6)
    output = jax.eval_shape(module.apply, parameters(module, SOURCE, target), SOURCE, target)
    assert output.shape == (2, 5, 7)


def test_one_matrix_for_vocabularies_of_different_sizes_is_an_error():
    with pytest.raises(ValueError, match='source_vocab_size=11 differs from vocab_size=7'):
        parameter_shapes(tiny(), VocabSizes(target=7, source=VOCAB))


@pytest.mark.parametrize('tied', ['all', 'decoder', 'none'])
def test_a_zero_start_is_a_vector_of_zeros_whatever_the_embedding_of_padding(tied):
    _, variables, logits = model(tied_embeddings=tied, decoder_start='zero')
    params = variables['params']
    with_zeros = params | {'embedding': params['embedding'].at[0].set(0.0)}
    start_by_padding = Transformer(tiny(tied_embeddings=tied), VOCAB)
    expected = jax.jit(start_by_padding.apply)({'params': with_zeros}, SOURCE, TARGET)
    # But for the output of padding itself, which is a product with the row.
    assert_close(logits(SOURCE, TARGET)[..., 1:], expected[..., 1:])
    assert not np.allclose(jax.jit(start_by_padding.apply)(variables, SOURCE, TARGET), expected)


@pytest.mark.parametrize('tied', ['all', 'decoder', 'none'])
def test_with_a_zero_start_the_embedding_of_padding_is_zeros_and_stays_so(tied):
    module = Transformer(tiny(tied_embeddings=tied, decoder_start='zero'), VOCAB)
    variables = jax.jit(module.init)(jax.random.key(0), SOURCE, TARGET)
    targets = jnp.array([[6, 2, 9, 4, 1], [3, 3, 7, 5, 0]])

    def loss(variables):
        log_probs = jax.nn.log_softmax(module.apply(variables, SOURCE, TARGET))
        return -jnp.sum(jnp.take_along_axis(log_probs, targets[..., None], -1))

    gradient_VD = jax.jit(jax.grad(loss))(variables)['params']['embedding']
    assert not np.any(variables['params']['embedding'][0])
    assert not np.any(gradient_VD[0])
    assert np.all(np.any(gradient_VD[2:8], axis=-1))
