"""Without a memory, the decoder is a causal language model, with and without a cache."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closeness import assert_close
from tiny_model import normal, parameters, tiny

from transformer_jax.model import Decoder, DecoderLayer, advance_cache, empty_cache, grow_cache

X = normal(0, 2, 5, 8)
DECODER = Decoder(tiny())
VARIABLES = parameters(DECODER, X)


def run(x, **options):
    return DECODER.apply(VARIABLES, x, **options)


def test_there_are_no_parameters_of_cross_attention():
    names = {key.key for path, _ in jax.tree.leaves_with_path(VARIABLES) for key in path}
    assert 'self_attention' in names
    assert not [name for name in names if 'cross' in name]


def test_no_output_depends_on_later_tokens():
    changed = X.at[:, -1].add(1.0)
    np.testing.assert_array_equal(run(changed)[0][:, :-1], run(X)[0][:, :-1])
    assert (run(changed)[0][:, -1] != run(X)[0][:, -1]).any()


def test_steps_with_a_cache_equal_one_pass():
    cache = grow_cache(empty_cache(DECODER.config, 2), 5)
    steps = []
    for position in range(5):
        cache = advance_cache(cache, position)
        y, self_attention, memory = run(
            X[:, position, None], cache=cache, position=jnp.int32(position)
        )
        cache = cache._replace(self_attention=self_attention)
        steps.append(y)
        assert memory == ()
    assert_close(jnp.concatenate(steps, axis=1), run(X)[0])


def test_a_forgotten_memory_is_an_error():
    layer = DecoderLayer(tiny())
    with_memory = parameters(layer, X, X)
    with pytest.raises(ValueError, match='memory=None, but the parameters have cross attention'):
        layer.apply(with_memory, X)
    with pytest.raises(ValueError, match='memory_mask is given, but memory=None'):
        layer.init(jax.random.key(0), X, memory_mask=jnp.ones((2, 1, 1, 5), bool))


def test_a_cache_without_capacity_is_an_error():
    with pytest.raises(ValueError, match=r'call grow_cache\(cache, length\) first'):
        advance_cache(empty_cache(DECODER.config, 2), 0)
