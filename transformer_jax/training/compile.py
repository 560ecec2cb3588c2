"""Compiles the training step for every batch shape before step 1."""

import dataclasses
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from transformer_jax.config import Config, VocabSizes
from transformer_jax.data.batching.buckets import Bucket
from transformer_jax.errors import UserError
from transformer_jax.model import Transformer
from transformer_jax.model.flops import step_flops
from transformer_jax.model.kernels.accelerators import for_padded_batches
from transformer_jax.runtime import program_cache
from transformer_jax.runtime.memory import (
    format_bytes,
    is_out_of_memory,
    needed_memory,
    trim_heap,
)
from transformer_jax.runtime.progress import progress_bar
from transformer_jax.runtime.signals import stop_if_requested
from transformer_jax.sharding import MeshLayout, batch_sharding, data_shards, padded_rows
from transformer_jax.training.initialization import abstract_state
from transformer_jax.training.optimizer import make_optimizer, make_schedule, noam_schedule
from transformer_jax.training.state import TrainState
from transformer_jax.training.step import train_step

_GPU_OPTIONS = {
    # GPUs continue computing while they exchange gradients.
    'xla_gpu_enable_latency_hiding_scheduler': True,
    # Otherwise XLA keeps sums in float32 that the model rounds to bfloat16: twice the bytes.
    'xla_allow_excess_precision': False,
    # Otherwise it computes queries, keys and values by one product, and then copies each of them.
    'xla_gpu_dot_merger_threshold_mb': 0,
}
# Without this, GPU threads add in any order. With it, XLA also tries no kernels.
_DETERMINISTIC_GPU_OPTIONS = {'xla_gpu_exclude_nondeterministic_ops': True}
# XLA takes the first kernel: cuBLAS orders its kernels by the shape, Triton does not.
_FIRST_KERNEL_GPU_OPTIONS = {'xla_gpu_enable_triton_gemm': False}
# XLA takes only kernels that it has chosen before.
_CHOSEN_KERNEL_GPU_OPTIONS = {'xla_gpu_require_complete_aot_autotune_results': True}


class DynamicHyperparameters(NamedTuple):
    """Hyperparameters that are arguments of the program: a change does not recompile it.

    Those of the learning rate are arguments for the schedule 'noam' only.

    Attributes:
      seed: seed of dropout.
      warmup_steps: steps of linear rise of the learning rate.
      learning_rate_scale: factor on the whole schedule.
    """

    seed: np.uint32
    warmup_steps: np.float32
    learning_rate_scale: np.float32

    @classmethod
    def of(cls, config: Config) -> 'DynamicHyperparameters':
        """Return the values of a run's config."""
        return cls(
            np.uint32(config.train.seed),
            np.float32(config.optimizer.warmup_steps),
            np.float32(config.optimizer.learning_rate_scale),
        )


class CompiledStep(NamedTuple):
    """The training step for one bucket.

    Attributes:
      compiled: maps a state, which it consumes, a batch and the hyperparameters to the next state.
      hyperparameters: the run's.
      rows: rows of the batch: the bucket's, padded to a multiple that the devices can share.
      flops: model FLOPs of a batch without padding, on all devices together; see `step_flops`. A
        row of packed pairs counts as one pair.
      bytes: memory that one device needs.
    """

    compiled: jax.stages.Compiled
    hyperparameters: DynamicHyperparameters
    rows: int
    flops: float
    bytes: int

    def run(self, state: TrainState, batch: Mapping[str, jax.Array]) -> TrainState:
        """Return the state after the step; on accelerators the step may still be running."""
        state = self.compiled(state, batch, self.hyperparameters)
        if jax.default_backend() == 'cpu':
            # JAX would queue dozens of steps: a stop would wait for all of them, and several CPU
            # devices, which share one pool of threads, can use up the pool and deadlock.
            jax.block_until_ready(state)
        return state


def compiler_options(backend: str, deterministic: bool, tuned: bool = False) -> dict[str, bool]:
    """Return the XLA options for a training step, without those that $XLA_FLAGS sets.

    Args:
      backend: 'cpu', 'gpu' or 'tpu'.
      deterministic: the config's train.deterministic.
      tuned: whether XLA has chosen the step's kernels; see `try_kernels`.
    """
    if backend != 'gpu':
        return {}
    options = dict(_GPU_OPTIONS)
    if deterministic:
        options |= _DETERMINISTIC_GPU_OPTIONS
    if tuned:
        options |= _CHOSEN_KERNEL_GPU_OPTIONS
    elif deterministic:
        options |= _FIRST_KERNEL_GPU_OPTIONS
    flags = os.environ.get('XLA_FLAGS', '')
    return {name: value for name, value in options.items() if name not in flags}


