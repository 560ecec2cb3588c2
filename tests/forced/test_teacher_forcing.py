"""Teacher forcing gives what step-by-step decoding gives, for any batch, order and mesh."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from closeness import assert_close
from tiny_model import VOCAB, parameters, tiny

from transformer_jax.decoding import beam_search
from transformer_jax.errors import UserError
from transformer_jax.forced import teacher_forcing as module
from transformer_jax.forced.teacher_forcing import TeacherForcing
from transformer_jax.inference import network as network_module
from transformer_jax.inference.network import CrossAttention, Network
from transformer_jax.model import Transformer
from transformer_jax.runtime import memory
from transformer_jax.sharding import make_mesh

EOS = 1
MEAN, ONE_HEAD = CrossAttention(), CrossAttention(1, (1,))
ONE, OTHER = {'num_layers': 3}, {'d_model': 12, 'num_heads': 3, 'd_ff': 20}


def sentence(rng, length):
    return np.append(rng.integers(2, VOCAB, length - 1), EOS).astype(np.int32)


def pairs(count, longest=12):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, longest + 1, (count, 2)).tolist()
    return [[sentence(rng, pair[side]) for pair in lengths] for side in (0, 1)]


@functools.cache
def network(*models, devices=1, ensemble='probabilities'):
    """Return the network of models with these changes of the tiny config, as items."""
    configs = [tiny(**dict(changes)) for changes in models]
    tokens = jnp.zeros((1, 2), jnp.int32)
    params = [parameters(Transformer(c, VOCAB), tokens, tokens)['params'] for c in configs]
    mesh = make_mesh(devices=jax.devices()[:devices])
    return Network(list(zip(configs, params, strict=True)), VOCAB, mesh, ensemble)


def model(changes):
    return tuple(changes.items())


def log_probs(network, sources, targets):
    found = dict(TeacherForcing(network).log_probs(sources, targets))
    return [found[index] for index in range(len(sources))]


def attention(network, sources, targets, of=MEAN):
    found = dict(TeacherForcing(network).attention(sources, targets, of))
    return [found[index] for index in range(len(sources))]


def assert_all_close(found, expected):
    for x, y in zip(found, expected, strict=True):
        assert_close(x, y)


def step_by_step(network, sources, targets, of):
    """Return log-probabilities [T] and attention [T, S] of each pair, from single steps."""
    ensemble, variables = network.ensemble, network.variables
    step = jax.jit(ensemble.step_fn(variables, of))
    caches = jax.jit(ensemble.start_decoding)(variables, padded(sources))
    caches = network_module.grow(caches, 12)
    targets_BT = padded(targets)
    tokens, log_probs, rows = jnp.zeros(len(sources), jnp.int32), [], []
    for position in range(12):
        logits, caches, row = step(tokens, jnp.int32(position), caches)
        tokens = targets_BT[:, position]
        log_probs.append(jax.nn.log_softmax(logits)[np.arange(len(tokens)), tokens])
        rows.append(row)
    log_probs_BT, rows_BTS = np.stack(log_probs, 1), np.stack(rows, 1)
    lengths = [(len(x), len(y)) for x, y in zip(sources, targets, strict=True)]
    return (
        [log_probs_BT[k, :t] for k, (_, t) in enumerate(lengths)],
        [rows_BTS[k, :t, :s] for k, (s, t) in enumerate(lengths)],
    )


def padded(sentences):
    return jnp.stack([np.pad(x, (0, 12 - len(x))) for x in sentences])


@pytest.mark.parametrize(
    ('models', 'ensemble', 'heads'),
    [
        ([ONE], 'probabilities', MEAN),
        ([ONE, OTHER], 'probabilities', ONE_HEAD),
        ([ONE, OTHER], 'log_probabilities', MEAN),
    ],
    ids=['one', 'two', 'two, logarithms'],
)
def test_it_equals_decoding_step_by_step(models, ensemble, heads):
    several = network(*map(model, models), ensemble=ensemble)
    sources, targets = pairs(4)
    log_probs_of, attention_of = step_by_step(several, sources, targets, heads)
    assert_all_close(log_probs(several, sources, targets), log_probs_of)
    assert_all_close(attention(several, sources, targets, heads), attention_of)


@pytest.mark.parametrize('models', [[ONE], [ONE, OTHER]], ids=['one', 'two'])
def test_it_equals_the_log_probabilities_of_beam_search(models):
    several = network(*map(model, models))
    sources, _ = pairs(4)

    @jax.jit
    def search(variables, source):
        return beam_search(
            several.ensemble.step_fn(variables),
            several.ensemble.start_decoding(variables, source),
            jnp.full(4, 9),
            length=9,
            beam_size=3,
            eos_id=EOS,
            n_best=3,
            grow=network_module.grow,
            reorder=network_module.reorder,
        )

    found = search(several.variables, padded(sources))
    outputs = [
        found.tokens[row, rank, : found.lengths[row, rank]] for row in range(4) for rank in range(3)
    ]
    totals = [x.sum() for x in log_probs(several, [x for x in sources for _ in range(3)], outputs)]
    assert_close(totals, np.ravel(found.log_probs))


def test_an_ensemble_averages_the_probabilities_of_its_models():
    sources, targets = pairs(5)
    one, other = (log_probs(network(model(x)), sources, targets) for x in (ONE, OTHER))
    both = log_probs(network(model(ONE), model(OTHER)), sources, targets)
    assert_all_close(
        both, [np.logaddexp(x, y) - np.log(2) for x, y in zip(one, other, strict=True)]
    )


def test_an_ensemble_averages_the_attention_of_its_models():
    sources, targets = pairs(5)
    one, other = (attention(network(model(x)), sources, targets) for x in (ONE, OTHER))
    both = attention(network(model(ONE), model(OTHER)), sources, targets)
    assert_all_close(both, [(x + y) / 2 for x, y in zip(one, other, strict=True)])


@pytest.fixture(scope='module')
def alone():
    """Many pairs, with the results of each pair by itself."""
    sources, targets = pairs(20)
    one = network(model(ONE))
    of_each = [log_probs(one, [x], [y])[0] for x, y in zip(sources, targets, strict=True)]
    attended = [attention(one, [x], [y])[0] for x, y in zip(sources, targets, strict=True)]
    return sources, targets, of_each, attended


def test_order_changes_nothing(alone):
    sources, targets, of_each, attended = (x[::-1] for x in alone)
    assert_all_close(log_probs(network(model(ONE)), sources, targets), of_each)
    assert_all_close(attention(network(model(ONE)), sources, targets), attended)


@pytest.mark.parametrize('positions', [1, 40, 512])
def test_the_size_of_a_batch_changes_nothing(alone, monkeypatch, positions):
    sources, targets, of_each, attended = alone
    monkeypatch.setattr(module, 'usual_positions', lambda: positions)
    assert_all_close(log_probs(network(model(ONE)), sources, targets), of_each)
    assert_all_close(attention(network(model(ONE)), sources, targets), attended)


@pytest.mark.parametrize('chunk', [1, 50, 10_000])
def test_the_size_of_a_chunk_changes_nothing(alone, monkeypatch, chunk):
    sources, targets, of_each, _ = alone
    monkeypatch.setattr(module, '_CHUNK', {'cpu': chunk})
    monkeypatch.setattr(module, '_log_probs', recompiled())
    assert_all_close(log_probs(network(model(ONE)), sources, targets), of_each)


def recompiled():
    """Return a program that `jax.jit` does not know yet: the chunk's size is no argument."""
    function = functools.partial(module._log_probs.__wrapped__)
    return jax.jit(function, static_argnames='ensemble')


