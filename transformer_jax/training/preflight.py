"""Before step 1: every program compiled, its memory known, what cannot fit refused."""

import contextlib
import dataclasses
import functools
import gc
import json
import logging
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from transformer_jax.config import Config
from transformer_jax.data.batching import BatchPlan, Bucket
from transformer_jax.data.prepare import Data
from transformer_jax.data.vocabulary import Vocabulary
from transformer_jax.errors import UserError
from transformer_jax.inference.translation_metrics import score
from transformer_jax.model import Transformer
from transformer_jax.model.flops import step_flops
from transformer_jax.model.layers import compute_dtype
from transformer_jax.runtime import program_cache
from transformer_jax.runtime.memory import format_bytes, is_out_of_memory, needed_memory, trim_heap
from transformer_jax.runtime.progress import progress_bar
from transformer_jax.runtime.signals import stop_if_requested
from transformer_jax.sharding import (
    MeshLayout,
    batch_sharding,
    data_shards,
    padded_rows,
    state_shardings,
)
from transformer_jax.storage.cache import content_digest, make_folder
from transformer_jax.storage.files import atomic_write, read_json
from transformer_jax.training.optimizer import make_optimizer, noam_schedule
from transformer_jax.training.state import TrainState, init_state
from transformer_jax.training.step import train_step

_logger = logging.getLogger('transformer_jax')
_BLEU_LOST = 1.0  # by the normalisation of the vocabulary, before that is said
# GPUs go on computing while they exchange gradients.
_GPU_OPTIONS = {'xla_gpu_enable_latency_hiding_scheduler': True}
# Their threads may add up in any order, unless forbidden. XLA then tries no kernels, either, but
# takes the first: cuBLAS orders its own by the shape, Triton does not.
_DETERMINISTIC_GPU_OPTIONS = {
    'xla_gpu_exclude_nondeterministic_ops': True,
    'xla_gpu_enable_triton_gemm': False,
}


class DynamicHyperparameters(NamedTuple):
    """What runs may differ in and still be the same programs: arguments of them.

    Attributes:
      seed: of dropout.
      warmup_steps: of the schedule.
      learning_rate_scale: likewise.
    """

    seed: np.uint32
    warmup_steps: np.float32
    learning_rate_scale: np.float32


class Program(NamedTuple):
    """The training step for one bucket.

    Attributes:
      compiled: from a state, which it consumes, a batch and the run's numbers to the next state.
      numbers: of the run.
      rows: of the batch, the bucket's filled up for the devices.
      flops: of all devices, those of `step_flops` where no sentence is padded.
      bytes: of memory that one device needs.
    """

    compiled: jax.stages.Compiled
    numbers: DynamicHyperparameters
    rows: int
    flops: float
    bytes: int

    def run(self, state: TrainState, batch: Mapping[str, jax.Array]) -> TrainState:
        """Takes the step; on accelerators it may still be under way when this returns."""
        state = self.compiled(state, batch, self.numbers)
        if jax.default_backend() == 'cpu':
            # JAX would take dozens of steps at a time: a stop would wait for all of them, and on
            # several devices, which share the threads of a process, they can use these up.
            jax.block_until_ready(state)
        return state


def compiler_options(backend: str, deterministic: bool) -> dict[str, bool]:
    """What XLA is asked for when it compiles a training step.

    Args:
      backend: 'cpu', 'gpu' or 'tpu'.
      deterministic: of the config's section `train`.

    Returns:
      Values by the names of XLA's flags, without those that $XLA_FLAGS sets.
    """
    if backend != 'gpu':
        return {}
    options = _GPU_OPTIONS | (_DETERMINISTIC_GPU_OPTIONS if deterministic else {})
    flags = os.environ.get('XLA_FLAGS', '')
    return {name: value for name, value in options.items() if name not in flags}


def _model_and_state(
    config: Config, vocab_size: int, mesh: Mesh
) -> tuple[Transformer, Callable[[np.uint32], TrainState]]:
    """The model, and what makes the state before step 1 from a seed."""
    model = Transformer(config.model, vocab_size, MeshLayout(mesh))
    optimizer = make_optimizer(config.optimizer, config.model.d_model)
    with_ema = config.optimizer.ema_decay > 0.0
    return model, functools.partial(init_state, model, optimizer, with_ema=with_ema)


@functools.lru_cache(1)
def abstract_state(config: Config, vocab_size: int, mesh: Mesh) -> TrainState:
    """What `initial_state` gives, with a `jax.ShapeDtypeStruct` for each array."""
    _, initialise = _model_and_state(config, vocab_size, mesh)
    shapes = jax.eval_shape(initialise, np.uint32(config.train.seed))

    def laid_out(shape: jax.ShapeDtypeStruct, sharding: NamedSharding) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=sharding)

    return jax.tree.map(laid_out, shapes, state_shardings(shapes, mesh))