def make_train_step(
    config: Config, vocab_size: int | VocabSizes, mesh: Mesh
) -> Callable[..., TrainState]:
    """Return the jitted training step, sharded over `mesh`.

    Args:
      config: the run's config.
      vocab_size: V of both sides, or of each.
      mesh: the devices.

    Returns:
      A function from (state, batch, `DynamicHyperparameters`) to the next state. It consumes the
      state. See `train_step` for the batch.

    Raises:
      UserError: if the mesh does not divide the model.
    """
    model = Transformer.of(for_padded_batches(config.model), vocab_size, MeshLayout(mesh))
    d_model = config.model.d_model

    def step(state: TrainState, batch: Mapping[str, jax.Array], dynamic: DynamicHyperparameters):
        if config.optimizer.schedule == 'noam':
            schedule = noam_schedule(d_model, dynamic.warmup_steps, dynamic.learning_rate_scale)
        else:
            schedule = make_schedule(config.optimizer, d_model, config.train.steps)
        return train_step(
            state,
            batch,
            model=model,
            optimizer=make_optimizer(config.optimizer, d_model, schedule),
            label_smoothing=config.optimizer.label_smoothing,
            seed=dynamic.seed,
            accumulate_steps=config.train.accumulate_steps,
            r_drop=config.optimizer.r_drop,
            ema_decay=config.optimizer.ema_decay,
        )

    shardings = jax.tree.map(lambda x: x.sharding, abstract_state(config, vocab_size, mesh))
    return jax.jit(
        step,
        in_shardings=(shardings, batch_sharding(mesh), NamedSharding(mesh, PartitionSpec())),
        out_shardings=shardings,
        donate_argnums=0,
    )


def batch_rows(config: Config, bucket: Bucket, mesh: Mesh) -> int:
    """Return the bucket's rows, padded so that devices and micro-batches get equal shares."""
    return padded_rows(bucket.rows, data_shards(mesh) * config.train.accumulate_steps)


def compile_steps(
    config: Config,
    vocab_size: int | VocabSizes,
    buckets: Sequence[Bucket],
    mesh: Mesh,
    limit: int | None = None,
    meanwhile: Callable[[], None] = lambda: None,
    kernels: dict[str, str] | None = None,
) -> dict[Bucket, CompiledStep]:
    """Compile the training step for every bucket, several at a time.

    Args:
      config: the run's config.
      vocab_size: V of both sides, or of each.
      buckets: the batch shapes.
      mesh: the devices.
      limit: bytes of memory of a device; None to compile whatever it needs.
      meanwhile: called once all steps are traced, while XLA compiles them.
      kernels: what XLA has chosen, from `tuned_kernels`; None if it takes its first kernels.

    Raises:
      UserError: if the mesh does not divide the model, if a shape needs more memory than a device
        has, or if `kernels` lacks one.
    """
    options = compiler_options(
        jax.default_backend(), config.train.deterministic, tuned=kernels is not None
    )
    compiler = _Compiler(config, vocab_size, mesh, limit, options, kernels)
    return compiler.compile_all('Compiling', buckets, meanwhile)


def try_kernels(
    config: Config,
    vocab_size: int | VocabSizes,
    buckets: Sequence[Bucket],
    mesh: Mesh,
    limit: int | None = None,
) -> None:
    """Let XLA try the kernels of the training step for every bucket, on a GPU.

    XLA keeps its choice in the memory of this process; see `runtime.autotuning`. Arguments and
    errors are those of `compile_steps`.
    """
    options = compiler_options('gpu', deterministic=False) | {
        # A deterministic program has no other kernels to choose than those of products.
        'xla_gpu_experimental_enable_fusion_autotuner': not config.train.deterministic,
        'xla_gpu_shard_autotuning': False,  # other processes do not call this function
    }
    compiler = _Compiler(config, vocab_size, mesh, limit, options, kernels={})
    compiler.compile_all('Trying kernels', buckets)


