"""The decoding cache: step by step as all at once (promise 3), with room that is kept to."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_model import SOURCE, VARIANTS, VOCAB, model

from transformer_jax.model import grow_cache, reorder_hypotheses, select_sentences


def decoding(module):
    """Its compiled start_decoding(variables, source), of several hypotheses, and decode_step."""

    @functools.partial(jax.jit, static_argnums=2)
    def start(variables, source, hypotheses=1):
        cache = module.apply(variables, source, method='start_decoding')
        return reorder_hypotheses(cache, jnp.zeros((len(source), hypotheses), int))

    return start, jax.jit(functools.partial(module.apply, method='decode_step'))


@pytest.mark.parametrize('hypotheses', [1, 3])
@pytest.mark.parametrize('changes', VARIANTS)
def test_decoding_step_by_step_gives_the_logits_of_the_full_pass(changes, hypotheses):
    module, variables, logits = model(**changes)
    config = module.config
    rng = np.random.default_rng(2)
    inputs_RT = jnp.asarray(rng.integers(1, VOCAB, (2 * hypotheses, 5))).at[:, 0].set(0)
    expected_RTV = logits(jnp.repeat(SOURCE, hypotheses, axis=0), inputs_RT)
    start, step = decoding(module)
    cache = grow_cache(start(variables, SOURCE, hypotheses), 7)
    assert cache.self_attention[0].value.shape == (2, 2, 7 * hypotheses, config.value_size)
    # The source is not copied for each hypothesis.
    assert cache.memory[0].value.shape == (2, 2, 6, config.value_size)
    for position in range(5):
        logits_RV, cache = step(variables, inputs_RT[:, position], jnp.int32(position), cache)
        np.testing.assert_allclose(logits_RV, expected_RTV[:, position], atol=1e-5)


def test_hypotheses_that_take_the_place_of_others_see_what_those_have_seen():
    module, variables, logits = model()
    start, step = decoding(module)
    make_room, reorder = jax.jit(grow_cache, static_argnums=1), jax.jit(reorder_hypotheses)
    inputs_BKT = np.random.default_rng(2).integers(1, VOCAB, (2, 3, 4))
    inputs_BKT[:, :, 0] = 0
    # After two tokens the places are taken by the hypotheses 2, 0, 0 and 1, 1, 2.
    origins_BK = jnp.array([[2, 0, 0], [1, 1, 2]])
    cache = make_room(start(variables, SOURCE, 3), 2)
    for position in range(2):
        tokens_R = inputs_BKT[:, :, position].reshape(-1)
        _, cache = step(variables, tokens_R, jnp.int32(position), cache)
    cache = make_room(reorder(cache, origins_BK), 4)
    before_BKT = np.take_along_axis(inputs_BKT[..., :2], origins_BK[..., None], axis=1)
    whole_RT = np.concatenate([before_BKT, inputs_BKT[..., 2:]], axis=2).reshape(6, 4)
    expected_RTV = logits(jnp.repeat(SOURCE, 3, axis=0), whole_RT)
    for position in (2, 3):
        logits_RV, cache = step(variables, whole_RT[:, position], jnp.int32(position), cache)
        np.testing.assert_allclose(logits_RV, expected_RTV[:, position], atol=1e-5)
    alone = make_room(jax.jit(select_sentences)(cache, jnp.array([1])), 5)
    for after, before in zip(jax.tree.leaves(alone), jax.tree.leaves(cache), strict=True):
        assert after.shape[0] == 1
        seen = tuple(slice(size) for size in before.shape[1:])
        np.testing.assert_array_equal(after[0][seen], before[1])


def test_hypotheses_become_more_and_see_what_the_one_before_has_seen():
    module, variables, logits = model()
    start, step = decoding(module)
    inputs_BKT = np.random.default_rng(2).integers(1, VOCAB, (2, 3, 3))
    inputs_BKT[:, :, :2] = inputs_BKT[:, :1, :2]
    inputs_BKT[:, :, 0] = 0
    cache = grow_cache(start(variables, SOURCE), 2)
    for position in range(2):
        tokens_B = inputs_BKT[:, 0, position]
        _, cache = step(variables, tokens_B, jnp.int32(position), cache)
    cache = grow_cache(reorder_hypotheses(cache, jnp.zeros((2, 3), int)), 3)
    inputs_RT = inputs_BKT.reshape(6, 3)
    expected_RTV = logits(jnp.repeat(SOURCE, 3, axis=0), inputs_RT)
    logits_RV, cache = step(variables, inputs_RT[:, 2], jnp.int32(2), cache)
    np.testing.assert_allclose(logits_RV, expected_RTV[:, 2], atol=1e-5)
    with pytest.raises(ValueError, match='origins are of 2 places, but there are 3 hypotheses'):
        reorder_hypotheses(cache, jnp.zeros((2, 2), int))


def test_decoding_beyond_the_learned_positions_is_an_error():
    # A step knows its position only when it runs, so the room asked for is what can be refused.
    module, variables, _ = model(positions='learned')
    cache = grow_cache(decoding(module)[0](variables, SOURCE), 17)
    with pytest.raises(ValueError, match=r'17 positions are more than the 16 .*max_positions'):
        module.apply(variables, jnp.zeros(2, int), jnp.int32(0), cache, method='decode_step')


def test_a_decoding_step_without_room_or_of_other_rows_is_an_error():
    module, variables, _ = model()
    cache = decoding(module)[0](variables, SOURCE, 2)
    rows = 2 * len(SOURCE)
    with pytest.raises(ValueError, match=r'no room: make some by grow_cache\(cache, length\)'):
        module.apply(variables, jnp.zeros(rows, int), 0, cache, method='decode_step')
    with pytest.raises(ValueError, match=rf'tokens has shape \(\d+, 2\): it must be \[{rows}\]'):
        tokens = jnp.zeros((len(SOURCE), 2), int)
        module.apply(variables, tokens, 0, grow_cache(cache, 3), method='decode_step')


def test_room_is_not_taken_away():
    module, variables, _ = model()
    cache = grow_cache(decoding(module)[0](variables, SOURCE), 3)
    with pytest.raises(ValueError, match=r'length=2 must be at least the room there is, 3\.'):
        grow_cache(cache, 2)


def test_a_position_beyond_the_room_of_the_cache_gives_no_logits():
    module, variables, _ = model()
    cache = grow_cache(decoding(module)[0](variables, SOURCE), 3)
    step = jax.jit(functools.partial(module.apply, variables, method='decode_step'))
    tokens = jnp.zeros(len(SOURCE), int)
    assert np.isfinite(step(tokens, 2, cache)[0]).all()
    assert np.isnan(step(tokens, 3, cache)[0]).all()
