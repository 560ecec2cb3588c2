"""Promise 4: beam search is right, compared with the enumeration of all outputs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closeness import assert_close
from search_oracle import (
    EOS,
    EVERYTHING,
    LENGTH,
    LIMITS,
    VOCAB,
    enumerate_outputs,
    log_prob,
    logits_table,
    make_cache,
    output_of,
    stationary,
    step_with,
)

from transformer_jax.decoding import beam_search, greedy_search


@functools.partial(jax.jit, static_argnames=('beam_size', 'n_best'))
def search(table, sentences, limits, alpha, *, beam_size, n_best=1):
    return beam_search(
        step_with(table),
        make_cache(sentences),
        limits,
        length=LENGTH,
        beam_size=beam_size,
        eos_id=EOS,
        length_penalty=alpha,
        n_best=n_best,
    )


@jax.jit
def greedy(table, limits):
    cache = make_cache(np.arange(len(LIMITS)))
    return greedy_search(step_with(table), cache, limits, length=LENGTH, eos_id=EOS)


def search_all(seed, alpha, **options):
    found = search(logits_table(seed), np.arange(len(LIMITS)), LIMITS, alpha, **options)
    return jax.tree.map(np.asarray, found)


@pytest.mark.parametrize('alpha', [0.0, 0.6, 1.5])
@pytest.mark.parametrize('seed', [0, 1, 2])
def test_a_wide_beam_finds_all_outputs_in_order(seed, alpha):
    found = search_all(seed, alpha, beam_size=EVERYTHING, n_best=EVERYTHING)
    for sentence, limit in enumerate(LIMITS):
        expected = enumerate_outputs(logits_table(seed), sentence, limit, alpha)
        n = len(expected)
        assert n == {1: 1, 2: 4, 3: 13, 4: 40}[limit]
        assert [output_of(found, sentence, rank) for rank in range(n)] == [o for _, o in expected]
        assert_close(found.scores[sentence, :n], [score for score, _ in expected])
        assert np.all(found.scores[sentence, n:] == -np.inf)


@pytest.mark.parametrize('alpha', [-2.0, 0.0, 0.6, 1.5])
@pytest.mark.parametrize('seed', range(6))
def test_stopping_early_does_not_change_the_best_outputs(seed, alpha):
    best = search_all(seed, alpha, beam_size=EVERYTHING, n_best=1)
    for sentence, limit in enumerate(LIMITS):
        score, output = enumerate_outputs(logits_table(seed), sentence, limit, alpha)[0]
        assert output_of(best, sentence) == output
        assert_close(best.scores[sentence, 0], score)
    for n_best in (1, 2):
        early = search_all(seed, alpha, beam_size=3, n_best=n_best)
        late = search_all(seed, alpha, beam_size=3, n_best=3)
        np.testing.assert_array_equal(early.tokens[:, :n_best], late.tokens[:, :n_best])
        np.testing.assert_array_equal(early.scores[:, :n_best], late.scores[:, :n_best])


@pytest.mark.parametrize('seed', range(3))
def test_a_narrow_beam_finds_outputs_with_correct_scores(seed):
    found = search_all(seed, 0.6, beam_size=3, n_best=3)
    for sentence, limit in enumerate(LIMITS):
        truth = {o: s for s, o in enumerate_outputs(logits_table(seed), sentence, limit, 0.6)}
        n = min(3, len(truth))
        outputs = [output_of(found, sentence, rank) for rank in range(n)]
        assert len(set(outputs)) == n
        assert_close(found.scores[sentence, :n], [truth[output] for output in outputs])
        assert_close(
            found.log_probs[sentence, :n],
            [log_prob(logits_table(seed), sentence, output) for output in outputs],
        )
        assert np.all(np.diff(found.scores[sentence, :n]) <= 0)


@pytest.mark.parametrize('seed', range(6))
def test_a_beam_of_one_is_greedy_search(seed):
    beam = search_all(seed, 0.6, beam_size=1)
    single = jax.tree.map(np.asarray, greedy(logits_table(seed), LIMITS))
    np.testing.assert_array_equal(beam.tokens, single.tokens)
    np.testing.assert_array_equal(beam.lengths, single.lengths)
    assert_close(beam.log_probs, single.log_probs)
    for sentence in range(len(LIMITS)):
        tokens, history = output_of(single, sentence), 0
        for position, token in enumerate(tokens[:-1]):  # the last may be forced
            assert token == 1 + logits_table(seed)[sentence, position, history, 1:].argmax()
            history = history * VOCAB + token


def test_by_hand_a_beam_of_two_finds_what_greedy_search_misses():
    # After token 2 all is uncertain, after token 3 EOS is likely. Greedy search takes 2 (0.5)
    # and ends with 0.5·0.4 = 0.20; the beam also keeps 3 (0.4) and ends with 0.4·0.9 = 0.36.
    first = jnp.array([0.0, 0.1, 0.5, 0.4])
    after = jnp.array([[0.0] * 4, [0.0] * 4, [0.0, 0.4, 0.3, 0.3], [0.0, 0.9, 0.05, 0.05]])

    def step(tokens, position, cache):
        return jnp.log(jnp.where(position == 0, first[None], after[tokens])), cache

    options = {'length': 2, 'eos_id': EOS}
    limits = jnp.array([2])
    single = greedy_search(step, None, limits, **options)
    assert single.tokens.tolist() == [[[2, 1]]]
    found = beam_search(step, None, limits, beam_size=2, n_best=2, length_penalty=0.0, **options)
    assert found.tokens.tolist() == [[[3, 1], [2, 1]]]
    assert_close(np.exp(found.scores), [[0.36, 0.20]])


def test_by_hand_a_finished_hypothesis_keeps_its_place():
    # EOS takes one of two places with 0.2. Then 2 2 (0.35) and 2 3 (0.28) are both more likely, but
    # only one place is left for them.
    step = stationary([[0.0, 0.2, 0.7, 0.1], [0.0, 0.1, 0.5, 0.4]])
    found = beam_search(
        step,
        None,
        jnp.array([3]),
        length=3,
        beam_size=2,
        eos_id=EOS,
        length_penalty=0.0,
        n_best=2,
    )
    assert found.tokens.tolist() == [[[1, 0, 0], [2, 2, 1]]]
    assert found.lengths.tolist() == [[1, 3]]
    assert_close(np.exp(found.scores), [[0.2, 0.7 * 0.5 * 0.1]])


def test_by_hand_search_continues_if_the_penalty_can_still_decide():
    # EOS at once has log 0.7 = -0.357. The other hypothesis has log 0.3 = -1.204, and ends with
    # its 19th token, when the penalty divides it by 24 / 6: -0.301.
    step = stationary([[0.0, 0.7, 0.3], *[[0.0, 0.0, 1.0]] * 17, [0.0, 1.0, 0.0]])
    found = beam_search(
        step, None, jnp.array([19]), length=20, beam_size=2, eos_id=EOS, length_penalty=1.0
    )
    assert found.tokens[0, 0].tolist() == [2] * 18 + [1, 0]
    assert_close(found.scores[0], np.log([0.3, 0.7]) / [4.0, 1.0])


@pytest.mark.parametrize(
    'options, message',
    [
        ({'length': 0}, 'length=0 must be 1 or more'),
        ({'length_penalty': float('nan')}, 'length_penalty=nan must be a finite number'),
    ],
)
def test_options_out_of_range_are_errors(options, message):
    usual = {'length': 3, 'beam_size': 2, 'eos_id': EOS, 'length_penalty': 0.0}
    with pytest.raises(ValueError, match=message):
        beam_search(stationary([[0.1, 0.2, 0.7]]), None, jnp.array([3]), **usual | options)


def test_at_the_limit_eos_comes_with_its_own_probability():
    step = stationary([[0.1, 0.2, 0.7]])
    found = beam_search(
        step,
        None,
        jnp.array([3, 1]),
        length=5,
        beam_size=2,
        eos_id=EOS,
        length_penalty=0.0,
        n_best=2,
    )
    assert found.tokens[0].tolist() == [[1, 0, 0, 0, 0], [2, 2, 1, 0, 0]]
    assert_close(np.exp(found.log_probs[0]), [0.2, 0.7 * 0.7 * 0.2])
    # A limit of one token allows EOS only, so there is no second output.
    assert found.tokens[1, 0].tolist() == [1, 0, 0, 0, 0]
    assert_close(np.exp(found.log_probs[1]), [0.2, 0.0])
    assert found.scores[1, 1] == -np.inf
    single = greedy_search(step, None, jnp.array([3, 1]), length=5, eos_id=EOS)
    assert single.tokens.tolist() == [[[2, 2, 1, 0, 0]], [[1, 0, 0, 0, 0]]]
    assert single.lengths.tolist() == [[3], [1]]
    assert_close(np.exp(single.log_probs), [[0.7 * 0.7 * 0.2], [0.2]])


def test_padding_is_never_part_of_an_output():
    step = stationary([[0.8, 0.05, 0.1, 0.05]])
    limits = jnp.array([3])
    found = beam_search(
        step, None, limits, length=4, beam_size=7, eos_id=EOS, length_penalty=0.0, n_best=7
    )
    single = greedy_search(step, None, limits, length=4, eos_id=EOS)
    assert single.tokens.tolist() == [[[2, 2, 1, 0]]]
    for tokens, length in zip(found.tokens[0].tolist(), found.lengths[0].tolist(), strict=True):
        assert 0 not in tokens[:length]
        assert tokens[length - 1] == EOS
        assert tokens[length:] == [0] * (4 - length)
    # The other tokens do not become more likely: the mass of padding is lost.
    assert_close(np.exp(found.log_probs[0, 0]), 0.05)


@pytest.mark.parametrize('beam_size, n_best', [(3, 1), (3, 3)])
def test_other_sentences_do_not_change_the_outputs_of_a_sentence(beam_size, n_best):
    together = search_all(3, 0.6, beam_size=beam_size, n_best=n_best)
    for sentence in range(len(LIMITS)):
        alone = search(
            logits_table(3),
            np.array([sentence]),
            LIMITS[[sentence]],
            0.6,
            beam_size=beam_size,
            n_best=n_best,
        )
        assert_close(alone.scores[0], together.scores[sentence])
        held = np.isfinite(together.scores[sentence])
        np.testing.assert_array_equal(
            np.asarray(alone.tokens[0])[held], together.tokens[sentence][held]
        )


@pytest.mark.parametrize(
    'alpha, n_best, steps',
    [
        (0.0, 1, 1),  # EOS has 0.6, and no longer output can have more
        (0.0, 2, 2),  # the second best, 2 and EOS, has 0.3·0.6, and longer ones have 0.3·0.3
        (20.0, 1, 3),  # but with a penalty so large the longest output wins
    ],
)
def test_search_stops_when_nothing_better_is_possible(alpha, n_best, steps):
    taken = []
    model = stationary([[0.0, 0.6, 0.3, 0.1]])

    def step(tokens, position, cache):
        jax.debug.callback(lambda position: taken.append(int(position)), position)
        return model(tokens, position, cache)

    found = beam_search(
        step,
        None,
        jnp.array([3]),
        length=8,
        beam_size=3,
        eos_id=EOS,
        length_penalty=alpha,
        n_best=n_best,
    )
    jax.block_until_ready(found)
    jax.effects_barrier()
    assert len(taken) == steps


def test_finished_hypotheses_survive_later_nan_logits():
    model = stationary([[0.0, 0.5, 0.3, 0.2]])

    def step(tokens, position, cache):
        logits, cache = model(tokens, position, cache)
        return jnp.where(position == 1, jnp.nan, logits), cache

    found = beam_search(step, None, jnp.array([4]), length=4, beam_size=2, eos_id=EOS, n_best=2)
    np.testing.assert_array_equal(found.tokens, [[[EOS, 0, 0, 0], [0, 0, 0, 0]]])
    assert_close(found.log_probs, [[np.log(0.5), -np.inf]])


def test_beam_search_runs_within_shard_map():
    table, limits = jnp.asarray(logits_table(4)[:4]), jnp.asarray(LIMITS[:4])
    mesh = jax.make_mesh((4,), ('data',), (jax.sharding.AxisType.Auto,), devices=jax.devices()[:4])

    def run(table, sentences, limits):
        cache = make_cache(jnp.arange(len(sentences)))
        return beam_search(step_with(table), cache, limits, length=LENGTH, beam_size=3, eos_id=EOS)

    # Each device has the table of its own sentence.
    parts = (jax.P('data'),) * 3
    sharded = jax.shard_map(
        run, mesh=mesh, in_specs=parts, out_specs=jax.P('data'), check_vma=False
    )
    args = table, jnp.arange(4), limits
    for one, other in zip(jax.jit(sharded)(*args), jax.jit(run)(*args), strict=True):
        assert_close(one, other)


@pytest.mark.parametrize('eos_id', [-1, 0, 2])
def test_an_eos_id_that_is_padding_or_no_token_is_an_error(eos_id):
    with pytest.raises(ValueError, match=f'eos_id={eos_id} must be a token, from 0 to 1, but not'):
        beam_search(
            stationary([[0.0, 1.0]]), None, jnp.array([1]), length=1, beam_size=2, eos_id=eos_id
        )


@pytest.mark.parametrize('n_best', [0, 3])
def test_n_best_out_of_range_is_an_error(n_best):
    with pytest.raises(ValueError, match=f'n_best={n_best} must be from 1 to beam_size=2'):
        beam_search(
            stationary([[0.0, 1.0]]),
            None,
            jnp.array([1]),
            length=1,
            beam_size=2,
            eos_id=EOS,
            n_best=n_best,
        )
