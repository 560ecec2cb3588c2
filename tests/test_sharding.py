"""Promise 6: the same run on any mesh."""

import dataclasses
import functools
import re

import jax
import numpy as np
import pytest

from transformer_jax.benchmark.report import collective_bytes
from transformer_jax.config import (
    Config,
    MeshConfig,
    ModelConfig,
    OptimizerConfig,
    VocabSizes,
)
from transformer_jax.data.batching.buckets import Bucket
from transformer_jax.errors import UserError
from transformer_jax.model import Transformer
from transformer_jax.model.kernels import chunked_loss
from transformer_jax.sharding import (
    MeshLayout,
    local_rows,
    make_mesh,
    parameter_sharding,
    shard_whole_batch,
    state_shardings,
)
from transformer_jax.training.compile import compile_steps
from transformer_jax.training.initialization import initial_state
from transformer_jax.training.optimizer import make_optimizer
from transformer_jax.training.state import init_state

MODEL = ModelConfig(num_layers=1, d_model=32, d_ff=64, num_heads=4, dropout_rate=0.1)
CONFIG = dataclasses.replace(Config(), model=MODEL, optimizer=OptimizerConfig(warmup_steps=10))
OPTIMIZER = make_optimizer(CONFIG.optimizer, 32)
VOCAB_SIZE = 96
MESHES = {
    '8 x 1 x 1': MeshConfig(8, 1, 1),
    '1 x 8 x 1': MeshConfig(1, 8, 1),
    '4 x 1 x 2': MeshConfig(4, 1, 2),
    '2 x 2 x 2': MeshConfig(2, 2, 2),
}


