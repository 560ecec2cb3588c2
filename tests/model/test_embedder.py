"""Sums over logits, in parts as over all at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_model import SOURCE, TARGET, VOCAB, model

from transformer_jax.model import embedder


def squares(logits, targets):
    """A scalar of logits and targets, and how many rows there were."""
    return jnp.sum(logits**2 * (targets != 0)[..., None]), jnp.int32(len(logits))


def in_parts(positions, monkeypatch, rows=8, **options):
    """Value and gradient of the squares of all logits, and whether all were ever there at once."""
    monkeypatch.setattr(embedder, '_positions_per_chunk', lambda d_model: positions)
    module, variables, _ = model(output_bias=True)
    source, target = (jnp.tile(x, (rows // 2, 1)) for x in (SOURCE, TARGET))

    def total(variables):
        states, weights = module.apply(variables, source, target, method='decoder_states')
        return embedder.chunked_loss(states, weights, target, squares, **options)

    gradient = jax.value_and_grad(total, has_aux=True)
    whole = f'[{rows},{target.shape[1]},{VOCAB}]'
    return *jax.jit(gradient)(variables), whole in str(jax.make_jaxpr(gradient)(variables))


def test_what_is_summed_over_parts_of_the_logits_is_that_of_all(monkeypatch):
    (whole, rows), expected, all_at_once = in_parts(1000, monkeypatch)
    assert all_at_once and rows == 8
    (value, rows), found, all_at_once = in_parts(10, monkeypatch)
    assert not all_at_once and rows == 8
    np.testing.assert_allclose(value, whole, rtol=1e-5)
    for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-4 * float(jnp.abs(theirs).max()))


def test_rows_that_belong_together_are_in_one_part(monkeypatch):
    seen = []

    def note(logits, targets):
        seen.append(len(logits))
        return jnp.float32(0), None

    monkeypatch.setitem(globals(), 'squares', note)
    in_parts(1, monkeypatch, row_group_size=2)
    assert set(seen) == {2}


@pytest.mark.parametrize(
    'units, wanted, parts',
    [
        pytest.param(64, 8.0, 8, id='as wanted'),
        pytest.param(104, 8.3, 8, id='nearly'),
        pytest.param(13, 2.0, 1, id='rather too large than much too small'),
        pytest.param(8, 31.0, 8, id='of one at the least'),
        pytest.param(8, 0.1, 1, id='one part at the least'),
    ],
)
def test_parts_divide_the_rows_and_are_about_as_many_as_wanted(units, wanted, parts):
    assert embedder._chunk_count(units, wanted) == parts
