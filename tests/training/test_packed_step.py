"""Packed pairs have the loss and the gradient of pairs that each have their own row."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_run import remembered, stop_at, tiny

from transformer_jax.config import ModelConfig
from transformer_jax.data.batching import loader
from transformer_jax.data.batching.buckets import Batch, Bucket
from transformer_jax.data.batching.loader import thread_batches, training_batches
from transformer_jax.data.batching.plan import BatchPlan
from transformer_jax.data.batching.token_store import TokenStore, sentences_from
from transformer_jax.errors import UserError
from transformer_jax.model import Transformer
from transformer_jax.model.positions import segment_positions
from transformer_jax.model.transformer import shift_right
from transformer_jax.sharding import make_mesh
from transformer_jax.training import train
from transformer_jax.training.checks import preflight
from transformer_jax.training.device_batches import device_batches
from transformer_jax.training.step import _batch_loss

SIZES = {'num_layers': 2, 'd_model': 16, 'd_ff': 32, 'num_heads': 2, 'dropout_rate': 0.0}
MODELS = {
    'paper': {},
    'pre-norm, learned positions': {'norm': 'pre', 'positions': 'learned', 'max_positions': 20},
    'as Marian': {'positions': 'sinusoidal_halves', 'decoder_start': 'zero', 'output_bias': True},
}


@pytest.fixture(scope='module')
def store():
    random = np.random.RandomState(0)

    def side():
        lines = [random.randint(2, 30, n) for n in random.randint(1, 19, 200)]
        return sentences_from([np.append(line, 1) for line in lines])

    return TokenStore(side(), side())


def make_plan(store, **changes):
    settings = {'max_length': 20, 'tokens_per_batch': 1280, 'num_buckets': 1, 'seed': 0}
    return BatchPlan(*store.lengths, **settings | changes)


@functools.cache
def loss_and_gradient(changes=(), r_drop=0.0):
    model = Transformer(ModelConfig(**SIZES | dict(changes)), 30)
    params = model.init(jax.random.key(1), *[jnp.ones((1, 1), jnp.int32)] * 2)['params']
    loss = functools.partial(_batch_loss, model=model, label_smoothing=0.1)
    return params, jax.jit(jax.value_and_grad(lambda params, batch: loss(params, batch)[0]))


@pytest.mark.parametrize('changes', MODELS.values(), ids=MODELS.keys())
def test_packed_pairs_have_the_loss_and_the_gradient_of_unpacked_pairs(store, changes):
    planned = make_plan(store, packing=True).epoch(0)[0]
    ids = planned.ids[planned.ids >= 0]
    assert len(ids) > 3 * len(planned.ids)
    batches = [planned, Batch(Bucket(len(ids), 20, 20), ids)]
    params, function = loss_and_gradient(tuple(changes.items()))
    (loss, gradient), (expected, of_unpacked) = (
        function(params, batch) for _, batch in thread_batches(store, batches)
    )
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)
    for mine, its in zip(jax.tree.leaves(gradient), jax.tree.leaves(of_unpacked), strict=True):
        np.testing.assert_allclose(mine, its, atol=2e-5 * float(jnp.abs(its).max()))


@pytest.mark.parametrize('side', ['source', 'target'])
def test_a_pair_sees_nothing_of_the_other_pairs_of_its_row(store, side):
    (_, batch), *_ = thread_batches(store, make_plan(store, packing=True).epoch(0))
    model = Transformer(ModelConfig(**SIZES), 30)
    params, _ = loss_and_gradient()

    def states(batch):
        inputs = shift_right(batch['target'], segments=batch['target_segments'])
        segments = {name: batch[name] for name in ('source_segments', 'target_segments')}
        return model.apply(
            {'params': params}, batch['source'], inputs, **segments, method='decoder_states'
        )[0]

    changed = batch | {side: np.where(batch[f'{side}_segments'] == 2, 29, batch[side])}
    before, after = jax.jit(states)(batch), jax.jit(states)(changed)
    others = (batch['target_segments'] != 2) & (batch['target_segments'] != 0)
    assert np.array_equal(before[others], after[others])
    assert np.abs(before - after)[batch['target_segments'] == 2].max() > 0.01


def test_positions_and_first_inputs_start_again_in_each_segment():
    segments = jnp.array([[1, 1, 1, 2, 3, 3, 0, 0]])
    assert segment_positions(segments).tolist() == [[0, 1, 2, 0, 0, 1, 0, 0]]
    targets = jnp.array([[5, 6, 1, 1, 7, 1, 0, 0]])
    assert shift_right(targets, segments=segments).tolist() == [[0, 5, 6, 0, 0, 7, 0, 0]]
    assert shift_right(targets, 9, segments)[0, :5].tolist() == [9, 5, 6, 9, 9]


def test_both_sides_need_segments_and_no_mask(store):
    model, (params, _) = Transformer(ModelConfig(**SIZES), 30), loss_and_gradient()
    ids = jnp.ones((1, 4), jnp.int32)
    call = functools.partial(model.apply, {'params': params}, ids, ids, method='decoder_states')
    with pytest.raises(ValueError, match='belong together'):
        call(source_segments=ids)
    with pytest.raises(ValueError, match='give no source_mask'):
        call(source_segments=ids, target_segments=ids, source_mask=ids > 0)


def test_tf_data_and_the_thread_make_the_same_packed_batches(store, monkeypatch):
    plan = make_plan(store, packing=True, tokens_per_batch=320)
    loader.load_tensorflow()
    by_thread = [*thread_batches(store, plan.epoch(0)), *thread_batches(store, plan.epoch(1))]
    for start in (0, 3, plan.batches_per_epoch):
        by_tf_data = itertools.islice(training_batches(store, plan, start), 4)
        for (bucket, mine), (its_bucket, its) in zip(by_tf_data, by_thread[start:], strict=False):
            assert bucket == its_bucket and mine.keys() == its.keys()
            assert all(np.array_equal(mine[name], its[name]) for name in mine)
            assert {x.dtype for x in mine.values()} == {np.dtype('int32')}


def test_any_number_of_devices_sees_the_same_packed_batches(store):
    plan = make_plan(store, packing=True, tokens_per_batch=320)
    seen = []
    for count in (1, 2, 4, 8):
        mesh = make_mesh(devices=jax.devices()[:count])
        rows = {bucket: bucket.rows for bucket in plan.buckets}
        with_devices = device_batches(store, plan, rows, mesh, start_step=2)
        seen.append([jax.device_get(batch) for _, batch in itertools.islice(with_devices, 3)])
    for batches in seen[1:]:
        assert all(
            np.array_equal(mine[name], its[name])
            for mine, its in zip(batches, seen[0], strict=True)
            for name in its
        )


def packing(**changes):
    return tiny(data={'packing': True} | changes.pop('data', {}), **changes)


def test_a_packed_run_that_was_stopped_ends_with_the_same_bytes(tmp_path, monkeypatch, caplog):
    config = packing(optimizer={'r_drop': 1.0}, train={'accumulate_steps': 2})
    caplog.set_level('INFO', 'transformer_jax')
    monkeypatch.setattr(preflight, 'attention_implementation', lambda config: 'cudnn')
    train(config, tmp_path / 'whole')
    assert caplog.text.count("training computes attention with 'xla', not 'cudnn'") == 1
    assert 'training pairs in 1 shapes' in caplog.text
    stop_at(monkeypatch, 5)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / 'stopped')
    monkeypatch.undo()
    train(config, tmp_path / 'stopped')
    assert remembered(tmp_path / 'stopped') == remembered(tmp_path / 'whole')


def test_a_run_cannot_begin_to_pack_its_pairs_later():
    assert packing().differences(tiny()) == ['data.packing: True against False']


@pytest.mark.parametrize(
    ('field', 'value'), [('sentences_per_batch', 64), ('subword_sampling', 0.1)]
)
def test_what_does_not_go_with_packing_is_refused(field, value):
    with pytest.raises(UserError, match=rf'data\.{field}=.* does not go with data\.packing=True'):
        packing(data={field: value})