def check_state(config: Config, state: TrainState, limit: int | None) -> None:
    """A UserError if a device has too little memory for its part of the state alone.

    Args:
      config: of the run.
      state: what `abstract_state` gives.
      limit: bytes that a device has; None if that is not known.
    """
    parts = ((x.sharding.shard_shape(x.shape), x.dtype) for x in jax.tree.leaves(state))
    needed = sum(math.prod(shape) * dtype.itemsize for shape, dtype in parts)
    if limit is not None and needed > limit:
        count = sum(x.size for x in jax.tree.leaves(state.params))
        raise UserError(
            f'model.d_model={config.model.d_model} and the other sizes make {count:,} parameters, '
            f'which with the moments of Adam need {format_bytes(needed)} on a device of '
            f'{format_bytes(limit)}: make the model smaller, or raise '
            f'mesh.fsdp={config.mesh.fsdp} or mesh.tensor={config.mesh.tensor}.'
        )


def warn_of_empty_parts(config: Config, buckets: Sequence[Bucket], mesh: Mesh) -> None:
    """Says where train.accumulate_steps cuts batches into more parts than they have rows for."""
    fewest = min(bucket.rows for bucket in buckets)
    parts = config.train.accumulate_steps * data_shards(mesh)
    if config.train.accumulate_steps > 1 and parts > fewest:
        _logger.warning(
            'train.accumulate_steps=%d cuts batches of %d sentence pairs into %d parts, of all '
            'devices: the empty ones are as much work as the others. Lower it.',
            config.train.accumulate_steps,
            fewest,
            parts,
        )


def warn_of_long_references(data: Data, max_extra_length: int) -> None:
    """Says how many references are longer than any output of the search may be.

    Args:
      data: of the run.
      max_extra_length: most tokens that an output has more than its source.
    """
    lengths = {'train': (data.store.source.lengths, data.store.target.lengths)}
    for name, pairs in (('dev', data.dev), ('test', data.test)):
        sides = zip(*pairs, strict=True)
        lengths[name] = [np.array([*map(len, data.vocabulary.encode(side))]) for side in sides]
    too_long = {k: np.sum(y > x + max_extra_length) for k, (x, y) in lengths.items()}
    if any(too_long.values()):
        counts = (f'{too_long[k]:,} of {len(x):,} ({k})' for k, (x, _) in lengths.items())
        _logger.warning(
            'References are longer than any output may be, with decode.max_extra_length=%d tokens '
            'more than the source: %s. Raise it.',
            max_extra_length,
            ', '.join(counts),
        )


def warn_of_normalization(
    vocabulary: Vocabulary, references: Sequence[str], target_language: str
) -> None:
    """Says where a vocabulary cannot write references as they are, and what BLEU that costs."""
    written = [vocabulary.decode(ids) for ids in vocabulary.encode(references)]
    changed = (x for x in zip(references, written, strict=True) if x[0].split() != x[1].split())
    before, after = next(changed, ('', ''))
    if before == after:
        return
    best, same = (
        score(texts, references, target_language=target_language).bleu
        for texts in (written, references)
    )
    if best < same - _BLEU_LOST:
        _logger.warning(
            'The vocabulary writes %r for %r: its normalisation changes the text that is learned, '
            'and the best of translations has a BLEU of %.1f on dev, not %.0f. One trained with '
            "data.normalization='identity' writes what is there.",
            after[:60],
            before[:60],
            best,
            same,
        )


def initial_state(config: Config, vocab_size: int, mesh: Mesh) -> TrainState:
    """The state before step 1, each device making its own part of it.

    Args:
      config: of the run.
      vocab_size: V.
      mesh: the devices.

    Raises:
      UserError: if the mesh does not divide the model.
    """
    model, initialise = _model_and_state(config, vocab_size, mesh)
    abstract = abstract_state(config, vocab_size, mesh)
    shardings = jax.tree.map(lambda x: x.sharding, abstract)
    jitted, seed = jax.jit(initialise, out_shardings=shardings), np.uint32(config.train.seed)
    path = program_cache.place('init_state', model, abstract)
    if path is None:
        return jitted(seed)
    program = program_cache.load(path, seed) or program_cache.compiled(path, jitted.lower(seed))
    return program(seed)


