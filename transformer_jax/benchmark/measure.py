"""Speed of a config on this machine: its input pipeline, its training step and its search.

Each function runs the same code as training or translating, and returns nested dicts of numbers for
the report, in seconds, bytes, FLOPs and tokens. Target tokens include EOS but no padding; model
FLOPs are those of `flops.py`, in which padding counts as no work.
"""

import dataclasses
import itertools
import math
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from transformer_jax.config import Config, VocabSizes
from transformer_jax.data.batching.buckets import Bucket
from transformer_jax.data.batching.loader import load_tensorflow, training_batches
from transformer_jax.data.batching.plan import BatchPlan
from transformer_jax.data.batching.subword_sampling import SubwordSampler
from transformer_jax.data.batching.token_store import TokenStore
from transformer_jax.errors import UserError
from transformer_jax.inference.network import Network
from transformer_jax.model import Transformer
from transformer_jax.model.flops import step_flops
from transformer_jax.model.kernels.matmul import matmul
from transformer_jax.model.layers import compute_dtype
from transformer_jax.runtime.jax_private import forget_cache_folder
from transformer_jax.runtime.program_cache import keep_compiled_programs
from transformer_jax.runtime.signals import stop_if_requested
from transformer_jax.sharding import shard_whole_batch
from transformer_jax.training.compile import CompiledStep, compile_steps
from transformer_jax.training.device_batches import device_batches
from transformer_jax.training.initialization import initial_state
from transformer_jax.training.logs.metrics_writer import read_metrics
from transformer_jax.translating.batch_decoder import BatchDecoder
from transformer_jax.translating.options import search_options

Numbers = dict[str, Any]
_EOS = 1  # for random sentences any token but padding will do
# Size of the matrices, and how many products a program computes, so that its start does not count.
# The matrices are large enough that memory bandwidth does not limit the speed.
_PRODUCTS = {'cpu': (2048, 1)}
_ACCELERATOR_PRODUCTS = (8192, 16)


def repeated(run: Callable[[], Any], *, seconds: float, least: int = 3, most: int = 20) -> float:
    """Return the median time of a call, in seconds, after one call to warm up.

    Args:
      run: function that does the work and returns when it is done.
      seconds: time budget; no call starts after it.
      least: smallest number of calls, even beyond the time budget.
      most: largest number of calls.
    """
    run()
    times: list[float] = []
    while len(times) < least or (sum(times) < seconds and len(times) < most):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def matrix_ceiling(config: Config, mesh: Mesh, seconds: float = 2.0) -> float:
    """Return the FLOP/s of products of large square matrices on all devices of a mesh.

    Args:
      config: config whose compute dtype the matrices have.
      mesh: devices to use.
      seconds: time budget.
    """
    size, count = _PRODUCTS.get(jax.default_backend(), _ACCELERATOR_PRODUCTS)
    sharding = NamedSharding(mesh, PartitionSpec(mesh.axis_names))

    def matrices(seed: int) -> jax.Array:
        shape = (mesh.size, size, size)
        values = jax.random.normal(jax.random.key(seed), shape, compute_dtype(config.model))
        return values * size**-0.5

    a, b = (jax.jit(matrices, static_argnums=0, out_shardings=sharding)(k) for k in (0, 1))

    @jax.jit
    def products(a: jax.Array, b: jax.Array) -> jax.Array:
        for _ in range(count):
            a = jax.vmap(matmul)(a, b)
        return a

    taken = repeated(lambda: jax.block_until_ready(products(a, b)), seconds=seconds)
    return mesh.size * count * 2 * size**3 / taken


