"""Measures a config: python -m transformer_jax.benchmark --config=FILE.

input    pairs/s that the feed delivers from a prepared store, and the share of padding
compile  parameters; for each batch shape the FLOPs and the memory that XLA says it needs; what
         moves between devices. Nothing runs, so a laptop can ask for 8 large devices:
         XLA_FLAGS=--xla_force_host_platform_device_count=8
train    target tokens/s of each batch shape
"""

import math
import re
import statistics
import time
from collections import Counter
from collections.abc import Sequence

import jax
import numpy as np

from transformer_jax import command
from transformer_jax.cache import cache_folder, keep_compiled_programs
from transformer_jax.config import Config
from transformer_jax.data.batching import BatchPlan
from transformer_jax.data.feed import training_batches
from transformer_jax.data.prepare import prepare
from transformer_jax.data.segmentation import SampledSegmentation
from transformer_jax.data.token_store import TokenStore, sentences_from
from transformer_jax.errors import UserError
from transformer_jax.huge_pages import restart_with_huge_pages
from transformer_jax.model import Transformer
from transformer_jax.preflight import compile_steps, device_memory, remember_speed, report
from transformer_jax.sharding import MeshLayout, make_mesh, shard_whole_batch, state_shardings
from transformer_jax.training.optimizer import make_optimizer
from transformer_jax.training.state import init_state

_PARTS = ('input', 'compile', 'train')
_SECONDS = 5.0  # of measuring the feed
_STEPS = 5  # timed for each shape
_COLLECTIVES = ('all-reduce', 'all-gather', 'reduce-scatter', 'all-to-all', 'collective-permute')


def main(arguments: Sequence[str]) -> None:
    """Prints what it measures."""
    parser = command.Parser(
        prog='python -m transformer_jax.benchmark',
        description=__doc__,
    )
    command.add_config_flag(parser)
    parser.add_argument(
        '--parts', default=','.join(_PARTS), help='what to measure (default: %(default)s)'
    )
    parser.add_argument(
        '--synthetic',
        type=int,
        metavar='PAIRS',
        help='random pairs of realistic lengths instead of the corpus of the config',
    )
    flags, overrides = parser.parse_known_args(arguments)
    parts = flags.parts.split(',')
    for part in parts:
        if part not in _PARTS:
            raise UserError(f'--parts={part!r} must be among {", ".join(_PARTS)}.')
    if flags.synthetic is not None and flags.synthetic < 1:
        raise UserError(f'--synthetic={flags.synthetic} must be 1 or more.')
    config = command.load_config(flags.config, overrides)

    if flags.synthetic is None:
        data = prepare(config.data)
        store, plan, vocab_size = data.store, data.plan, data.vocabulary.size
        segmentation = data.segmentation
    else:
        store, segmentation = synthetic_store(flags.synthetic, config), None
        vocab_size = config.data.vocab_size
        plan = BatchPlan(
            store.source.lengths,
            store.target.lengths,
            max_length=config.data.max_length,
            tokens_per_batch=config.data.tokens_per_batch,
            num_buckets=config.data.num_buckets,
            seed=config.data.seed,
        )
    if 'input' in parts:
        print(measure_input(store, plan, segmentation))
    if 'compile' in parts or 'train' in parts:
        if 'train' in parts:
            keep_compiled_programs(cache_folder(config.data.cache_dir))
        print(measure_steps(config, vocab_size, plan, run='train' in parts))


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


def measure_input(
    store: TokenStore, plan: BatchPlan, segmentation: SampledSegmentation | None = None
) -> str:
    """How fast the feed is, on its own, over shuffled epochs."""
    feed = training_batches(store, plan, 0, segmentation=segmentation)
    next(feed)  # the first waits for tf.data to start
    pairs = batches = 0
    begin = time.perf_counter()
    while (seconds := time.perf_counter() - begin) < _SECONDS:
        pairs += int((next(feed)['source'][:, 0] != 0).sum())
        batches += 1
    feed.close()
    return (
        f'input: {pairs / seconds:,.0f} pairs/s, {batches / seconds:,.1f} batches/s over '
        f'{batches / plan.batches_per_epoch:.1f} epochs of {len(store) - plan.dropped:,} pairs; '
        f'padding {100 * plan.padding:.1f} % of all positions in {len(plan.buckets)} shapes'
    )


def measure_steps(config: Config, vocab_size: int, plan: BatchPlan, *, run: bool) -> str:
    """A table of the batch shapes, compiled ahead of time; with `run`, also timed."""
    mesh = make_mesh(config.mesh)
    model = Transformer(config.model, vocab_size, MeshLayout(mesh))
    optimizer = make_optimizer(config.optimizer, config.model.d_model)
    abstract = jax.eval_shape(lambda: init_state(model, optimizer, 0))
    parameters = sum(x.size for x in jax.tree.leaves(abstract.params))
    begin = time.perf_counter()
    # Where nothing is run, a machine too small for it can still say what it would take.
    limit = device_memory(mesh.local_devices[0]) if run else None
    programs = compile_steps(config, vocab_size, plan.buckets, mesh, limit)
    lines = [
        f'{parameters:,} parameters, vocabulary of {vocab_size:,}; '
        f'{len(programs)} shapes compiled in {time.perf_counter() - begin:.1f} s '
        f'for {mesh.size} {jax.default_backend()} device(s), '
        f'mesh {" x ".join(f"{axis} {size}" for axis, size in mesh.shape.items())}',
        report(programs, plan, None, 0),
    ]
    moved = max((collective_bytes(p.run.as_text()) for p in programs.values()), key=Counter.total)
    lines += [f'moved between devices by a step, at most (parameters: {4 * parameters:,} bytes):']
    lines += [f'  {name:20}{size:16,} bytes' for name, size in moved.items()] or ['  nothing']
    if not run:
        return '\n'.join(lines)
    lines.append('  rows  source  target  target tokens/s')
    with_ema = config.optimizer.ema_decay > 0.0
    state = init_state(model, optimizer, config.train.seed, with_ema=with_ema)
    state = jax.device_put(state, state_shardings(state, mesh))
    random = np.random.RandomState(0)
    speeds = []
    for bucket, program in programs.items():
        sizes = {'source': bucket.source_length, 'target': bucket.target_length}
        batch = shard_whole_batch(
            {
                name: random.randint(1, vocab_size, (program.rows, length)).astype(np.int32)
                for name, length in sizes.items()
            },
            mesh,
        )
        times = []
        for _ in range(_STEPS + 1):
            begin = time.perf_counter()
            state = jax.block_until_ready(program.run(state, batch))
            times.append(time.perf_counter() - begin)
        seconds = statistics.median(times[1:])
        speeds.append(program.flops / seconds)
        tokens = bucket.rows * bucket.target_length
        lines.append(
            f'{program.rows:6,}{bucket.source_length:8,}{bucket.target_length:8,}'
            f'{tokens / seconds:17,.0f}'
        )
    speed = statistics.median(speeds)
    remember_speed(cache_folder(config.data.cache_dir), config, mesh, speed)
    lines.append(f'{speed / 1e9:,.1f} GFLOP/s of a device, which preflight will reckon with')
    return '\n'.join(lines)


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
    command.run(main)