@contextlib.contextmanager
def _garbage_left() -> Iterator[None]:
    """A context in which Python does not look for garbage.

    Tracing makes so many objects that a fifth of its time goes into looking through them.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@_garbage_left()
def compile_steps(
    config: Config,
    vocab_size: int,
    buckets: tuple[Bucket, ...],
    mesh: Mesh,
    limit: int | None = None,
    meanwhile: Sequence[Callable[[], None]] = (),
) -> dict[Bucket, Program]:
    """Compiles the training step for every bucket, ahead of time and side by side.

    Args:
      config: of the run.
      vocab_size: V.
      buckets: the shapes.
      mesh: the devices.
      limit: bytes that a device has; None to compile whatever it takes.
      meanwhile: what else is to be done, in threads, while XLA compiles and Python is idle.

    Raises:
      UserError: if the mesh does not divide the model, or a shape needs more memory than a device
        has; and what `meanwhile` raises.
    """
    model, _ = _model_and_state(config, vocab_size, mesh)
    numbers = DynamicHyperparameters(
        np.uint32(config.train.seed),
        np.float32(config.optimizer.warmup_steps),
        np.float32(config.optimizer.learning_rate_scale),
    )
    abstract = abstract_state(config, vocab_size, mesh)
    shardings = jax.tree.map(lambda x: x.sharding, abstract)
    options = compiler_options(jax.default_backend(), config.train.deterministic)

    def step_of_run(state: TrainState, batch: Mapping[str, jax.Array], run: DynamicHyperparameters):
        d_model = config.model.d_model
        schedule = noam_schedule(d_model, run.warmup_steps, run.learning_rate_scale)
        return train_step(
            state,
            batch,
            model=model,
            optimizer=make_optimizer(config.optimizer, d_model, schedule),
            label_smoothing=config.optimizer.label_smoothing,
            seed=run.seed,
            accumulate_steps=config.train.accumulate_steps,
            r_drop=config.optimizer.r_drop,
            ema_decay=config.optimizer.ema_decay,
        )

    step = jax.jit(
        step_of_run,
        in_shardings=(shardings, batch_sharding(mesh), NamedSharding(mesh, PartitionSpec())),
        out_shardings=shardings,
        donate_argnums=0,
    )

    def arguments(bucket: Bucket) -> tuple[Any, ...]:
        rows = batch_rows(config, bucket, mesh)
        batch = {
            'source': jax.ShapeDtypeStruct((rows, bucket.source_length), jnp.int32),
            'target': jax.ShapeDtypeStruct((rows, bucket.target_length), jnp.int32),
        }
        return abstract, batch, numbers

    def kept(bucket: Bucket) -> jax.stages.Compiled | None:
        return program_cache.load(place(bucket), *arguments(bucket))

    def place(bucket: Bucket) -> Path | None:
        # The numbers of a run are arguments; of `config.train` the step knows nothing else.
        optimizer = dataclasses.replace(config.optimizer, warmup_steps=1, learning_rate_scale=1.0)
        rows, parts = batch_rows(config, bucket, mesh), config.train.accumulate_steps
        kind = model, optimizer, parts, rows, bucket, abstract
        return program_cache.place('train_step', *kind, options)

    def compiled(bucket: Bucket, program: jax.stages.Lowered | jax.stages.Compiled) -> Program:
        try:
            if isinstance(program, jax.stages.Lowered):
                program = program_cache.compiled(place(bucket), program, options)
        except jax.errors.JaxRuntimeError as error:
            if not is_out_of_memory(error):
                raise
            raise _too_large(config, bucket, mesh, 'more memory', limit) from error
        needed = needed_memory(program)
        if limit is not None and needed > limit:
            raise _too_large(config, bucket, mesh, format_bytes(needed), limit)
        rows = batch_rows(config, bucket, mesh)
        lengths = [bucket.source_length] * rows, [bucket.target_length] * rows
        flops = step_flops(config, vocab_size, *lengths)
        return Program(program, numbers, rows, flops, needed)

    result = {}
    # XLA compiles one program on one core, at the cost of some hundred MB each.
    pool = ThreadPoolExecutor(min(4, os.cpu_count() or 1))
    others = ThreadPoolExecutor(max(1, len(meanwhile)))
    try:
        # The largest first: if one does not fit, that is known soon. Traced here, since Python does
        # that for one at a time anyway, and meanwhile those before are compiled.
        found = {b: pool.submit(kept, b) for b in reversed(buckets)}
        tasks = {}
        for b in found:
            stop_if_requested()
            tasks[pool.submit(compiled, b, found[b].result() or step.lower(*arguments(b)))] = b
        # Not before: they would keep Python from the tracing, and XLA waiting for it.
        rest = [others.submit(task) for task in meanwhile]
        with progress_bar('Compiling', total=len(buckets), unit=' shapes') as bar:
            for task in as_completed(tasks):
                stop_if_requested()
                result[tasks[task]] = task.result()
                bar.update()
        for task in rest:
            task.result()
    finally:
        pool.shutdown(cancel_futures=True)
        others.shutdown()
    trim_heap()  # by XLA's compilers
    return {bucket: result[bucket] for bucket in buckets}


def batch_rows(config: Config, bucket: Bucket, mesh: Mesh) -> int:
    """Rows of a bucket's batches, filled up so that devices and parts get as many each."""
    return padded_rows(bucket.rows, data_shards(mesh) * config.train.accumulate_steps)