def start(command: Sequence[str]) -> float:
    """Return the seconds from the start of a training process to the end of its first step.

    Args:
      command: flags of `transformer_jax.main`: --config and its overrides.

    Raises:
      UserError: if the training fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        flags = [*command, f'--workdir={folder}/run', '--config.train.log_every=1']
        begin = time.perf_counter()
        with (
            tempfile.TemporaryFile('w+', encoding='utf-8') as messages,
            subprocess.Popen(
                [sys.executable, '-m', 'transformer_jax.main', *flags],
                stdout=subprocess.DEVNULL,
                stderr=messages,
            ) as process,
        ):
            try:
                log = Path(folder) / 'run' / 'metrics.jsonl'
                # A run with train.init_from logs an evaluation before step 1.
                while not any(record['kind'] == 'train' for record in read_metrics(log)):
                    stop_if_requested()
                    if process.poll() is not None:
                        messages.seek(0)
                        last = (messages.read().strip().splitlines() or ['no message'])[-1]
                        raise UserError(f'the training to be timed has failed: {last}')
                    time.sleep(0.02)
                return time.perf_counter() - begin
            finally:
                process.kill()


def input_pipeline(
    store: TokenStore,
    plan: BatchPlan,
    subword_sampler: SubwordSampler | None,
    seconds: float,
) -> Numbers:
    """Measure the input pipeline alone, over shuffled epochs."""
    load_tensorflow()
    feed = training_batches(store, plan, 0, subword_sampler=subword_sampler)
    next(feed)  # the first batch waits for tf.data to start
    pairs = batches = 0
    begin = time.perf_counter()
    while (taken := time.perf_counter() - begin) < seconds:
        _, arrays = next(feed)
        of_rows = arrays.get('source_segments', arrays['source'] != 0)
        pairs += int(of_rows.max(axis=1).sum())
        batches += 1
    feed.close()
    return {
        'pairs_per_second': pairs / taken,
        'batches_per_second': batches / taken,
        'epochs': batches / plan.batches_per_epoch,
        'pairs': plan.pairs - plan.dropped,
        'padding': plan.padding,
        'shapes': len(plan.buckets),
    }


def compilation(
    config: Config,
    vocab_sizes: VocabSizes,
    plan: BatchPlan,
    mesh: Mesh,
    limit: int | None,
    kernels: dict[str, str] | None,
) -> tuple[dict[Bucket, CompiledStep], Numbers]:
    """Compile the training step for all shapes twice, with a cold and with a warm cache.

    Args:
      config: config of the run.
      vocab_sizes: V of each side.
      plan: batch plan with the shapes.
      mesh: devices of the run.
      limit: memory limit of `compile_steps`.
      kernels: those of `compile_steps`.

    Returns:
      The program of each shape, and the seconds of both compilations.
    """
    seconds = []
    before = jax.config.jax_compilation_cache_dir
    with tempfile.TemporaryDirectory() as folder:
        keep_compiled_programs(Path(folder))
        forget_cache_folder()
        for _ in ('cold', 'warm'):
            jax.clear_caches()
            begin = time.perf_counter()
            programs = compile_steps(
                config, vocab_sizes, plan.buckets, mesh, limit, kernels=kernels
            )
            seconds.append(time.perf_counter() - begin)
    jax.config.update('jax_compilation_cache_dir', before)
    forget_cache_folder()
    return programs, {'cold_seconds': seconds[0], 'warm_seconds': seconds[1]}


class TrainingSpeed:
    """Measures the training step with random weights."""

    def __init__(
        self,
        config: Config,
        vocab_sizes: VocabSizes,
        programs: Mapping[Bucket, CompiledStep],
        mesh: Mesh,
        ceiling: float,
    ):
        """Make an initial state.

        Args:
          config: config of the run.
          vocab_sizes: V of each side.
          programs: compiled steps from `compile_steps`.
          mesh: devices of the run.
          ceiling: FLOP/s from `matrix_ceiling`.
        """
        self._config, self._vocab_sizes = config, vocab_sizes
        self._programs, self._mesh, self._ceiling = programs, mesh, ceiling
        self._state = initial_state(config, vocab_sizes, mesh)

    def shape(self, bucket: Bucket, seconds: float) -> Numbers:
        """Measure steps on a batch without padding, waiting for the end of each step."""
        program, random = self._programs[bucket], np.random.RandomState(0)
        sizes = {'source': bucket.source_length, 'target': bucket.target_length}
        least = min(self._vocab_sizes)
        batch = {
            name: random.randint(1, least, (program.rows, length)).astype(np.int32)
            for name, length in sizes.items()
        }
        if self._config.data.packing:
            batch |= {f'{name}_segments': np.ones_like(ids) for name, ids in batch.items()}
        batch = shard_whole_batch(batch, self._mesh)
        taken = repeated(lambda: self._step(program, batch), seconds=seconds)
        lengths = [[length] * program.rows for length in sizes.values()]
        return {'seconds': taken} | self._rates(*lengths, taken)

    def mix(
        self,
        store: TokenStore,
        plan: BatchPlan,
        subword_sampler: SubwordSampler | None,
        seconds: float,
        rounds: int = 5,
    ) -> Numbers:
        """Measure steps on the config's own batches, without waiting for the end of each step.

        It returns the round with the median speed. Tokens are counted in the store, even if subword
        sampling changes them.
        """
        rows = {bucket: program.rows for bucket, program in self._programs.items()}
        load_tensorflow()
        feed = device_batches(store, plan, rows, self._mesh, subword_sampler=subword_sampler)
        results = []

        def steps(count: int) -> tuple[float, float]:
            """Return the seconds of the steps, and for how many devices waited for batches."""
            begin, waiting = time.perf_counter(), 0.0
            for _ in range(count):
                asked = time.perf_counter()
                bucket, batch = next(feed)
                # The host is ahead of accelerators; its own waiting costs nothing.
                if self._state.step.is_ready():
                    waiting += time.perf_counter() - asked
                self._state = self._programs[bucket].run(self._state, batch)
            jax.block_until_ready(self._state)
            return time.perf_counter() - begin, waiting

        before = 3  # warm-up steps; the first waits for tf.data to start
        fastest, _ = min(steps(1) for _ in range(before))
        count = max(1, min(500, math.ceil(seconds / rounds / fastest)))
        planned = itertools.islice(_planned(plan), before, None)
        for _ in range(rounds):
            taken, waiting = steps(count)
            ids = np.concatenate(list(itertools.islice(planned, count)))
            lengths = [side[ids] for side in store.lengths]
            found = {'seconds': taken / count, 'waiting_share': waiting / taken}
            results.append(found | self._rates(*lengths, taken))
        feed.close()
        return sorted(results, key=lambda r: r['target_tokens_per_second'])[rounds // 2]

    def _step(self, program: CompiledStep, batch: Mapping[str, jax.Array]) -> None:
        self._state = jax.block_until_ready(program.run(self._state, batch))

    def _rates(self, source: Sequence[int], target: Sequence[int], seconds: float) -> Numbers:
        flops = step_flops(self._config, self._vocab_sizes, source, target)
        return {
            'target_tokens_per_second': float(np.sum(target)) / seconds,
            'sentences_per_second': len(target) / seconds,
            'flops_per_second': flops / seconds,
            'utilisation': flops / seconds / self._ceiling,
        }


def peak_memory(mesh: Mesh) -> Numbers:
    """Return the peak memory of a device, or of this process if devices do not report theirs."""
    stats = mesh.local_devices[0].memory_stats() or {}
    if 'peak_bytes_in_use' in stats:
        return {'bytes': stats['peak_bytes_in_use'], 'of': 'device'}
    unit = 1 if sys.platform == 'darwin' else 1024
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return {'bytes': used, 'of': 'process'}


class DecodingSpeed:
    """Measures beam search with random weights; outputs are exactly as long as their sources.

    Random weights would end outputs at random lengths. So EOS is made unlikely, and the limit of an
    output is the length of its source.

    Attributes:
      max_rows: most sentences that translating puts in one batch on this machine.
    """

    def __init__(self, config: Config, vocab_sizes: VocabSizes, sentences: Sequence[np.ndarray]):
        """Make initial weights.

        Args:
          config: config with sizes, dtype and length penalty.
          vocab_sizes: V of each side.
          sentences: int32 ids with EOS, to translate; sentences too long for learned positions are
            cut.
        """
        model = Transformer.of(config.model, vocab_sizes)
        one = jnp.zeros((1, 1), jnp.int32)
        params = jax.jit(model.init)(jax.random.key(0), one, one)['params']
        # EOS then has a logit of 0; some of the other random logits are far above 0.
        output = 'output_embedding' if 'output_embedding' in params else 'embedding'
        params[output] = params[output].at[_EOS].set(0.0)
        self._decode = dataclasses.replace(config.decode, max_extra_length=0)
        self._search = BatchDecoder(Network([(config.model, params)], vocab_sizes), _EOS)
        self.max_rows = self._search.max_rows
        limit = self._search.source_limit(self._decode)
        self._sentences = [
            np.append(ids[: limit - 1], np.int32(_EOS)) if 0 < limit < len(ids) else ids
            for ids in sentences
        ]

    def throughput(self, beam_size: int, max_rows: int, seconds: float) -> Numbers:
        """Measure throughput with at most `max_rows` sentences in a batch, sorted by length."""
        self._search.fix_shapes(max_rows=max_rows)
        sentences = self._sentences[: max(8, 4 * max_rows)]
        options = search_options(dataclasses.replace(self._decode, beam_size=beam_size))
        tokens = 0

        def run() -> None:
            nonlocal tokens
            found = self._search(sentences, options)
            tokens = sum(int(np.count_nonzero(outputs.tokens[0])) for outputs in found)

        taken = repeated(run, seconds=seconds, least=1, most=5)
        return {
            'beam_size': beam_size,
            'max_rows': max_rows,
            'tokens_per_second': tokens / taken,
            'sentences_per_second': len(sentences) / taken,
        }

    def latency(self, beam_size: int, count: int = 40) -> Numbers:
        """Measure the seconds for single sentences: median and 95th percentile of `count`."""
        options = search_options(dataclasses.replace(self._decode, beam_size=beam_size))
        sentences = self._sentences[:count]
        for ids in sentences:  # compiles each shape once
            self._search.prepare([len(ids)], options)
        times = []
        for ids in sentences:
            begin = time.perf_counter()
            list(self._search([ids], options))
            times.append(time.perf_counter() - begin)
        return {
            'beam_size': beam_size,
            'median_seconds': statistics.median(times),
            'p95_seconds': float(np.quantile(times, 0.95)),
            'median_tokens': statistics.median(len(ids) for ids in sentences),
        }


def _planned(plan: BatchPlan) -> Iterator[np.ndarray]:
    """Yield the ids of the pairs of each step."""
    for number in itertools.count():
        for batch in plan.round(number):
            yield batch.ids[batch.ids >= 0]
