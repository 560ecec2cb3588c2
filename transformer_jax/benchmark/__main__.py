"""Measures a config: python -m transformer_jax.benchmark --config=FILE.

start    seconds from the start of a training process to the end of its first step
input    pairs/s that the feed delivers from a prepared store, and the share of padding
compile  parameters; for each batch shape the FLOPs and the memory that XLA says it needs; what
         moves between devices; seconds to compile. Nothing runs, so a laptop can ask for 8 large
         devices: XLA_FLAGS=--xla_force_host_platform_device_count=8
train    target tokens/s, sentences/s, model FLOP/s and their share of what matrix products reach
         here: of each batch shape without padding, and of the config's own batches
decode   output tokens/s of beam search, latency of single sentences

Model FLOPs are those of transformer_jax/model/flops.py, in which padding is no work.
"""

import contextlib
import dataclasses
import itertools
import json
import math
import os
import platform
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from transformer_jax import __version__, command_line
from transformer_jax.benchmark import measure
from transformer_jax.config import Config
from transformer_jax.data.batching import BatchPlan, Bucket
from transformer_jax.data.prepare import prepare
from transformer_jax.data.subword_sampling import SubwordSampler
from transformer_jax.data.token_store import TokenStore, sentences_from
from transformer_jax.errors import UserError, user_path
from transformer_jax.model import parameter_count
from transformer_jax.model.layers import compute_dtype
from transformer_jax.runtime.huge_pages import restart_with_huge_pages
from transformer_jax.runtime.memory import device_memory
from transformer_jax.runtime.signals import answer_signals
from transformer_jax.sharding import make_mesh
from transformer_jax.storage.cache import cache_folder, keep_compiled_programs
from transformer_jax.training import resume_checks
from transformer_jax.training.compile import CompiledStep, compile_steps
from transformer_jax.training.preflight import shapes_table

_PARTS = ('start', 'input', 'compile', 'train', 'decode')
_SECONDS = 5.0  # that each figure is measured for, if the least number of repetitions allows
_SENTENCES = 1024  # to decode
_ROWS = (1, 16, 64, 256)  # decoded at a time, as far as translating ever takes so many
_BEAMS = (1, 4)
_COLLECTIVES = ('all-reduce', 'all-gather', 'reduce-scatter', 'all-to-all', 'collective-permute')


def main(arguments: Sequence[str]) -> None:
    """Prints what it measures."""
    parser = command_line.Parser(
        prog='python -m transformer_jax.benchmark',
        description=__doc__,
    )
    command_line.add_config_flag(parser)
    parser.add_argument(
        '--parts',
        help=f'what to measure (default: {",".join(_PARTS)}; with --synthetic, without start)',
    )
    parser.add_argument(
        '--synthetic',
        type=int,
        metavar='PAIRS',
        help='random pairs of realistic lengths, at most 10,000,000, instead of the corpus of the '
        'config',
    )
    parser.add_argument('--json', metavar='FILE', help='where to write the figures as JSON, too')
    parser.add_argument(
        '--profile',
        metavar='DIR',
        help="where to write a trace of training and decoding, for TensorBoard's profile plugin or "
        'perfetto.dev',
    )
    flags, overrides = parser.parse_known_args(arguments)
    if flags.parts is None:
        parts = [part for part in _PARTS if part != 'start' or flags.synthetic is None]
    else:
        parts = flags.parts.split(',')
    for part in parts:
        if part not in _PARTS:
            raise UserError(f'--parts={part!r} must be among {", ".join(_PARTS)}.')
    if flags.synthetic is not None and not 1 <= flags.synthetic <= 10_000_000:
        raise UserError(f'--synthetic={flags.synthetic} must be from 1 to 10,000,000.')
    if flags.synthetic is not None and 'start' in parts:
        raise UserError(
            '--parts=start times a training as it is, which --synthetic pairs cannot stand in for: '
            'leave out one of the two.'
        )
    json_file = None if flags.json is None else _json_file(flags.json)
    profile = None if flags.profile is None else _profile_folder(flags.profile)
    config = command_line.load_config(flags.config, overrides)
    # Before this process takes hold of the devices.
    figures: dict[str, Any] = {}
    if 'start' in parts:
        figures['start'] = _start([f'--config={flags.config}', *overrides])
    figures = _machine(config, flags.config) | figures
    try:
        _measure(_work(config, flags.synthetic), parts, profile, figures)
    finally:  # what was measured before a failure, too
        if json_file is not None:
            _write(json_file, figures)


