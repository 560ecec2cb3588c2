"""The decoding cache: step by step gives what one pass gives (promise 3), within its capacity."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closeness import assert_close
from tiny_model import SOURCE, VARIANTS, VOCAB, model

from transformer_jax.model import grow_cache, reorder_hypotheses, select_sentences
from transformer_jax.model.kv_cache import ancestor_mask


def decoding(module):
    """Return the compiled start_decoding(variables, source, hypotheses) and decode_step."""

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
        assert_close(logits_RV, expected_RTV[:, position])


def test_hypotheses_see_the_tokens_of_their_ancestors():
    module, variables, logits = model()
    start, step = decoding(module)
    grow, reorder = jax.jit(grow_cache, static_argnums=1), jax.jit(reorder_hypotheses)
    inputs_BKT = np.random.default_rng(2).integers(1, VOCAB, (2, 3, 4))
    inputs_BKT[:, :, 0] = 0
    # After two tokens, the hypotheses continue 2, 0, 0 and 1, 1, 2.
    origins_BK = jnp.array([[2, 0, 0], [1, 1, 2]])
    cache = grow(start(variables, SOURCE, 3), 2)
    for position in range(2):
        tokens_R = inputs_BKT[:, :, position].reshape(-1)
        _, cache = step(variables, tokens_R, jnp.int32(position), cache)
    cache = grow(reorder(cache, origins_BK), 4)
    before_BKT = np.take_along_axis(inputs_BKT[..., :2], origins_BK[..., None], axis=1)
    whole_RT = np.concatenate([before_BKT, inputs_BKT[..., 2:]], axis=2).reshape(6, 4)
    expected_RTV = logits(jnp.repeat(SOURCE, 3, axis=0), whole_RT)
    for position in (2, 3):
        logits_RV, cache = step(variables, whole_RT[:, position], jnp.int32(position), cache)
        assert_close(logits_RV, expected_RTV[:, position])
    alone = grow(jax.jit(select_sentences)(cache, jnp.array([1])), 5)
    for after, before in zip(jax.tree.leaves(alone), jax.tree.leaves(cache), strict=True):
        assert after.shape[0] == 1
        seen = tuple(slice(size) for size in before.shape[1:])
        np.testing.assert_array_equal(after[0][seen], before[1])


def test_one_hypothesis_can_become_several():
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
    assert_close(logits_RV, expected_RTV[:, 2])
    with pytest.raises(
        ValueError, match='origins has 2 hypotheses of a sentence, fewer than the 3'
    ):
        reorder_hypotheses(cache, jnp.zeros((2, 2), int))


def test_decoding_beyond_the_learned_positions_is_an_error():
    # A step knows its position only when it runs, so the check is on the cache length.
    module, variables, _ = model(positions='learned')
    cache = grow_cache(decoding(module)[0](variables, SOURCE), 17)
    with pytest.raises(ValueError, match=r'17 positions are more than the 16 .*max_positions'):
        module.apply(variables, jnp.zeros(2, int), jnp.int32(0), cache, method='decode_step')


def test_a_decoding_step_with_an_empty_cache_or_wrong_rows_is_an_error():
    module, variables, _ = model()
    cache = decoding(module)[0](variables, SOURCE, 2)
    rows = 2 * len(SOURCE)
    with pytest.raises(ValueError, match=r'length is 0: call grow_cache\(cache, length\) first'):
        module.apply(variables, jnp.zeros(rows, int), 0, cache, method='decode_step')
    with pytest.raises(ValueError, match=rf'tokens has shape \(\d+, 2\): it must be \[{rows}\]'):
        tokens = jnp.zeros((len(SOURCE), 2), int)
        module.apply(variables, tokens, 0, grow_cache(cache, 3), method='decode_step')


def test_a_cache_cannot_shrink():
    module, variables, _ = model()
    cache = grow_cache(decoding(module)[0](variables, SOURCE), 3)
    with pytest.raises(ValueError, match=r'length=2 must be at least the cache length, 3\.'):
        grow_cache(cache, 2)


def test_a_position_beyond_the_cache_length_gives_nan():
    module, variables, _ = model()
    cache = grow_cache(decoding(module)[0](variables, SOURCE), 3)
    step = jax.jit(functools.partial(module.apply, variables, method='decode_step'))
    tokens = jnp.zeros(len(SOURCE), int)
    assert np.isfinite(step(tokens, 2, cache)[0]).all()
    assert np.isnan(step(tokens, 3, cache)[0]).all()


def test_the_ancestor_mask_of_the_worked_example():
    # The docstring of `DecodingCache`: 'the dog ran' and 'the cat ran'.
    mask = ancestor_mask(jnp.array([[[0, 1, 0], [0, 0, 1]]]))
    assert [np.flatnonzero(seen).tolist() for seen in mask[0, 0]] == [[0, 3, 4], [0, 2, 5]]
