"""Measures a config: python -m transformer_jax.benchmark --config=FILE.

input    pairs/s that the feed delivers from a prepared store, and the share of padding
compile  parameters, and for each batch shape the FLOPs and the memory that XLA says it needs
train    target tokens/s of each batch shape
"""

import statistics
import time
from collections.abc import Sequence

import jax
import numpy as np

from transformer_jax import command
from transformer_jax.cache import cache_folder, keep_compiled_programs
from transformer_jax.config import Config
from transformer_jax.data.batching import BatchPlan
from transformer_jax.data.feed import training_batches
from transformer_jax.data.prepare import prepare
from transformer_jax.data.token_store import TokenStore, sentences_from
from transformer_jax.errors import UserError
from transformer_jax.model import Transformer
from transformer_jax.sharding import make_mesh, shard_batch, state_shardings
from transformer_jax.trainer import compile_steps
from transformer_jax.training.optimizer import make_optimizer
from transformer_jax.training.state import init_state

_PARTS = ('input', 'compile', 'train')
_SECONDS = 5.0  # of measuring the feed
_STEPS = 5  # timed for each shape


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
    else:
        store = synthetic_store(flags.synthetic, config)
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
        print(measure_input(store, plan))
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


def measure_input(store: TokenStore, plan: BatchPlan) -> str:
    """How fast the feed is, on its own, over shuffled epochs."""
    feed = training_batches(store, plan, 0)
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
    mesh = make_mesh()
    model = Transformer(config.model, vocab_size)
    optimizer = make_optimizer(config.optimizer, config.model.d_model)
    abstract = jax.eval_shape(lambda: init_state(model, optimizer, 0))
    parameters = sum(x.size for x in jax.tree.leaves(abstract.params))
    begin = time.perf_counter()
    programs = compile_steps(config, vocab_size, plan.buckets, mesh)
    lines = [
        f'{parameters:,} parameters, vocabulary of {vocab_size:,}; '
        f'{len(programs)} shapes compiled in {time.perf_counter() - begin:.1f} s '
        f'for {mesh.size} {jax.default_backend()} device(s)',
        '  rows  source  target    TFLOP   GiB' + ('  target tokens/s' if run else ''),
    ]
    if run:
        state = init_state(model, optimizer, config.train.seed)
        state = jax.device_put(state, state_shardings(state, mesh))
        random = np.random.RandomState(0)
    for bucket, program in programs.items():
        flops = program.cost_analysis()['flops'] / 1e12
        memory = program.memory_analysis()
        needed = memory.argument_size_in_bytes + memory.temp_size_in_bytes
        line = (
            f'{bucket.rows:6,}{bucket.source_length:8,}{bucket.target_length:8,}'
            f'{flops:9.4f}{needed / 2**30:6.2f}'
        )
        if run:
            sizes = {'source': bucket.source_length, 'target': bucket.target_length}
            batch = shard_batch(
                {
                    name: random.randint(1, vocab_size, (bucket.rows, length)).astype(np.int32)
                    for name, length in sizes.items()
                },
                mesh,
            )
            times = []
            for _ in range(_STEPS + 1):
                begin = time.perf_counter()
                state = jax.block_until_ready(program(state, batch))
                times.append(time.perf_counter() - begin)
            tokens = bucket.rows * bucket.target_length
            line += f'{tokens / statistics.median(times[1:]):17,.0f}'
        lines.append(line)
    return '\n'.join(lines)


if __name__ == '__main__':
    command.run(main)
