import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_jax.config import ModelConfig
from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError
from transformer_jax.model import Transformer
from transformer_jax.runtime import memory
from transformer_jax.sharding import make_mesh
from transformer_jax.training.scoring import corpus_loss as module
from transformer_jax.training.scoring.corpus_loss import LossEvaluator
from transformer_jax.training.step import eval_step

PAIRS = [('the cat', 'le chat'), ('the dog', 'le chien'), ('the cat ' * 30, 'le chat ' * 25)]


@pytest.fixture(scope='module')
def setting():
    return untrained()


def untrained(**changes):
    vocabulary = Vocabulary.train([text for pair in PAIRS for text in pair], size=280)
    config = ModelConfig(num_layers=1, d_model=16, d_ff=32, num_heads=2, **changes)
    model = Transformer(config, vocabulary.size)
    tokens = jnp.zeros((1, 1), jnp.int32)
    params = jax.jit(model.init)(jax.random.key(0), tokens, tokens)['params']
    return {'params': params, 'model': model, 'vocabulary': VocabularyPair(vocabulary, vocabulary)}


def measure(setting, pairs):
    mesh = make_mesh(devices=jax.devices()[:1])
    return LossEvaluator(setting['model'], setting['vocabulary'], 0.1, mesh)(
        setting['params'], pairs
    )


def test_the_loss_is_the_mean_over_all_tokens_of_all_pairs(setting):
    step = jax.jit(functools.partial(eval_step, model=setting['model'], label_smoothing=0.1))
    loss = nll = tokens = 0.0
    for source, target in PAIRS:
        batch = {
            'source': setting['vocabulary'].source.encode([source])[0][None],
            'target': setting['vocabulary'].target.encode([target])[0][None],
        }
        sums = step(setting['params'], batch)
        loss, nll, tokens = loss + sums.loss, nll + sums.nll, tokens + sums.tokens
    found = measure(setting, PAIRS)
    assert found.tokens == tokens
    assert found.loss == pytest.approx(float(loss / tokens), rel=1e-5)
    assert found.nll == pytest.approx(float(nll / tokens), rel=1e-5)
    assert found.perplexity == pytest.approx(np.exp(found.nll))


def test_order_does_not_matter(setting):
    assert measure(setting, PAIRS) == pytest.approx(measure(setting, PAIRS[::-1]), rel=1e-6)


def test_a_pair_longer_than_the_learned_positions_is_refused(setting):
    encoded = setting['vocabulary'].source.encode([text for pair in PAIRS for text in pair])
    longest = max(map(len, encoded))
    few = untrained(positions='learned', max_positions=longest)
    assert np.isfinite(measure(few, PAIRS).loss)
    fewer = untrained(positions='learned', max_positions=longest - 1)
    with pytest.raises(
        UserError, match=r'model\.max_positions=.*: too few .* for pair 3 of this set'
    ):
        measure(fewer, PAIRS)


def test_a_very_long_line_is_alone_in_its_batch(setting, monkeypatch):
    monkeypatch.setattr(module, 'LOSS_POSITIONS', 96)
    mesh = make_mesh(devices=jax.devices()[:1])
    evaluator = LossEvaluator(setting['model'], setting['vocabulary'], 0.1, mesh)
    shapes = [batch['source'].shape for batch in evaluator._batches(evaluator._encoded(PAIRS))]
    assert shapes[-1] == (8, 8) and shapes[0][0] == 1
    assert all(rows * length <= 96 or rows == 1 for rows, length in shapes)


def test_shorter_pairs_fill_the_batches_of_longer_ones(setting):
    mesh = make_mesh(devices=jax.devices()[:1])
    evaluator = LossEvaluator(setting['model'], setting['vocabulary'], 0.1, mesh)
    pairs = [('the cat ' * k, 'le chat ' * k) for k in range(1, 9)]
    (batch,) = evaluator._batches(evaluator._encoded(pairs))
    assert np.sum(np.any(batch['source'] != 0, axis=1)) == len(pairs)


def test_a_pair_too_long_for_the_memory_is_refused(setting, monkeypatch):
    monkeypatch.setattr(memory, 'CHECK_FROM_TOKENS', 64)
    monkeypatch.setattr(memory, 'device_memory', lambda device: 10_000)
    with pytest.raises(
        UserError,
        match=r"^pair \d+ of this set, which starts with '.*' and has \d+ tokens, needs .*: ",
    ):
        measure(setting, PAIRS)


def test_a_perplexity_that_overflows_is_infinite():
    assert module.perplexity(0.0) == 1.0
    assert module.perplexity(1000.0) == float('inf')
