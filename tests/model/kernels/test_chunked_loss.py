"""The loss and its gradient, summed over chunks, equal those over all logits at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closeness import assert_close
from tiny_model import SOURCE, TARGET, VOCAB, model, normal

from transformer_jax.model.kernels import chunked_loss
from transformer_jax.model.kernels.chunked_loss import chunked_sum


def squares(logits, targets):
    """Return a scalar of logits and targets, and the number of rows."""
    return jnp.sum(logits**2 * (targets != 0)[..., None]), jnp.int32(len(logits))


def squares_in_chunks(positions, monkeypatch, rows=8, **options):
    """Return value and gradient of the squared logits, and whether all existed at once."""
    monkeypatch.setattr(chunked_loss, '_positions_per_chunk', lambda d_model: positions)
    module, variables, _ = model(output_bias=True)
    source, target = (jnp.tile(x, (rows // 2, 1)) for x in (SOURCE, TARGET))

    def total(variables):
        states, weights = module.apply(variables, source, target, method='decoder_states')
        loss = chunked_loss.chunked_loss
        return loss(states, weights, target, squares, layout=module.layout, **options)

    gradient = jax.value_and_grad(total, has_aux=True)
    whole = f'[{rows},{target.shape[1]},{VOCAB}]'
    return *jax.jit(gradient)(variables), whole in str(jax.make_jaxpr(gradient)(variables))


def test_the_chunked_loss_and_its_gradient_equal_those_of_the_whole_batch(monkeypatch):
    (whole, rows), expected, all_at_once = squares_in_chunks(1000, monkeypatch)
    assert all_at_once and rows == 8
    (value, rows), found, all_at_once = squares_in_chunks(10, monkeypatch)
    assert not all_at_once and rows == 8
    assert_close(value, whole)
    for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-4 * float(jnp.abs(theirs).max()))


def test_rows_of_a_group_stay_in_one_chunk(monkeypatch):
    seen = []

    def record(logits, targets):
        seen.append(len(logits))
        return jnp.float32(0), None

    monkeypatch.setitem(globals(), 'squares', record)
    squares_in_chunks(1, monkeypatch, row_group_size=2)
    assert set(seen) == {2}


@pytest.mark.parametrize(
    'units, wanted, count',
    [
        pytest.param(64, 8.0, 8, id='as wanted'),
        pytest.param(104, 8.3, 8, id='nearly'),
        pytest.param(13, 2.0, 1, id='too large rather than much too small'),
        pytest.param(8, 31.0, 8, id='one row at least'),
        pytest.param(8, 0.1, 1, id='one chunk at least'),
    ],
)
def test_the_chunk_count_divides_the_rows_and_is_near_the_wanted_one(units, wanted, count):
    assert chunked_loss._chunk_count(units, wanted) == count


def chunk_value(weights, x, powers):
    """Return a scalar, and sums of two kinds."""
    y = jnp.sin(x @ weights['matrix'])
    return jnp.sum(y ** powers[:, None]), {'x': jnp.sum(x), 'chunks': jnp.int32(1)}


WEIGHTS = {'matrix': normal(0, 4, 5), 'none': None}
CHUNKS = normal(1, 3, 2, 4), jnp.array([[1, 2], [3, 1], [2, 2]])


def test_chunks_add_up():
    value, rest = chunked_sum(chunk_value, WEIGHTS, *CHUNKS)
    expected = sum(chunk_value(WEIGHTS, *chunk)[0] for chunk in zip(*CHUNKS, strict=True))
    assert_close(value, expected)
    assert_close(rest['x'], CHUNKS[0].sum())
    assert int(rest['chunks']) == 3


@pytest.mark.parametrize('count', [1, 3])
def test_the_gradient_chunk_values_is_that_of_their_sum(count):
    x, powers = CHUNKS[0][:count], CHUNKS[1][:count]

    def plain(weights, x):
        return sum(chunk_value(weights, *chunk)[0] for chunk in zip(x, powers, strict=True)) ** 2

    def chunked(weights, x):
        return chunked_sum(chunk_value, weights, x, powers)[0] ** 2

    found, expected = (jax.grad(f, argnums=(0, 1))(WEIGHTS, x) for f in (chunked, plain))
    assert_close(found[0]['matrix'], expected[0]['matrix'])
    assert_close(found[1], expected[1])


def test_gradients_chunk_values_are_added_up_in_float32():
    # In bfloat16, adding ones ends at 256.
    x = jnp.ones((300, 1), jnp.bfloat16)

    def half_of_all(weight):
        product = lambda weight, x, _: (jnp.sum(weight * x), None)  # noqa: E731
        return chunked_sum(product, weight, x, None)[0] / 2

    assert float(jax.grad(half_of_all)(jnp.bfloat16(1))) == 150.0