@pytest.fixture(scope='module', autouse=True)
def _logits_in_chunks():
    """Compute logits in chunks of one row a device, so that every mesh has several chunks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunked_loss, '_positions_per_chunk', lambda d_model: 12)
        yield


def batches(count):
    random = np.random.RandomState(0)
    for _ in range(count):
        lengths = random.randint(2, 13, (2, 16, 1))
        tokens = random.randint(1, VOCAB_SIZE, (2, 16, 12)) * (np.arange(12) < lengths)
        yield dict(zip(('source', 'target'), tokens.astype(np.int32), strict=True))


@functools.cache
def compiled_step(mesh, accumulate_steps=1, sizes=VOCAB_SIZE, **model):
    """The step that trains, compiled for `mesh`, and the first state on it."""
    config = dataclasses.replace(
        CONFIG,
        model=dataclasses.replace(MODEL, **model),
        train=dataclasses.replace(CONFIG.train, accumulate_steps=accumulate_steps),
    )
    bucket = Bucket(rows=16, source_length=12, target_length=12)
    (step,) = compile_steps(config, sizes, (bucket,), mesh).values()
    return step, functools.partial(initial_state, config, sizes, mesh)


def losses(mesh, steps=20, **options):
    step, first_state = compiled_step(mesh, **options)
    state, sums = first_state(), []
    for batch in batches(steps):
        state = step.run(state, shard_whole_batch(batch, mesh))
        sums.append(float(state.window.sums.loss))
    return np.diff(sums, prepend=0.0), state


@pytest.fixture(scope='module')
def on_one_device():
    return losses(make_mesh(devices=jax.devices()[:1]))


@pytest.mark.parametrize('mesh', MESHES.values(), ids=MESHES)
def test_twenty_steps_on_a_mesh_equal_those_on_one_device(mesh, on_one_device):
    # With dropout, whose random bits are the same on every mesh.
    found, state = losses(make_mesh(mesh))
    np.testing.assert_allclose(found, on_one_device[0], rtol=2e-4)
    for mine, theirs in zip(
        jax.tree.leaves(state.params), jax.tree.leaves(on_one_device[1].params), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, atol=5e-3)


@pytest.mark.parametrize(
    'options',
    [
        {},
        {'tied_embeddings': 'decoder', 'sizes': VocabSizes(VOCAB_SIZE, 128)},
    ],
    ids=['paper', 'decoder'],
)
def test_accumulation_on_a_mesh_equals_accumulation_on_one_device(options):
    options |= {'accumulate_steps': 2}
    one = losses(make_mesh(devices=jax.devices()[:1]), 5, **options)[0]
    eight = losses(make_mesh(MESHES['2 x 2 x 2']), 5, remat=True, **options)[0]
    np.testing.assert_allclose(eight, one, rtol=1e-4)


def collectives(mesh):
    step, first_state = compiled_step(mesh)
    text = step.compiled.as_text()
    parameters = sum(x.nbytes for x in jax.tree.leaves(first_state().params))
    return text, collective_bytes(text), parameters


def test_data_parallel_moves_the_gradient_once_and_nothing_else():
    text, moved, parameters = collectives(make_mesh(MESHES['8 x 1 x 1']))
    assert set(moved) == {'all-reduce'}
    assert parameters <= moved['all-reduce'] <= parameters + 64  # plus some sums of the loss
    # Each chunk of the logits moves its sums only.
    bodies = {block(text, name) for name in re.findall(r'body=%?([\w.-]+)', text)}
    (parts,) = (body for body in bodies if 'all-' in body)
    assert collective_bytes(parts)['all-reduce'] <= 16


def block(text, name):
    """Return the HLO computation of this name."""
    return re.search(rf'\n%?{re.escape(name)} .*?\n}}', text, re.DOTALL)[0]


def test_fsdp_gathers_the_parameters_once():
    _, moved, parameters = collectives(make_mesh(MESHES['1 x 8 x 1']))
    assert 0.9 * parameters < moved['all-gather'] <= parameters


def test_logits_are_never_gathered():
    mesh = make_mesh(MESHES['4 x 1 x 2'])
    text, moved, _ = collectives(mesh)
    assert f'12,{VOCAB_SIZE}]' not in text  # positions with the whole vocabulary
    assert f'[1,12,{VOCAB_SIZE // 2}]' in text
    assert 'all-gather' not in moved


def test_fsdp_divides_parameters_and_both_moments():
    state = compiled_step(make_mesh(MESHES['1 x 8 x 1']))[1]()
    matrices = [x for x in jax.tree.leaves((state.params, state.opt_state)) if x.ndim > 1]
    assert len(matrices) == 3 * len([x for x in jax.tree.leaves(state.params) if x.ndim > 1])
    assert all(x.addressable_shards[0].data.size == x.size // 8 for x in matrices)


def test_the_data_axis_takes_the_devices_that_are_left():
    assert make_mesh().shape == {'data': 8, 'fsdp': 1, 'tensor': 1}
    assert make_mesh(MeshConfig(fsdp=2, tensor=2)).shape == {'data': 2, 'fsdp': 2, 'tensor': 2}


@pytest.mark.parametrize('mesh', [MeshConfig(tensor=3), MeshConfig(4, 1, 1), MeshConfig(4, 4, 4)])
def test_a_mesh_that_does_not_fit_the_devices_is_refused(mesh):
    with pytest.raises(UserError, match=r'do not make up the 8 cpu devices'):
        make_mesh(mesh)


def test_a_dimension_that_does_not_divide_is_named_before_compilation():
    model = Transformer(ModelConfig(num_layers=1, d_model=36, d_ff=64, num_heads=3), 96)
    shapes = jax.eval_shape(functools.partial(init_state, model, OPTIMIZER, 0))
    with pytest.raises(UserError, match=r'mesh\.fsdp=8 does not divide model\.d_model=36'):
        state_shardings(shapes, make_mesh(MESHES['1 x 8 x 1']))
    with pytest.raises(UserError, match=r'mesh\.tensor=2 does not divide model\.num_heads=3'):
        state_shardings(shapes, make_mesh(MESHES['4 x 1 x 2']))


def test_a_table_that_uses_an_axis_twice_for_an_array_is_refused():
    with pytest.raises(ValueError, match="mesh axis 'tensor' on it 2 times"):
        parameter_sharding('a/b', (8, 8), make_mesh(MESHES['4 x 1 x 2']), (('b', 'NF'),))


def test_a_table_of_another_rank_is_refused():
    with pytest.raises(ValueError, match='a/b has the shape'):
        parameter_sharding('a/b', (8, 8), make_mesh(), (('b', 'DNH'),))


def test_every_parameter_of_the_model_has_a_rule():
    base = Transformer(ModelConfig(tied_embeddings='none'), 1000)
    shapes = jax.eval_shape(functools.partial(init_state, base, OPTIMIZER, 0)).params
    shardings = jax.tree.leaves(state_shardings(shapes, make_mesh(MESHES['2 x 2 x 2'])))
    for leaf, sharding in zip(jax.tree.leaves(shapes), shardings, strict=True):
        if len(leaf.shape) > 1:
            assert sharding.shard_shape(leaf.shape) != leaf.shape


def test_rows_are_divided_among_the_devices():
    batch = shard_whole_batch({'source': np.arange(32).reshape(16, 2)}, make_mesh())
    assert [s.data.shape for s in batch['source'].addressable_shards] == [(2, 2)] * 8


def test_tensor_devices_hold_the_same_rows():
    mesh = make_mesh(MESHES['4 x 1 x 2'])
    source = shard_whole_batch({'source': np.arange(16).reshape(8, 2)}, mesh)['source']
    assert [s.data[0, 0] for s in source.addressable_shards] == [0, 0, 4, 4, 8, 8, 12, 12]


def test_one_process_holds_all_rows():
    assert local_rows(make_mesh(), 16).tolist() == list(range(16))


def test_rows_that_do_not_divide_are_padded():
    mesh = make_mesh(devices=jax.devices()[:3])
    source = shard_whole_batch({'source': np.ones((8, 2), np.int32)}, mesh)['source']
    assert np.asarray(source).tolist() == [[1, 1]] * 8 + [[0, 0]]


def test_a_mesh_with_other_axes_or_explicit_axes_is_an_error():
    sizes = (8, 1, 1)
    with pytest.raises(
        ValueError, match=r"\('x', 'y', 'z'\) .* needs data, fsdp, tensor, all Auto"
    ):
        MeshLayout(jax.make_mesh(sizes, ('x', 'y', 'z'), (jax.sharding.AxisType.Auto,) * 3))
    with pytest.raises(ValueError, match=r'of the types \(.Explicit., .* all Auto, as'):
        types = (jax.sharding.AxisType.Explicit,) * 3
        MeshLayout(jax.make_mesh(sizes, ('data', 'fsdp', 'tensor'), types))


def test_a_mesh_without_devices_is_an_error():
    with pytest.raises(ValueError, match='devices is empty'):
        make_mesh(devices=[])
