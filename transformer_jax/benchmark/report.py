"""Measures the parts of a benchmark, prints each, and writes the figures as JSON."""

import contextlib
import itertools
import json
import math
import platform
import re
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from transformer_jax._version import __version__
from transformer_jax.benchmark import measure
from transformer_jax.benchmark.workload import Workload, make_workload
from transformer_jax.command_line import print_result
from transformer_jax.config import Config
from transformer_jax.data.batching.buckets import Bucket
from transformer_jax.errors import UserError
from transformer_jax.model import parameter_count
from transformer_jax.model.layers import compute_dtype
from transformer_jax.runtime.memory import device_memory
from transformer_jax.runtime.program_cache import keep_compiled_programs
from transformer_jax.sharding import make_mesh
from transformer_jax.storage.cache import cache_folder
from transformer_jax.storage.files import finite
from transformer_jax.training.checks.preflight import shapes_table
from transformer_jax.training.compile import CompiledStep, compile_steps
from transformer_jax.training.tuning import tuned_kernels

_SECONDS = 5.0  # for each figure, unless the smallest number of repetitions takes longer
_ROWS = (1, 16, 64, 256)  # sentences decoded together, up to the most that translating takes
_BEAMS = (1, 4)
_COLLECTIVES = ('all-reduce', 'all-gather', 'reduce-scatter', 'all-to-all', 'collective-permute')


def measure_parts(
    config: Config,
    command: Sequence[str],
    parts: Sequence[str],
    searches: Sequence[tuple[int, int]] | None,
    synthetic: int | None,
    json_file: Path | None,
    profile: Path | None,
) -> None:
    """Measure and print `parts`, even if a later part fails.

    Args:
      config: config to measure.
      command: flags from which `transformer_jax.main` makes this config, --config first.
      parts: names of parts: start, input, compile, train, decode.
      searches: beam sizes and numbers of sentences decoded together; None for the usual ones, and
        the latency of single sentences.
      synthetic: number of synthetic pairs; None measures with the config's corpus.
      json_file: file for the figures, or None.
      profile: folder for a trace of training and decoding, or None.
    """
    figures: dict[str, Any] = {}
    if 'start' in parts:  # before this process takes the devices
        figures['start'] = _start(command)
    figures = _machine(config, command[0].removeprefix('--config=')) | figures
    try:
        _measure(make_workload(config, synthetic), parts, searches, profile, figures)
    finally:
        if json_file is not None:
            _write(json_file, figures)


def _write(path: Path, figures: dict[str, Any]) -> None:
    try:
        path.write_text(json.dumps(finite(figures), indent=2) + '\n', encoding='utf-8')
    except OSError as error:
        raise UserError(
            f'--json={str(path)!r} cannot be written ({error.strerror}): the figures are printed '
            'above; choose another file.'
        ) from error


def _machine(config: Config, name: str) -> dict[str, Any]:
    mesh = make_mesh(config.mesh)
    figures = {
        'config': name,
        'date': time.strftime('%Y-%m-%d'),
        'transformer_jax': __version__,
        'jax': jax.__version__,
        'python': platform.python_version(),
        'device': mesh.local_devices[0].device_kind,
        'devices': mesh.size,
        'mesh': dict(mesh.shape),
        'dtype': np.dtype(compute_dtype(config.model)).name,
    }
    print_result(
        f'{name}, {figures["date"]}: {mesh.size} x {figures["device"]}, {figures["dtype"]}, mesh '
        f'{_mesh(mesh)}, transformer_jax {__version__}, JAX {jax.__version__}, '
        f'Python {figures["python"]}'
    )
    return figures


def _start(command: Sequence[str]) -> dict[str, float]:
    found = {'as_found_seconds': measure.start(command), 'warm_seconds': measure.start(command)}
    print_result(
        f'start: {found["warm_seconds"]:.1f} s from process start to the end of step 1 '
        f'({found["as_found_seconds"]:.1f} s with the cache as it was)'
    )
    return found


