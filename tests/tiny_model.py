"""A tiny Transformer for tests of the model and its parts.

Dimension key of these tests: B batch, T target length, S source length, K hypotheses, N heads,
D model, V vocabulary.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_jax.model import ModelConfig, Transformer

VOCAB = 11
SOURCE = jnp.array([[3, 5, 7, 9, 1, 0], [4, 8, 1, 0, 0, 0]])
TARGET = jnp.array([[0, 6, 2, 9, 4], [0, 3, 3, 7, 5]])

VARIANTS = [
    pytest.param({}, id='paper'),
    pytest.param({'norm': 'pre', 'positions': 'learned', 'd_k': 3, 'd_v': 5}, id='variant'),
    pytest.param(
        {
            'tied_embeddings': 'none',
            'decoder_start': 'zero',
            'positions': 'sinusoidal_marian',
            'output_bias': True,
        },
        id='marian',
    ),
]


def tiny(**changes):
    sizes = {'num_layers': 2, 'd_model': 8, 'd_ff': 12, 'num_heads': 2, 'max_positions': 16}
    return ModelConfig(**sizes | changes)


def normal(seed, *shape, dtype=jnp.float32):
    """Normally distributed numbers."""
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def shapes_of(module, *inputs):
    return jax.eval_shape(module.init, jax.random.key(0), *inputs)


def parameters(module, *inputs):
    """Arbitrary ones; no bias is 0 and no norm's scale is 1, as they would be initially."""
    rng = np.random.default_rng(0)

    def draw(path, leaf):
        centre, spread = (1.0, 0.2) if path[-1].key == 'scale' else (0.0, 0.5)
        return jnp.asarray(rng.normal(centre, spread, leaf.shape), leaf.dtype)

    return jax.tree.map_with_path(draw, shapes_of(module, *inputs))


@functools.cache
def model(**changes):
    """A tiny Transformer, its parameters, and its compiled logits(source, target_inputs)."""
    module = Transformer(tiny(**changes), VOCAB)
    variables = parameters(module, SOURCE, TARGET)
    return module, variables, functools.partial(jax.jit(module.apply), variables)