def _json_file(name: str) -> Path:
    """Where --json is to go; a UserError if nothing can be written there."""
    path = user_path(name, '--json')
    if not os.path.isdir(path.parent):
        raise UserError(f'--json={name!r} is in a folder that does not exist: make it first.')
    if os.path.isdir(path):
        raise UserError(f'--json={name!r} is a folder: name a file.')
    if os.path.lexists(path) and not os.path.isfile(path):
        raise UserError(f'--json={name!r} is a pipe, a device or a link to nothing: name a file.')
    _check_writable(path.parent, f'--json={name!r} is in a folder that')
    try:
        os.stat(path)
    except FileNotFoundError:
        pass
    except OSError as error:  # a name that is too long, say
        raise UserError(
            f'--json={name!r} cannot be a file ({error.strerror}): choose another name.'
        ) from error
    return path


def _profile_folder(name: str) -> Path:
    """The folder of --profile, made if need be; a UserError if nothing can be written there."""
    path = user_path(name, '--profile')
    if os.path.lexists(path) and not os.path.isdir(path):
        raise UserError(f'--profile={name!r} is a file: name a folder.')
    _check_writable(path, f'--profile={name!r}')
    return path


def _check_writable(folder: Path, name: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f'{name} cannot be written to ({error.strerror}): name another.') from error