def _measure(
    work: Workload,
    parts: Sequence[str],
    searches: Sequence[tuple[int, int]] | None,
    profile: Path | None,
    figures: dict[str, Any],
) -> None:
    """Print each part as soon as it is measured, and add it to `figures`."""
    config, mesh, sizes, plan = work.config, work.mesh, work.vocab_sizes, work.plan
    if 'input' in parts:
        figures['input'] = _input(work)
    if 'train' in parts or 'decode' in parts:
        ceiling = figures['matrix_flops_per_second'] = measure.matrix_ceiling(config, mesh)
        print_result(f'matrix products: {ceiling / 1e9:,.0f} GFLOP/s on {mesh.size} device(s)')
        keep_compiled_programs(cache_folder(config.data.cache_dir))
    programs = kernels = None
    # If nothing is trained, programs may need more memory than this machine has.
    limit = device_memory(mesh.local_devices[0]) if 'train' in parts else None
    if 'compile' in parts or 'train' in parts:
        kernels = tuned_kernels(config, sizes, plan.buckets, mesh, limit)
    if 'compile' in parts:
        programs, seconds = measure.compilation(config, sizes, plan, mesh, limit, kernels)
        figures['compile'] = seconds | _programs(work, programs, seconds)
    with jax.profiler.trace(profile) if profile else contextlib.nullcontext():
        if 'train' in parts:
            if programs is None:
                programs = compile_steps(config, sizes, plan.buckets, mesh, limit, kernels=kernels)
            figures['train'] = _train(work, programs, ceiling)
        if 'decode' in parts:
            figures['decode'] = _decode(
                measure.DecodingSpeed(config, sizes, work.sentences), searches
            )


def _input(work: Workload) -> dict[str, Any]:
    found = measure.input_pipeline(work.store, work.plan, work.subword_sampler, _SECONDS)
    print_result(
        f'input: {found["pairs_per_second"]:,.0f} pairs/s, '
        f'{found["batches_per_second"]:,.1f} batches/s over {found["epochs"]:.1f} epochs of '
        f'{found["pairs"]:,} pairs; padding {100 * found["padding"]:.1f} % of all positions in '
        f'{found["shapes"]} shapes'
    )
    return found


def _programs(
    work: Workload, programs: dict[Bucket, CompiledStep], seconds: dict[str, float]
) -> dict[str, Any]:
    """Print and return what XLA says about the compiled programs."""
    mesh, sizes = work.mesh, work.vocab_sizes
    parameters = parameter_count(work.config.model, sizes)
    moved = max(
        (collective_bytes(p.compiled.as_text()) for p in programs.values()), key=Counter.total
    )
    print_result(
        f'{parameters:,} parameters, vocabulary of {sizes}; {len(programs)} shapes compiled '
        f'in {seconds["cold_seconds"]:.1f} s, with a warm cache in '
        f'{seconds["warm_seconds"]:.1f} s, for {mesh.size} {jax.default_backend()} device(s), '
        f'mesh {_mesh(mesh)}'
    )
    print_result(shapes_table(programs, work.plan))
    print_result(
        f'moved between devices in a step, at most (parameters: {4 * parameters:,} bytes):'
    )
    print_result('\n'.join(f'  {k:20}{v:16,} bytes' for k, v in moved.items()) or '  nothing')
    return {
        'parameters': parameters,
        'vocabulary': sizes.target,
        'source_vocabulary': sizes.source,
        'moved_bytes': dict(moved),
        'shapes': [
            bucket._asdict() | {'bytes': program.bytes, 'flops': program.flops}
            for bucket, program in programs.items()
        ],
    }


