"""Promise 4: beam search is right, by enumeration of all there is to find."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_jax.decoding import beam_search, greedy_search, length_penalty
from transformer_jax.decoding.beam_search import top_k_tokens

# Dimension key: B sentences, K hypotheses, R = B·K rows, T length, V vocabulary.

EOS = 1
VOCAB = 5  # padding, the end, and three words
LENGTH = 4
LIMITS = np.array([4, 4, 3, 4, 2, 1])
EVERYTHING = 40  # outputs of at most 4 tokens: 1 + 3 + 9 + 27


@functools.cache
def logits_table(seed):
    """[B, T, histories, V]: every history of every sentence has its own next token."""
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=(len(LIMITS), LENGTH, VOCAB ** (LENGTH - 1), VOCAB)).astype('float32') * 2
    )


def make_cache(sentences):
    sentences = jnp.asarray(sentences)
    return {'sentence': sentences, 'history': jnp.zeros_like(sentences)}


def step_with(table):
    """A model whose cache is the history as a number in base V: wrong if rows are mixed up."""

    def step(tokens, position, cache):
        history = jnp.where(position == 0, 0, cache['history'] * VOCAB + tokens)
        return table[cache['sentence'], position, history], {**cache, 'history': history}

    return step


@functools.partial(jax.jit, static_argnames=('beam_size', 'n_best'))
def search(table, sentences, limits, alpha, *, beam_size, n_best=1):
    return beam_search(
        step_with(table),
        make_cache(sentences),
        limits,
        length=LENGTH,
        beam_size=beam_size,
        eos_id=EOS,
        alpha=alpha,
        n_best=n_best,
    )


@jax.jit
def greedy(table, limits):
    cache = make_cache(np.arange(len(LIMITS)))
    return greedy_search(step_with(table), cache, limits, length=LENGTH, eos_id=EOS)


def search_all(seed, alpha, **options):
    found = search(logits_table(seed), np.arange(len(LIMITS)), LIMITS, alpha, **options)
    return jax.tree.map(np.asarray, found)


def log_prob(table, sentence, output):
    """Of an output with its end mark, by the chain rule."""
    total, history = 0.0, 0
    for position, token in enumerate(output):
        logits = table[sentence, position, history].astype(float)
        total += logits[token] - np.log(np.exp(logits).sum())
        history = history * VOCAB + token
    return total


def enumerate_outputs(table, sentence, limit, alpha):
    """All outputs as (score, tokens), the best first."""
    outputs = [
        (*words, EOS)
        for length in range(limit)
        for words in itertools.product([2, 3, 4], repeat=length)
    ]
    scored = [
        (log_prob(table, sentence, output) / ((5 + len(output)) / 6) ** alpha, output)
        for output in outputs
    ]
    return sorted(scored, reverse=True)


def output_of(found, sentence, rank=0):
    length = found.lengths[sentence, rank]
    return tuple(found.tokens[sentence, rank, :length].tolist())


def test_length_penalty_by_hand():
    lengths = jnp.array([1, 7, 13])
    # (5 + n) / 6 is 1, 2 and 3.
    np.testing.assert_allclose(length_penalty(lengths, 0.0), [1.0, 1.0, 1.0])
    np.testing.assert_allclose(length_penalty(lengths, 1.0), [1.0, 2.0, 3.0], rtol=1e-6)
    np.testing.assert_allclose(length_penalty(lengths, 0.6), [1.0, 1.5157166, 1.9331820], rtol=1e-6)


@pytest.mark.parametrize('alpha', [0.0, 0.6, 1.5])
@pytest.mark.parametrize('seed', [0, 1, 2])
def test_a_wide_beam_finds_everything_in_order(seed, alpha):
    found = search_all(seed, alpha, beam_size=EVERYTHING, n_best=EVERYTHING)
    for sentence, limit in enumerate(LIMITS):
        expected = enumerate_outputs(logits_table(seed), sentence, limit, alpha)
        n = len(expected)
        assert n == {1: 1, 2: 4, 3: 13, 4: 40}[limit]
        assert [output_of(found, sentence, rank) for rank in range(n)] == [o for _, o in expected]
        np.testing.assert_allclose(
            found.scores[sentence, :n], [score for score, _ in expected], rtol=1e-5
        )
        assert np.all(found.scores[sentence, n:] == -np.inf)


@pytest.mark.parametrize('alpha', [-2.0, 0.0, 0.6, 1.5])
@pytest.mark.parametrize('seed', range(6))
def test_stopping_early_does_not_change_the_best(seed, alpha):
    best = search_all(seed, alpha, beam_size=EVERYTHING, n_best=1)
    for sentence, limit in enumerate(LIMITS):
        score, output = enumerate_outputs(logits_table(seed), sentence, limit, alpha)[0]
        assert output_of(best, sentence) == output
        np.testing.assert_allclose(best.scores[sentence, 0], score, rtol=1e-5)
    for n_best in (1, 2):
        early = search_all(seed, alpha, beam_size=3, n_best=n_best)
        late = search_all(seed, alpha, beam_size=3, n_best=3)
        np.testing.assert_array_equal(early.tokens[:, :n_best], late.tokens[:, :n_best])
        np.testing.assert_array_equal(early.scores[:, :n_best], late.scores[:, :n_best])


@pytest.mark.parametrize('seed', range(3))
def test_a_narrow_beam_tells_the_truth_about_what_it_finds(seed):
    found = search_all(seed, 0.6, beam_size=3, n_best=3)
    for sentence, limit in enumerate(LIMITS):
        truth = {o: s for s, o in enumerate_outputs(logits_table(seed), sentence, limit, 0.6)}
        n = min(3, len(truth))
        outputs = [output_of(found, sentence, rank) for rank in range(n)]
        assert len(set(outputs)) == n
        np.testing.assert_allclose(
            found.scores[sentence, :n], [truth[output] for output in outputs], rtol=1e-5
        )
        np.testing.assert_allclose(
            found.log_probs[sentence, :n],
            [log_prob(logits_table(seed), sentence, output) for output in outputs],
            rtol=1e-5,
        )
        assert np.all(np.diff(found.scores[sentence, :n]) <= 0)


@pytest.mark.parametrize('seed', range(6))
def test_a_beam_of_one_is_greedy_search(seed):
    beam = search_all(seed, 0.6, beam_size=1)
    single = jax.tree.map(np.asarray, greedy(logits_table(seed), LIMITS))
    np.testing.assert_array_equal(beam.tokens, single.tokens)
    np.testing.assert_array_equal(beam.lengths, single.lengths)
    np.testing.assert_allclose(beam.log_probs, single.log_probs, rtol=1e-6)
    for sentence in range(len(LIMITS)):
        tokens, history = output_of(single, sentence), 0
        for position, token in enumerate(tokens[:-1]):  # the last may be forced
            assert token == 1 + logits_table(seed)[sentence, position, history, 1:].argmax()
            history = history * VOCAB + token


def stationary(rows):
    """A model without memory: the probabilities [T, V] at each position, the same for all."""
    logits_TV = jnp.log(jnp.array(rows))

    def step(tokens, position, cache):
        logits_V = logits_TV[jnp.minimum(position, len(rows) - 1)]
        return jnp.broadcast_to(logits_V, (tokens.shape[0], logits_V.shape[0])), cache

    return step


def test_by_hand_a_beam_of_two_finds_what_greedy_search_misses():
    # After 2 everything is unsure, after 3 the end is certain:
    # greedy takes 2 (0.5) and ends with 0.5·0.4 = 0.20; the beam also keeps 3 (0.4): 0.4·0.9.
    first = jnp.array([0.0, 0.1, 0.5, 0.4])
    after = jnp.array([[0.0] * 4, [0.0] * 4, [0.0, 0.4, 0.3, 0.3], [0.0, 0.9, 0.05, 0.05]])

    def step(tokens, position, cache):
        return jnp.log(jnp.where(position == 0, first[None], after[tokens])), cache

    options = {'length': 2, 'eos_id': EOS}
    limits = jnp.array([2])
    single = greedy_search(step, None, limits, **options)
    assert single.tokens.tolist() == [[[2, 1]]]
    found = beam_search(step, None, limits, beam_size=2, n_best=2, alpha=0.0, **options)
    assert found.tokens.tolist() == [[[3, 1], [2, 1]]]
    np.testing.assert_allclose(np.exp(found.scores), [[0.36, 0.20]], rtol=1e-5)


def test_by_hand_a_finished_hypothesis_keeps_its_place():
    # The end takes one of two places with 0.2. Then 2 2 (0.35) and 2 3 (0.28) are both likelier,
    # but only one place is left for them.
    step = stationary([[0.0, 0.2, 0.7, 0.1], [0.0, 0.1, 0.5, 0.4]])
    found = beam_search(
        step, None, jnp.array([3]), length=3, beam_size=2, eos_id=EOS, alpha=0.0, n_best=2
    )
    assert found.tokens.tolist() == [[[1, 0, 0], [2, 2, 1]]]
    assert found.lengths.tolist() == [[1, 3]]
    np.testing.assert_allclose(np.exp(found.scores), [[0.2, 0.7 * 0.5 * 0.1]], rtol=1e-5)


def test_by_hand_search_goes_on_for_what_the_penalty_will_lift_in_the_end():
    # The end at once has log 0.7 = -0.357. The other way has log 0.3 = -1.204, and for 18 steps
    # nothing to show for it, until with 19 tokens it is divided by 24 / 6: -0.301.
    step = stationary([[0.0, 0.7, 0.3], *[[0.0, 0.0, 1.0]] * 17, [0.0, 1.0, 0.0]])
    found = beam_search(step, None, jnp.array([19]), length=20, beam_size=2, eos_id=EOS, alpha=1.0)
    assert found.tokens[0, 0].tolist() == [2] * 18 + [1, 0]
    np.testing.assert_allclose(found.scores[0], np.log([0.3, 0.7]) / [4.0, 1.0], rtol=1e-5)


@pytest.mark.parametrize(
    'options, message',
    [
        ({'length': 0}, 'length=0 must be 1 or more'),
        ({'alpha': float('nan')}, 'alpha=nan must be a finite number'),
    ],
)
def test_options_out_of_range(options, message):
    usual = {'length': 3, 'beam_size': 2, 'eos_id': EOS, 'alpha': 0.0}
    with pytest.raises(ValueError, match=message):
        beam_search(stationary([[0.1, 0.2, 0.7]]), None, jnp.array([3]), **usual | options)


def test_the_limit_takes_the_end_mark_with_its_own_probability():
    step = stationary([[0.1, 0.2, 0.7]])
    found = beam_search(
        step, None, jnp.array([3, 1]), length=5, beam_size=2, eos_id=EOS, alpha=0.0, n_best=2
    )
    assert found.tokens[0].tolist() == [[1, 0, 0, 0, 0], [2, 2, 1, 0, 0]]
    np.testing.assert_allclose(np.exp(found.log_probs[0]), [0.2, 0.7 * 0.7 * 0.2], rtol=1e-5)
    # One token leaves room for nothing but the end, so there is no second output.
    assert found.tokens[1, 0].tolist() == [1, 0, 0, 0, 0]
    np.testing.assert_allclose(np.exp(found.log_probs[1]), [0.2, 0.0], rtol=1e-5)
    assert found.scores[1, 1] == -np.inf
    single = greedy_search(step, None, jnp.array([3, 1]), length=5, eos_id=EOS)
    assert single.tokens.tolist() == [[[2, 2, 1, 0, 0]], [[1, 0, 0, 0, 0]]]
    assert single.lengths.tolist() == [[3], [1]]
    np.testing.assert_allclose(np.exp(single.log_probs), [[0.7 * 0.7 * 0.2], [0.2]], rtol=1e-5)


def test_padding_is_never_emitted_however_likely():
    step = stationary([[0.8, 0.05, 0.1, 0.05]])
    limits = jnp.array([3])
    found = beam_search(step, None, limits, length=4, beam_size=7, eos_id=EOS, alpha=0.0, n_best=7)
    single = greedy_search(step, None, limits, length=4, eos_id=EOS)
    assert single.tokens.tolist() == [[[2, 2, 1, 0]]]
    for tokens, length in zip(found.tokens[0].tolist(), found.lengths[0].tolist(), strict=True):
        assert 0 not in tokens[:length]
        assert tokens[length - 1] == EOS
        assert tokens[length:] == [0] * (4 - length)
    # Nor are the others made likelier for it: the mass of padding is lost.
    np.testing.assert_allclose(np.exp(found.log_probs[0, 0]), 0.05, rtol=1e-5)


@pytest.mark.parametrize('beam_size, n_best', [(3, 1), (3, 3)])
def test_companions_do_not_change_a_sentences_outputs(beam_size, n_best):
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
        np.testing.assert_allclose(alone.scores[0], together.scores[sentence], rtol=1e-6)
        held = np.isfinite(together.scores[sentence])
        np.testing.assert_array_equal(
            np.asarray(alone.tokens[0])[held], together.tokens[sentence][held]
        )


@pytest.mark.parametrize(
    'alpha, n_best, steps',
    [
        (0.0, 1, 1),  # the end has 0.6, and nothing that goes on can have more
        (0.0, 2, 2),  # the second best, 2 and the end, has 0.3·0.6, and what goes on 0.3·0.3
        (20.0, 1, 3),  # but with a penalty so large the longest output wins
    ],
)
def test_search_stops_as_soon_as_nothing_better_can_come(alpha, n_best, steps):
    taken = []
    model = stationary([[0.0, 0.6, 0.3, 0.1]])

    def step(tokens, position, cache):
        jax.debug.callback(lambda position: taken.append(int(position)), position)
        return model(tokens, position, cache)

    found = beam_search(
        step, None, jnp.array([3]), length=8, beam_size=3, eos_id=EOS, alpha=alpha, n_best=n_best
    )
    jax.block_until_ready(found)
    jax.effects_barrier()
    assert len(taken) == steps


@pytest.mark.parametrize('cache_lengths', [(), (1,), (2,), (1, 2, 3), (1, 4)])
@pytest.mark.parametrize('sentences', [1, 4, 6])
def test_stragglers_in_parts_find_what_they_find_together(sentences, cache_lengths):
    limits, table = LIMITS[:sentences], jnp.asarray(logits_table(4)[:sentences])

    def select(cache, ids):
        return jax.tree.map(lambda x: x.reshape(-1, 3)[ids].reshape(-1), cache)

    def run(**options):
        return beam_search(
            step_with(table),
            make_cache(np.arange(sentences)),
            limits,
            length=LENGTH,
            beam_size=3,
            eos_id=EOS,
            n_best=3,
            **options,
        )

    in_parts = jax.jit(functools.partial(run, select=select, cache_lengths=cache_lengths))()
    jax.tree.map(np.testing.assert_array_equal, in_parts, jax.jit(run)())


@pytest.mark.parametrize('cache_lengths', [(), (1, 3), (2, 4)])
def test_a_cache_grows_before_it_is_full(cache_lengths):
    table, grown = jnp.asarray(logits_table(4)), []

    def grow(cache, length):
        grown.append(length)
        return cache[0], jnp.zeros((len(cache[1]), length))

    def step(tokens, position, cache):
        inner, room = cache
        logits, inner = step_with(table)(tokens, position, inner)
        return jnp.where(position < room.shape[1], logits, jnp.nan), (inner, room)

    def run(step, cache, **options):
        return beam_search(
            step, cache, jnp.asarray(LIMITS), length=LENGTH, beam_size=3, eos_id=EOS, **options
        )

    cache = make_cache(np.arange(len(LIMITS)))
    found = run(step, (cache, jnp.zeros((len(LIMITS), 0))), grow=grow, cache_lengths=cache_lengths)
    assert grown == [1, *cache_lengths, LENGTH]
    jax.tree.map(np.testing.assert_array_equal, found, run(step_with(table), cache))


def test_what_has_been_found_outlives_logits_that_are_no_numbers():
    model = stationary([[0.0, 0.5, 0.3, 0.2]])

    def step(tokens, position, cache):
        logits, cache = model(tokens, position, cache)
        return jnp.where(position == 1, jnp.nan, logits), cache

    found = beam_search(step, None, jnp.array([4]), length=4, beam_size=2, eos_id=EOS, n_best=2)
    np.testing.assert_array_equal(found.tokens, [[[EOS, 0, 0, 0], [0, 0, 0, 0]]])
    np.testing.assert_allclose(found.log_probs, [[np.log(0.5), -np.inf]], rtol=1e-6)


def test_it_runs_within_shard_map():
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
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize('cache_lengths', [(2, 1), (1, 1), (5,), (0,)])
def test_cache_lengths_that_do_not_ascend_to_the_length_are_an_error(cache_lengths):
    with pytest.raises(
        ValueError, match=r'cache_lengths=.* must ascend, from 1 to length=4 at most'
    ):
        beam_search(
            stationary([[0.0, 1.0]]),
            None,
            jnp.array([1]),
            length=4,
            beam_size=2,
            eos_id=1,
            cache_lengths=cache_lengths,
        )


@pytest.mark.parametrize('vocab_size', [5, 300, 1000, 1024])
@pytest.mark.parametrize('count', [1, 4])
def test_the_likeliest_tokens_are_those_of_a_sorted_row_without_padding(vocab_size, count):
    # Rounded, so that there are equals, of which the first comes first.
    logits = np.random.default_rng(0).normal(size=(50, vocab_size)).astype('float32').round(1)
    logits[::2, 0] = 9.0
    values, tokens = top_k_tokens(jnp.asarray(logits), count)
    logits[:, 0] = -np.inf
    expected = np.argsort(-logits, axis=1, kind='stable')[:, :count]
    np.testing.assert_array_equal(tokens, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(logits, expected, axis=1))


@pytest.mark.parametrize('eos_id', [-1, 0, 2])
def test_an_end_mark_that_is_padding_or_no_token_is_an_error(eos_id):
    with pytest.raises(ValueError, match=f'eos_id={eos_id} must be from 1, since 0 is padding'):
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
