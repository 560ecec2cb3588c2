"""Every training step is compiled before step 1, its memory known."""

import jax
import numpy as np
import pytest
from tiny_run import tiny, two_buckets

from transformer_jax.errors import UserError
from transformer_jax.runtime import program_cache
from transformer_jax.sharding import make_mesh, shard_whole_batch
from transformer_jax.training import compile
from transformer_jax.training.compile import (
    DynamicHyperparameters,
    batch_rows,
    compile_steps,
    compiler_options,
    make_train_step,
    try_kernels,
)
from transformer_jax.training.initialization import abstract_state, initial_state

CONFIG = tiny()
pytestmark = pytest.mark.usefixtures('programs_kept')
PLAN = two_buckets()


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


def lowered_text(config, bucket, mesh):
    """The step before XLA optimises it, without the source lines it comes from."""
    rows = batch_rows(config, bucket, mesh)
    batch = {
        'source': jax.ShapeDtypeStruct((rows, bucket.source_length), np.int32),
        'target': jax.ShapeDtypeStruct((rows, bucket.target_length), np.int32),
    }
    hyperparameters = DynamicHyperparameters.of(config)
    state = abstract_state(config, 400, mesh)
    return make_train_step(config, 400, mesh).lower(state, batch, hyperparameters).as_text()


@pytest.fixture
def after_a_step(mesh):
    """Call it with a program of the first bucket for the state after step 1."""
    bucket = PLAN.buckets[0]

    def run(program):
        tokens = {
            'source': np.full((program.rows, bucket.source_length), 5, np.int32),
            'target': np.full((program.rows, bucket.target_length), 5, np.int32),
        }
        return program.run(initial_state(CONFIG, 400, mesh), shard_whole_batch(tokens, mesh))

    return run


def test_another_seed_does_not_change_the_program(programs, mesh, after_a_step):
    bucket = PLAN.buckets[0]
    config = tiny(train={'seed': 2**32 - 1})
    assert lowered_text(config, bucket, mesh) == lowered_text(CONFIG, bucket, mesh)
    other = programs[bucket]._replace(hyperparameters=DynamicHyperparameters.of(config))
    losses = [
        float(after_a_step(program).window.sums.loss)
        for program in (other, programs[bucket], programs[bucket])
    ]
    assert losses[1] == losses[2] != losses[0]  # dropout differs


def test_another_learning_rate_does_not_change_the_program(programs, mesh, after_a_step):
    bucket, was = PLAN.buckets[0], CONFIG.optimizer
    config = tiny(
        optimizer={
            'learning_rate_scale': 2 * was.learning_rate_scale,
            'warmup_steps': 4 * was.warmup_steps,
        }
    )
    assert lowered_text(config, bucket, mesh) == lowered_text(CONFIG, bucket, mesh)
    other = programs[bucket]._replace(hyperparameters=DynamicHyperparameters.of(config))
    before = initial_state(CONFIG, 400, mesh).params['embedding']
    taken = [
        after_a_step(program).params['embedding'] - before for program in (programs[bucket], other)
    ]
    # Early on the schedule is scale * warmup_steps^-1.5, and so is Adam's first step.
    unit = np.finfo(np.float32).eps * np.abs(before).max()  # what a step is rounded to
    np.testing.assert_allclose(taken[1], taken[0] / 4, rtol=0, atol=2 * unit)
    assert np.abs(taken[0]).max() > 1e-5


def test_xla_accepts_the_options_for_gpus():
    options = compiler_options('gpu', deterministic=True)
    assert options['xla_gpu_exclude_nondeterministic_ops']
    jax.jit(lambda x: x + 1).lower(1.0).compile(options)


def test_a_run_may_be_non_deterministic():
    options = compiler_options('gpu', deterministic=False)
    assert options == compile._GPU_OPTIONS


@pytest.mark.parametrize('deterministic', [True, False])
def test_a_tuned_step_takes_only_kernels_that_xla_has_chosen(deterministic):
    options = compiler_options('gpu', deterministic, tuned=True)
    assert options['xla_gpu_require_complete_aot_autotune_results']
    assert options.get('xla_gpu_exclude_nondeterministic_ops', False) == deterministic
    assert 'xla_gpu_enable_triton_gemm' not in options
    jax.jit(lambda x: x + 1).lower(1.0).compile(options)


def test_flags_of_the_user_take_precedence(monkeypatch):
    name = 'xla_gpu_enable_latency_hiding_scheduler'
    monkeypatch.setenv('XLA_FLAGS', f'--{name}=false')
    options = compiler_options('gpu', deterministic=False)
    assert options.keys() == compile._GPU_OPTIONS.keys() - {name}