def _train(work: Workload, programs: dict[Bucket, CompiledStep], ceiling: float) -> dict[str, Any]:
    config, mesh = work.config, work.mesh
    speed = measure.TrainingSpeed(config, work.vocab_sizes, programs, mesh, ceiling)
    print_result(
        '  rows  source  target  target tokens/s  sentences/s  GFLOP/s  of matrix products'
    )

    def line(shape: str, found: dict[str, Any]) -> str:
        return (
            f'{shape}{found["target_tokens_per_second"]:17,.0f}'
            f'{found["sentences_per_second"]:13,.1f}{found["flops_per_second"] / 1e9:9,.0f}'
            f'{100 * found["utilisation"]:18.1f} %'
        )

    shapes = []
    for bucket, program in programs.items():
        found = bucket._asdict() | speed.shape(bucket, _SECONDS / len(programs))
        shapes.append(found)
        shape = f'{program.rows:6,}{bucket.source_length:8,}{bucket.target_length:8,}'
        print_result(line(shape, found))
    flops_per_second = statistics.median(found['flops_per_second'] for found in shapes)
    mix = speed.mix(work.store, work.plan, work.subword_sampler, 2 * _SECONDS)
    memory = measure.peak_memory(mesh)
    predicted = max(program.bytes for program in programs.values())
    print_result(
        f'{line("  the config" + chr(39) + "s own mix", mix)}\n'
        f'waiting for batches: {100 * mix["waiting_share"]:.2f} % of the time\n'
        f'peak memory of the {memory["of"]}: {memory["bytes"] / 2**30:.2f} GiB; preflight predicts '
        f'{predicted / 2**30:.2f} GiB on a device\n'
        f'{flops_per_second / 1e9:,.1f} GFLOP/s without padding, the median of the shapes'
    )
    return {'shapes': shapes, 'mix': mix, 'peak_memory': memory, 'predicted_bytes': predicted}


def _decode(
    speed: measure.DecodingSpeed, searches: Sequence[tuple[int, int]] | None
) -> dict[str, Any]:
    print_result('  beam  rows, at most  output tokens/s  sentences/s')
    throughput = []
    for beam_size, rows in searches or itertools.product(_BEAMS, _ROWS):
        if rows <= speed.max_rows:
            found = speed.throughput(beam_size, rows, _SECONDS)
            throughput.append(found)
            print_result(
                f'{beam_size:6}{rows:15}{found["tokens_per_second"]:17,.0f}'
                f'{found["sentences_per_second"]:13,.1f}'
            )
    latency = [] if searches else [speed.latency(beam_size) for beam_size in _BEAMS]
    for found in latency:
        print_result(
            f'a single sentence, beam {found["beam_size"]}: median '
            f'{1000 * found["median_seconds"]:,.0f} ms, 95th percentile '
            f'{1000 * found["p95_seconds"]:,.0f} ms (median of {found["median_tokens"]:.0f} tokens)'
        )
    return {'throughput': throughput, 'latency': latency}


def _mesh(mesh: jax.sharding.Mesh) -> str:
    return ' x '.join(f'{axis} {size}' for axis, size in mesh.shape.items())


def collective_bytes(hlo: str) -> Counter[str]:
    """Return the output bytes of each kind of collective on one device.

    Args:
      hlo: text of a compiled program.
    """
    widths = {'pred': 1, 's8': 1, 'u8': 1, 'bf16': 2, 'f16': 2, 's64': 8, 'u64': 8, 'f64': 8}
    moved: Counter[str] = Counter()
    for line in hlo.splitlines():
        # %name = shape or (shapes) all-reduce(...). If asynchronous, the -done line has the shape.
        found = re.match(rf'\s*(?:ROOT )?\S+ = (.*?) ({"|".join(_COLLECTIVES)})(?:-done)?\(', line)
        if found:
            for dtype, sizes in re.findall(r'(\w+)\[([\d,]*)\]', found[1]):
                count = math.prod(int(size) for size in sizes.split(',') if size)
                moved[found[2]] += count * widths.get(dtype, 4)
    return moved
