import re

import jax
import numpy as np
import pytest
from tiny_run import tiny

from transformer_jax.config import MeshConfig
from transformer_jax.data.batching import BatchPlan
from transformer_jax.errors import UserError
from transformer_jax.sharding import make_mesh, shard_whole_batch, state_shardings
from transformer_jax.training import preflight
from transformer_jax.training.preflight import (
    CompileCounter,
    batch_rows,
    compile_steps,
    compiler_options,
    initial_state,
    known_speed,
    remember_speed,
    report,
)

CONFIG = tiny()
PLAN = BatchPlan(
    np.array([5] * 300 + [30] * 100),
    np.array([6] * 300 + [30] * 100),
    max_length=64,
    tokens_per_batch=512,
    num_buckets=2,
    seed=0,
)


@pytest.fixture(scope='module')
def mesh():
    return make_mesh()


@pytest.fixture(scope='module')
def programs(mesh):
    return compile_steps(CONFIG, 400, PLAN.buckets, mesh)


def test_every_shape_is_compiled_and_its_cost_known(programs):
    assert list(programs) == list(PLAN.buckets)
    small, large = programs.values()
    assert (small.rows, large.rows) == (80, 16)
    assert small.flops > 0
    assert large.bytes > 3 * 4 * 11_776  # parameters and both moments, at the least


def operations(program):
    """What it does, without where in the source that is said."""
    text = program.compiled.as_text()
    return re.sub(r', metadata={[^}]*}', '', text[text.index('ENTRY') :])


@pytest.fixture
def after_a_step(mesh):
    """The state that a program of the first bucket makes of the initial one."""
    bucket = PLAN.buckets[0]

    def run(program):
        tokens = {
            'source': np.full((program.rows, bucket.source_length), 5, np.int32),
            'target': np.full((program.rows, bucket.target_length), 5, np.int32),
        }
        return program.run(initial_state(CONFIG, 400, mesh), shard_whole_batch(tokens, mesh))

    return run


def test_another_seed_is_another_run_of_the_same_programs(programs, mesh, after_a_step):
    bucket = PLAN.buckets[0]
    config = tiny(train={'seed': 2**32 - 1})
    other = compile_steps(config, 400, (bucket,), mesh)[bucket]
    assert operations(other) == operations(programs[bucket])
    losses = [
        float(after_a_step(program).window.sums.loss)
        for program in (other, programs[bucket], programs[bucket])
    ]
    assert losses[1] == losses[2] != losses[0]  # by dropout alone


def test_another_learning_rate_is_another_run_of_the_same_programs(programs, mesh, after_a_step):
    bucket, was = PLAN.buckets[0], CONFIG.optimizer
    config = tiny(
        optimizer={
            'learning_rate_scale': 2 * was.learning_rate_scale,
            'warmup_steps': 4 * was.warmup_steps,
        }
    )
    other = compile_steps(config, 400, (bucket,), mesh)[bucket]
    assert operations(other) == operations(programs[bucket])
    before = initial_state(CONFIG, 400, mesh).params['embedding']
    taken = [
        after_a_step(program).params['embedding'] - before for program in (programs[bucket], other)
    ]
    # Early on the schedule is scale * warmup_steps^-1.5, and so is Adam's first step.
    np.testing.assert_allclose(np.asarray(taken[1]), np.asarray(taken[0]) / 4, atol=1e-7)
    assert np.abs(taken[0]).max() > 1e-5


def test_xla_knows_what_it_is_asked_for_on_gpus():
    options = compiler_options('gpu', deterministic=True)
    assert options['xla_gpu_exclude_nondeterministic_ops']
    jax.jit(lambda x: x + 1).lower(1.0).compile(options)


def test_a_run_may_do_without_a_fixed_order_of_sums():
    options = compiler_options('gpu', deterministic=False)
    assert options == {'xla_gpu_enable_latency_hiding_scheduler': True}


def test_flags_of_the_user_win(monkeypatch):
    monkeypatch.setenv('XLA_FLAGS', '--xla_gpu_enable_latency_hiding_scheduler=false')
    assert compiler_options('gpu', deterministic=False) == {}


def test_other_backends_are_asked_for_nothing():
    assert compiler_options('cpu', deterministic=True) == {}


def test_the_options_reach_xla(mesh, monkeypatch):
    monkeypatch.setattr(preflight, 'compiler_options', lambda *_: {'xla_no_such_option': 1})
    with pytest.raises(jax.errors.JaxRuntimeError, match='xla_no_such_option'):
        compile_steps(CONFIG, 400, PLAN.buckets[:1], mesh)


def test_no_step_is_begun_on_cpus_while_another_is_under_way(programs, mesh):
    bucket, program = list(programs.items())[1]
    tokens = {
        'source': np.full((program.rows, bucket.source_length), 5, np.int32),
        'target': np.full((program.rows, bucket.target_length), 5, np.int32),
    }
    state = program.run(initial_state(CONFIG, 400, mesh), shard_whole_batch(tokens, mesh))
    assert all(leaf.is_ready() for leaf in jax.tree.leaves(state))
    assert state.step == 1