class _Compiler:
    """Loads or compiles the training step for one bucket, and checks its memory."""

    def __init__(
        self,
        config: Config,
        vocab_size: int | VocabSizes,
        mesh: Mesh,
        limit: int | None,
        options: dict[str, Any],
        kernels: dict[str, str] | None,
    ):
        self._config, self._vocab_size, self._mesh = config, vocab_size, mesh
        self._limit, self._options, self._kernels = limit, options, kernels
        self._state = abstract_state(config, vocab_size, mesh)

    def compile_all(
        self,
        title: str,
        buckets: Sequence[Bucket],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> dict[Bucket, CompiledStep]:
        """Load or compile the step for every bucket; see `compile_steps`."""
        step = make_train_step(self._config, self._vocab_size, self._mesh)
        # XLA compiles one program on one core and needs some hundred MB for each.
        pool = ThreadPoolExecutor(min(4, os.cpu_count() or 1))
        try:
            with progress_bar(title, total=len(buckets), unit=' shapes') as bar:
                # The largest first, so that a shape that does not fit is found early.
                cached = {b: pool.submit(self.load, b) for b in reversed(buckets)}
                tasks = {}
                for bucket, loaded in cached.items():
                    stop_if_requested()
                    # Traced in this thread: Python can trace only one program at a time anyway.
                    program = loaded.result() or step.lower(*self.arguments(bucket))
                    tasks[bucket] = pool.submit(self.compile, bucket, program)
                    tasks[bucket].add_done_callback(lambda _: bar.update())
                meanwhile()
                for task in as_completed(tasks.values()):
                    stop_if_requested()
                    task.result()
        finally:
            pool.shutdown(cancel_futures=True)
        trim_heap()  # XLA's compilers leave much of it behind
        return {bucket: tasks[bucket].result() for bucket in buckets}

    def arguments(self, bucket: Bucket) -> tuple[Any, ...]:
        """Return what the step is called with, abstract where it is an array."""
        rows = batch_rows(self._config, bucket, self._mesh)
        batch = {
            'source': jax.ShapeDtypeStruct((rows, bucket.source_length), jnp.int32),
            'target': jax.ShapeDtypeStruct((rows, bucket.target_length), jnp.int32),
        }
        if self._config.data.packing:
            batch |= {f'{side}_segments': ids for side, ids in batch.items()}
        return self._state, batch, DynamicHyperparameters.of(self._config)

    def load(self, bucket: Bucket) -> jax.stages.Compiled | None:
        """Return the program from the cache, if it is there."""
        return program_cache.current().load(self._key(bucket), *self.arguments(bucket))

    def compile(
        self, bucket: Bucket, program: jax.stages.Lowered | jax.stages.Compiled
    ) -> CompiledStep:
        """Return the step for `bucket`; raise UserError if it needs too much memory."""
        config = self._config
        try:
            if isinstance(program, jax.stages.Lowered):
                program = self._run_xla(bucket, program)
        except jax.errors.JaxRuntimeError as error:
            if 'No cached config found' in str(error):
                raise UserError(
                    'train.tune=True: XLA has tried no kernel for a product of the training step: '
                    'set it to False.'
                ) from error
            if not is_out_of_memory(error):
                raise
            raise self._too_large(bucket, 'more memory') from error
        needed = needed_memory(program)
        if self._limit is not None and needed > self._limit:
            raise self._too_large(bucket, format_bytes(needed))
        rows = batch_rows(config, bucket, self._mesh)
        lengths = [bucket.source_length] * rows, [bucket.target_length] * rows
        flops = step_flops(config, self._vocab_size, *lengths)
        return CompiledStep(program, DynamicHyperparameters.of(config), rows, flops, needed)

    def _run_xla(self, bucket: Bucket, program: jax.stages.Lowered) -> jax.stages.Compiled:
        key, programs = self._key(bucket), program_cache.current()
        if self._kernels is None:
            return programs.compile(key, program, self._options)
        # JAX's cache does not know what XLA has in its memory; a new path keeps the program out.
        with tempfile.TemporaryDirectory() as folder:
            new = {'xla_gpu_dump_autotune_results_to': f'{folder}/kernels.txtpb'}
            return programs.compile(key, program, self._options | new)

    def _key(self, bucket: Bucket) -> str | None:
        if self._kernels == {}:  # the program is only for XLA to try kernels
            return None
        config = self._config
        # The step depends on nothing else of `config.train`; the rest are arguments.
        optimizer, others = config.optimizer, ()
        if optimizer.schedule == 'noam':
            optimizer = dataclasses.replace(optimizer, warmup_steps=1, learning_rate_scale=1.0)
        elif optimizer.ends:
            others = (config.train.steps,)
        if config.data.packing:
            others += ('packed',)
        rows = batch_rows(config, bucket, self._mesh)
        kind = config.model, self._vocab_size, optimizer, config.train.accumulate_steps, *others
        return program_cache.current().key(
            'train_step', *kind, rows, bucket, self._state, self._mesh, self._options, self._kernels
        )

    def _too_large(self, bucket: Bucket, needed: str) -> UserError:
        config = self._config
        micro_batches = config.train.accumulate_steps
        # Micro-batches of one row for each device cannot be made smaller.
        smallest = bucket.rows <= micro_batches * data_shards(self._mesh)
        accumulate = '' if smallest else f'train.accumulate_steps={micro_batches} or '
        has = '' if self._limit is None else f' of {format_bytes(self._limit)}'
        by_count = config.data.sentences_per_batch > 0
        field = 'sentences_per_batch' if by_count else 'tokens_per_batch'
        unit = 'rows' if config.data.packing else 'sentence pairs'
        return UserError(
            f'data.{field}={getattr(config.data, field)} makes batches of {bucket.rows} '
            f'{unit}, {bucket.source_length} + {bucket.target_length} tokens long, which '
            f'need {needed} on a device{has}: lower it or data.max_length, raise {accumulate}'
            f'mesh.fsdp={config.mesh.fsdp}, or set model.remat=True.'
        )