def test_other_backends_get_no_options():
    assert compiler_options('cpu', deterministic=True) == {}


def test_the_options_reach_xla(mesh, monkeypatch):
    monkeypatch.setattr(compile, 'compiler_options', lambda *_, **__: {'xla_no_such_option': 1})
    with pytest.raises(jax.errors.JaxRuntimeError, match='xla_no_such_option'):
        compile_steps(CONFIG, 400, PLAN.buckets[:1], mesh)


def test_on_cpus_a_step_ends_before_the_next_starts(programs, mesh):
    bucket, program = list(programs.items())[1]
    tokens = {
        'source': np.full((program.rows, bucket.source_length), 5, np.int32),
        'target': np.full((program.rows, bucket.target_length), 5, np.int32),
    }
    state = program.run(initial_state(CONFIG, 400, mesh), shard_whole_batch(tokens, mesh))
    assert all(leaf.is_ready() for leaf in jax.tree.leaves(state))
    assert state.step == 1


def test_a_shape_that_does_not_fit_is_refused_with_the_remedies(mesh):
    with pytest.raises(UserError) as refusal:
        compile_steps(CONFIG, 400, PLAN.buckets, mesh, limit=20_000)
    for remedy in ('tokens_per_batch=512', 'accumulate_steps=1', 'mesh.fsdp=1', 'model.remat'):
        assert remedy in str(refusal.value)


def test_micro_batches_of_one_row_cannot_be_made_smaller(mesh):
    config = tiny(train={'accumulate_steps': 64})
    with pytest.raises(UserError, match=r'lower it or data.max_length, raise mesh.fsdp=1'):
        compile_steps(config, 400, PLAN.buckets[:1], mesh, limit=20_000)


def test_a_compiler_that_runs_out_of_memory_gives_the_same_message(mesh, monkeypatch):
    def exhausted(*_, **__):
        raise jax.errors.JaxRuntimeError('RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes')

    monkeypatch.setattr(jax.stages.Lowered, 'compile', exhausted)
    message = r'need more memory on a device of 1\.00 GiB'
    with program_cache.use(None), pytest.raises(UserError, match=message):
        compile_steps(CONFIG, 400, PLAN.buckets, mesh, limit=2**30)


def test_a_kernel_that_xla_has_not_tried_is_a_user_error(mesh, monkeypatch):
    def unknown(*_, **__):
        raise jax.errors.JaxRuntimeError('NOT_FOUND: No cached config found for HLO instr: %dot')

    monkeypatch.setattr(jax.stages.Lowered, 'compile', unknown)
    with program_cache.use(None), pytest.raises(UserError, match='set it to False'):
        compile_steps(CONFIG, 400, PLAN.buckets, mesh, kernels={'results': ''})


def test_programs_of_other_kernels_are_other_programs(mesh, monkeypatch):
    compiled, compile_lowered = [], jax.stages.Lowered.compile

    def count(program, options):
        compiled.append(options)
        return compile_lowered(program, options)

    monkeypatch.setattr(jax.stages.Lowered, 'compile', count)
    config = tiny(model={'d_ff': 40})  # that no other test compiles
    for results in ('a', 'b', 'a'):
        compile_steps(config, 400, PLAN.buckets[:1], mesh, kernels={'results': results})
    assert len(compiled) == 2


def test_xla_tries_kernels_for_every_shape_even_if_it_has_done_so_before(mesh, monkeypatch):
    compiled, compile_lowered = [], jax.stages.Lowered.compile

    def count(program, options):
        compiled.append(options)
        return compile_lowered(program, options)

    monkeypatch.setattr(jax.stages.Lowered, 'compile', count)
    for _ in range(2):
        try_kernels(CONFIG, 400, PLAN.buckets, mesh)
    assert len(compiled) == 2 * len(PLAN.buckets)
    assert len({options['xla_gpu_dump_autotune_results_to'] for options in compiled}) == 4
    assert not any('xla_gpu_exclude_nondeterministic_ops' in options for options in compiled)


def test_what_fails_while_xla_compiles_is_raised(mesh):
    def fail():
        raise UserError('a dev line is too long.')

    with pytest.raises(UserError, match='a dev line is too long'):
        compile_steps(CONFIG, 400, PLAN.buckets[:1], mesh, meanwhile=fail)


def test_rows_are_padded_for_devices_and_micro_batches(mesh):
    assert batch_rows(CONFIG, PLAN.buckets[0], mesh) == 80
    assert batch_rows(tiny(train={'accumulate_steps': 3}), PLAN.buckets[0], mesh) == 96