def test_the_logits_of_all_positions_never_exist_together(monkeypatch):
    monkeypatch.setattr(module, '_CHUNK', {'cpu': 64})
    one = network(model(ONE))
    batch = {name: jnp.ones((8, 64), jnp.int32) for name in ('source', 'target')}
    program = recompiled().lower(one.variables, batch, ensemble=one.ensemble).as_text()
    assert f'8x8x{VOCAB}xf32' in program
    assert f'8x64x{VOCAB}xf32' not in program


def test_eight_devices_give_what_one_gives(alone):
    sources, targets, of_each, attended = alone
    eight = network(model(ONE), devices=8)
    assert_all_close(log_probs(eight, sources, targets), of_each)
    assert_all_close(attention(eight, sources, targets), attended)


def test_attention_is_a_distribution_over_the_source():
    sources, targets = pairs(6)
    for found, source, target in zip(
        attention(network(model(ONE)), sources, targets), sources, targets, strict=True
    ):
        assert found.shape == (len(target), len(source))
        assert_close(found.sum(axis=1), 1)


LEARNED = {'positions': 'learned', 'max_positions': 12}


def test_pairs_may_be_as_long_as_the_learned_positions():
    sources, targets = pairs(6, longest=12)
    sources[0] = sentence(np.random.default_rng(1), 12)
    learned = network(model(LEARNED))
    expected, _ = step_by_step(learned, sources, targets, MEAN)
    assert_all_close(log_probs(learned, sources, targets), expected)


@pytest.mark.parametrize('side', [0, 1])
def test_a_pair_longer_than_the_learned_positions_is_refused(side):
    lines = pairs(3)
    lines[side][1] = sentence(np.random.default_rng(1), 13)
    # The other model has sinusoids.
    both = network(model(ONE), model(LEARNED))
    with pytest.raises(UserError, match=r'model\.max_positions=12: too few .* for line 2, a pair'):
        log_probs(both, *lines)


def test_a_pair_too_long_for_the_memory_is_refused(monkeypatch):
    monkeypatch.setattr(memory, 'CHECK_FROM_TOKENS', 8)
    monkeypatch.setattr(memory, 'device_memory', lambda device: 10_000)
    sources, targets = pairs(3)
    scored = TeacherForcing(network(model(ONE))).log_probs(sources, targets, numbers=[5, 6, 7])
    with pytest.raises(UserError, match=r'^line [567], a pair with \d+ tokens, needs .* shorten'):
        list(scored)


def test_no_pairs_give_nothing():
    assert log_probs(network(model(ONE)), [], []) == []