def _write(path: Path, figures: dict[str, Any]) -> None:
    try:
        path.write_text(json.dumps(figures, indent=2) + '\n', encoding='utf-8')
    except OSError as error:
        raise UserError(
            f'--json={str(path)!r} cannot be written ({error.strerror}): what was measured is '
            'printed above.'
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
    command_line.print_result(
        f'{name}, {figures["date"]}: {mesh.size} x {figures["device"]}, {figures["dtype"]}, mesh '
        f'{_mesh(mesh)}, transformer_jax {__version__}, JAX {jax.__version__}, '
        f'Python {figures["python"]}'
    )
    return figures


def _start(flags: Sequence[str]) -> dict[str, float]:
    found = {'as_found_seconds': measure.start(flags), 'warm_seconds': measure.start(flags)}
    command_line.print_result(
        f'start: {found["warm_seconds"]:.1f} s from process start to the end of step 1 '
        f'({found["as_found_seconds"]:.1f} s with the cache as it was)'
    )
    return found


@dataclasses.dataclass(frozen=True)
class _Work:
    """What is measured.

    Attributes:
      config: of the run.
      mesh: the devices.
      vocab_size: V.
      store: the tokenised pairs.
      plan: of their batches.
      subword_sampler: how they are drawn anew each time, if they are.
      sentences: token ids of sentences to translate.
    """

    config: Config
    mesh: jax.sharding.Mesh
    vocab_size: int
    store: TokenStore
    plan: BatchPlan
    subword_sampler: SubwordSampler | None
    sentences: list[np.ndarray]


def _work(config: Config, synthetic: int | None) -> _Work:
    """The corpus of the config, or so many synthetic pairs."""
    mesh = make_mesh(config.mesh)
    if synthetic is None:
        data = prepare(config.data, resume_checks.inherited_vocabulary(config))
        sentences = data.vocabulary.encode([source for source, _ in data.dev[:_SENTENCES]])
        size = data.vocabulary.size
        return _Work(config, mesh, size, data.store, data.plan, data.subword_sampler, sentences)
    store = synthetic_store(synthetic, config)
    plan = BatchPlan(
        store.source.lengths,
        store.target.lengths,
        max_length=config.data.max_length,
        tokens_per_batch=config.data.tokens_per_batch,
        num_buckets=config.data.num_buckets,
        seed=config.data.seed,
    )
    tokens, offsets = store.source
    ends = offsets[1 : 1 + _SENTENCES].tolist()
    sentences = [tokens[a:b].astype(np.int32) for a, b in itertools.pairwise([0, *ends])]
    return _Work(config, mesh, config.data.vocab_size, store, plan, None, sentences)


def _measure(
    work: _Work, parts: Sequence[str], profile: Path | None, figures: dict[str, Any]
) -> None:
    """Prints each part as soon as it is measured, and adds it to `figures`."""
    config, mesh, vocab_size, plan = work.config, work.mesh, work.vocab_size, work.plan
    if 'input' in parts:
        figures['input'] = _input(work)
    if 'train' in parts or 'decode' in parts:
        ceiling = figures['matrix_flops_per_second'] = measure.matrix_ceiling(config, mesh)
        command_line.print_result(
            f'matrix products: {ceiling / 1e9:,.0f} GFLOP/s on {mesh.size} device(s)'
        )
        keep_compiled_programs(cache_folder(config.data.cache_dir))
    programs = None
    if 'compile' in parts:
        # Where nothing is run, a machine too small for it can still say what it would take.
        limit = device_memory(mesh.local_devices[0]) if 'train' in parts else None
        programs, found = measure.compilation(config, vocab_size, plan, mesh, limit)
        figures['compile'] = found | _programs(work, programs, found)
    with jax.profiler.trace(profile) if profile else contextlib.nullcontext():
        if 'train' in parts:
            if programs is None:
                limit = device_memory(mesh.local_devices[0])
                programs = compile_steps(config, vocab_size, plan.buckets, mesh, limit)
            figures['train'] = _train(work, programs, ceiling)
        if 'decode' in parts:
            figures['decode'] = _decode(measure.DecodingSpeed(config, vocab_size, work.sentences))


def _input(work: _Work) -> dict[str, Any]:
    found = measure.input_pipeline(work.store, work.plan, work.subword_sampler, _SECONDS)
    command_line.print_result(
        f'input: {found["pairs_per_second"]:,.0f} pairs/s, '
        f'{found["batches_per_second"]:,.1f} batches/s over {found["epochs"]:.1f} epochs of '
        f'{found["pairs"]:,} pairs; padding {100 * found["padding"]:.1f} % of all positions in '
        f'{found["shapes"]} shapes'
    )
    return found


def _programs(
    work: _Work, programs: dict[Bucket, CompiledStep], seconds: dict[str, float]
) -> dict[str, Any]:
    """What the compiled programs say of themselves."""
    mesh, vocab_size = work.mesh, work.vocab_size
    parameters = parameter_count(work.config.model, vocab_size)
    moved = max(
        (collective_bytes(p.compiled.as_text()) for p in programs.values()), key=Counter.total
    )
    command_line.print_result(
        f'{parameters:,} parameters, vocabulary of {vocab_size:,}; {len(programs)} shapes compiled '
        f'in {seconds["cold_seconds"]:.1f} s, with a warm cache in '
        f'{seconds["warm_seconds"]:.1f} s, for {mesh.size} {jax.default_backend()} device(s), '
        f'mesh {_mesh(mesh)}'
    )
    command_line.print_result(shapes_table(programs, work.plan))
    command_line.print_result(
        f'moved between devices by a step, at most (parameters: {4 * parameters:,} bytes):'
    )
    command_line.print_result(
        '\n'.join(f'  {k:20}{v:16,} bytes' for k, v in moved.items()) or '  nothing'
    )
    return {
        'parameters': parameters,
        'vocabulary': vocab_size,
        'moved_bytes': dict(moved),
        'shapes': [
            bucket._asdict() | {'bytes': program.bytes, 'flops': program.flops}
            for bucket, program in programs.items()
        ],
    }


def _train(work: _Work, programs: dict[Bucket, CompiledStep], ceiling: float) -> dict[str, Any]:
    config, mesh = work.config, work.mesh
    speed = measure.TrainingSpeed(config, work.vocab_size, programs, mesh, ceiling)
    command_line.print_result(
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
        command_line.print_result(line(shape, found))
    flops_per_second = statistics.median(found['flops_per_second'] for found in shapes)
    mix = speed.mix(work.store, work.plan, work.subword_sampler, 2 * _SECONDS)
    memory = measure.peak_memory(mesh)
    predicted = max(program.bytes for program in programs.values())
    command_line.print_result(
        f'{line("  the config" + chr(39) + "s own mix", mix)}\n'
        f'waiting for batches: {100 * mix["waiting_share"]:.2f} % of the time\n'
        f'peak memory of the {memory["of"]}: {memory["bytes"] / 2**30:.2f} GiB; preflight predicts '
        f'{predicted / 2**30:.2f} GiB on a device\n'
        f'{flops_per_second / 1e9:,.1f} GFLOP/s without padding, the median of the shapes'
    )
    return {'shapes': shapes, 'mix': mix, 'peak_memory': memory, 'predicted_bytes': predicted}


def _decode(speed: measure.DecodingSpeed) -> dict[str, Any]:
    command_line.print_result('  beam  rows, at most  output tokens/s  sentences/s')
    throughput = []
    for beam_size in _BEAMS:
        for rows in (rows for rows in _ROWS if rows <= speed.max_rows):
            found = speed.throughput(beam_size, rows, _SECONDS)
            throughput.append(found)
            command_line.print_result(
                f'{beam_size:6}{rows:15}{found["tokens_per_second"]:17,.0f}'
                f'{found["sentences_per_second"]:13,.1f}'
            )
    latency = [speed.latency(beam_size) for beam_size in _BEAMS]
    for found in latency:
        command_line.print_result(
            f'a sentence on its own, beam {found["beam_size"]}: median '
            f'{1000 * found["median_seconds"]:,.0f} ms, 95th percentile '
            f'{1000 * found["p95_seconds"]:,.0f} ms (median of {found["median_tokens"]:.0f} tokens)'
        )
    return {'throughput': throughput, 'latency': latency}


def _mesh(mesh: jax.sharding.Mesh) -> str:
    return ' x '.join(f'{axis} {size}' for axis, size in mesh.shape.items())


def synthetic_store(pairs: int, config: Config) -> TokenStore:
    """Random pairs of log-normal lengths, as those of WMT news: median 26, mean 30 tokens."""
    random = np.random.RandomState(0)
    source = np.clip(np.exp(random.normal(np.log(26), 0.55, pairs)), 2, config.data.max_length)
    ratio = np.exp(random.normal(0.0, 0.17, pairs))  # target tokens for each source token
    target = np.clip(source * ratio, 2, config.data.max_length)
    dtype = np.uint16 if config.data.vocab_size <= 1 << 16 else np.int32

    def side(lengths: np.ndarray) -> list[np.ndarray]:
        return [random.randint(1, config.data.vocab_size, n).astype(dtype) for n in lengths]

    return TokenStore(
        sentences_from(side(source.astype(int))), sentences_from(side(target.astype(int)))
    )


def collective_bytes(hlo: str) -> Counter[str]:
    """Bytes that each kind of collective puts out on one device, from a compiled program's text."""
    widths = {'pred': 1, 's8': 1, 'u8': 1, 'bf16': 2, 'f16': 2, 's64': 8, 'u64': 8, 'f64': 8}
    moved: Counter[str] = Counter()
    for line in hlo.splitlines():
        # %name = shape or (shapes) all-reduce(...); of an asynchronous pair the end has the shape.
        found = re.match(rf'\s*(?:ROOT )?\S+ = (.*?) ({"|".join(_COLLECTIVES)})(?:-done)?\(', line)
        if found:
            for dtype, sizes in re.findall(r'(\w+)\[([\d,]*)\]', found[1]):
                count = math.prod(int(size) for size in sizes.split(',') if size)
                moved[found[2]] += count * widths.get(dtype, 4)
    return moved


if __name__ == '__main__':
    restart_with_huge_pages()
    answer_signals()
    command_line.run(main)