def test_each_device_makes_its_part_of_the_first_state():
    mesh = make_mesh(MeshConfig(data=1, fsdp=8))
    state = initial_state(CONFIG, 400, mesh)
    assert jax.tree.map(lambda x: x.sharding, state) == state_shardings(state, mesh)
    embedding = state.params['embedding']
    assert embedding.addressable_shards[0].data.size == embedding.size // 8


def test_the_table_has_a_row_for_each_shape(programs):
    lines = report(programs, PLAN, None, left=100).splitlines()
    assert [line.split()[:4] for line in lines[1:]] == [
        ['80', '5', '6', str(300 // 80)],
        ['16', '30', '30', '10'],
    ]


def test_the_end_is_reckoned_from_a_speed(programs):
    # At this speed an epoch, whatever it takes, takes an hour.
    uses = {b: sum(batch.bucket == b for batch in PLAN.epoch(0)) for b in programs}
    speed = sum(uses[b] * program.flops for b, program in programs.items()) / 3600
    last = report(programs, PLAN, speed, left=3 * PLAN.batches_per_epoch).splitlines()[-1]
    assert f'{PLAN.target_tokens / 3600:,.0f} target tokens/s' in last
    assert 'steps in 3.0 hours' in last


def test_a_speed_is_remembered_for_its_device_and_mesh(tmp_path, mesh):
    one = make_mesh(devices=jax.devices()[:1])
    assert known_speed(tmp_path, CONFIG, mesh) is None
    remember_speed(tmp_path, CONFIG, mesh, 5e9)
    remember_speed(tmp_path, CONFIG, one, 9e9)
    assert known_speed(tmp_path, CONFIG, mesh) == 5e9
    assert known_speed(tmp_path, CONFIG, one) == 9e9


def test_the_speed_of_another_model_says_nothing(tmp_path, mesh):
    remember_speed(tmp_path, CONFIG, mesh, 5e9)
    assert known_speed(tmp_path, tiny(model={'d_ff': 64}), mesh) is None


def test_what_cannot_fit_is_refused_with_the_remedies(mesh):
    with pytest.raises(UserError) as refusal:
        compile_steps(CONFIG, 400, PLAN.buckets, mesh, limit=20_000)
    for remedy in ('tokens_per_batch=512', 'accumulate_steps=1', 'mesh.fsdp=1', 'model.remat'):
        assert remedy in str(refusal.value)


def test_parts_of_one_row_cannot_be_made_smaller(mesh):
    config = tiny(train={'accumulate_steps': 64})
    with pytest.raises(UserError, match=r'lower it or data.max_length, raise mesh.fsdp=1'):
        compile_steps(config, 400, PLAN.buckets, mesh, limit=20_000)


def test_a_compiler_that_runs_out_of_memory_is_refused_alike(mesh, monkeypatch):
    def exhausted(*_, **__):
        raise jax.errors.JaxRuntimeError('RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes')

    monkeypatch.setattr(jax.stages.Lowered, 'compile', exhausted)
    with pytest.raises(UserError, match=r'need more memory on a device of 1\.00 GiB'):
        compile_steps(CONFIG, 400, PLAN.buckets, mesh, limit=2**30)


def test_a_speed_that_cannot_be_kept_is_said(mesh, tmp_path, caplog):
    (tmp_path / 'file').touch()
    remember_speed(tmp_path / 'file', CONFIG, mesh, 1e9)
    assert 'The speed is not kept for the next training' in caplog.text


def test_what_is_to_be_done_meanwhile_is_done_and_may_fail(mesh):
    def fail():
        raise UserError('a dev line is too long.')

    done = []
    with pytest.raises(UserError, match='a dev line is too long'):
        compile_steps(CONFIG, 400, (), mesh, meanwhile=[lambda: done.append(1), fail])
    assert done == [1]


def test_rows_are_filled_up_for_devices_and_parts(mesh):
    assert batch_rows(CONFIG, PLAN.buckets[0], mesh) == 80
    assert batch_rows(tiny(train={'accumulate_steps': 3}), PLAN.buckets[0], mesh) == 96


def test_compilations_are_counted():
    counter = CompileCounter()
    jax.jit(lambda x: x + 271)(1)
    assert (counter.lap(), counter.lap()) == (1, 0)


def test_a_damaged_file_of_speeds_is_as_none(tmp_path, mesh):
    (tmp_path / 'speeds.json').write_text('{')
    assert known_speed(tmp_path, CONFIG, mesh) is None
    remember_speed(tmp_path, CONFIG, mesh, 1.0)
    assert known_speed(tmp_path, CONFIG, mesh) == 1.0