def _too_large(
    config: Config, bucket: Bucket, mesh: Mesh, needed: str, limit: int | None
) -> UserError:
    parts = config.train.accumulate_steps
    # Parts of one row a device are the smallest there are.
    smallest = bucket.rows <= parts * data_shards(mesh)
    more_parts = '' if smallest else f'train.accumulate_steps={parts} or '
    has = '' if limit is None else f' of {format_bytes(limit)}'
    return UserError(
        f'data.tokens_per_batch={config.data.tokens_per_batch} makes batches of {bucket.rows} '
        f'sentence pairs, {bucket.source_length} + {bucket.target_length} tokens long, which need '
        f'{needed} on a device{has}: lower it or data.max_length, raise {more_parts}'
        f'mesh.fsdp={config.mesh.fsdp}, or set model.remat=True.'
    )


def report(programs: dict[Bucket, Program], plan: BatchPlan, speed: float | None, left: int) -> str:
    """A table of the batch shapes, and when the run will end.

    Args:
      programs: from `compile_steps`.
      plan: how often each shape comes.
      speed: FLOP/s of all devices, if known; see `known_speed`.
      left: steps that are left.
    """
    uses = Counter(batch.bucket for batch in plan.epoch(0))
    lines = ['  rows  source  target  batches an epoch   GFLOP   GiB of a device']
    for bucket, program in programs.items():
        lines.append(
            f'{program.rows:6,}{bucket.source_length:8,}{bucket.target_length:8,}'
            f'{uses[bucket]:18,}{program.flops / 1e9:8,.1f}{program.bytes / 2**30:6.2f}'
        )
    if speed is not None:
        epoch = sum(n * programs[bucket].flops for bucket, n in uses.items()) / speed  # seconds
        tokens = plan.target_tokens / epoch
        seconds = left * epoch / plan.batches_per_epoch
        end = time.strftime('%Y-%m-%d %H:%M', time.localtime(time.time() + seconds))
        lines.append(
            f'Expected from the benchmark of this model here: {tokens:,.0f} target tokens/s, '
            f'{left:,} steps in {seconds / 3600:,.1f} hours, by {end} (evaluations not counted).'
        )
    return '\n'.join(lines)


def _speed_key(config: Config, mesh: Mesh) -> str:
    shape = 'x'.join(map(str, mesh.devices.shape))
    dtype = jnp.dtype(compute_dtype(config.model)).name
    # Small models come nowhere near the speed of large ones.
    model = content_digest([json.dumps(dataclasses.asdict(config.model), sort_keys=True)])
    return (
        f'{mesh.local_devices[0].device_kind}, {os.cpu_count()} cores, mesh {shape}, {dtype}, '
        f'model {model[:16]}, model FLOPs'
    )


def known_speed(folder: Path, config: Config, mesh: Mesh) -> float | None:
    """FLOP/s of all devices in training, as `benchmark` measured them; None if it has not.

    They are of batches without padding, as `Program.flops`.

    Args:
      folder: the cache.
      config: of the run.
      mesh: the devices.
    """
    try:
        return read_json(folder / 'speeds.json', {str: float})[_speed_key(config, mesh)]
    except (OSError, ValueError, KeyError):
        return None


def remember_speed(folder: Path, config: Config, mesh: Mesh, speed: float) -> None:
    """Keeps FLOP/s of all devices for `known_speed`, where the cache can be written."""
    path = folder / 'speeds.json'
    speeds = {}
    with contextlib.suppress(OSError, ValueError):
        speeds = read_json(path, {str: float})
    speeds[_speed_key(config, mesh)] = speed
    try:
        make_folder(folder)
        with atomic_write(path) as file:
            json.dump(speeds, file, indent=2)
    except OSError as error:
        _logger.warning('The speed is not kept for the next training (%s).', error)


class CompileCounter:
    """Counts the programs that XLA compiles: after preflight there are to be none."""

    _seen = 0

    def __init__(self):
        _listen()
        self._before = CompileCounter._seen

    def lap(self) -> int:
        """Programs compiled since the last lap."""
        before, self._before = self._before, CompileCounter._seen
        return self._before - before


@functools.cache  # JAX cannot forget a listener, so there is one
def _listen() -> None:
    def count(event: str, *_: object, **__: object) -> None:
        if event == '/jax/core/compile/backend_compile_duration':
            CompileCounter._seen += 1

    jax.monitoring.register_event_duration_secs_listener(count)
