"""Checks, warnings and compilation before step 1."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from transformer_jax.config import Config
from transformer_jax.data.batching.buckets import Bucket
from transformer_jax.data.batching.lengths import chunks
from transformer_jax.data.batching.plan import BatchPlan
from transformer_jax.data.prepare import Data
from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.model.kernels.accelerators import attention_implementation, for_padded_batches
from transformer_jax.runtime import processes
from transformer_jax.runtime.memory import device_memory
from transformer_jax.sharding import data_shards
from transformer_jax.training.compile import CompiledStep, compile_steps
from transformer_jax.training.run import Run
from transformer_jax.training.state import TrainState
from transformer_jax.training.tuning import tuned_kernels
from transformer_jax.translating.translation_metrics import score

_logger = logging.getLogger('transformer_jax')
_BLEU_LOSS = 1.0  # by the vocabulary's normalization, above which a warning is logged


def preflight(run: Run, state: TrainState) -> dict[Bucket, CompiledStep]:
    """Compile all that training runs, and refuse now what would fail later.

    Args:
      run: the run.
      state: the state to start from.

    Returns:
      The compiled step of each bucket.

    Raises:
      UserError: if a pair of dev or test cannot be scored, or a batch shape does not fit.
    """
    config, data, mesh = run.config, run.data, run.mesh
    step = config, data.vocabulary.sizes, data.plan.buckets, mesh
    limit = device_memory(mesh.local_devices[0], state)
    # First, because the other programs have kernels of their own that XLA would not replace.
    kernels = tuned_kernels(*step, limit, run.folder)
    run.evaluator.check(state.weights)
    warn_of_long_references(data, config.decode.max_extra_length)
    warn_of_normalization(
        data.vocabulary.target, [target for _, target in data.dev], config.data.target_language
    )
    warn_of_empty_micro_batches(config, data.plan.buckets, mesh)
    attention = attention_implementation(for_padded_batches(config.model))
    if config.data.packing and attention == 'cudnn':
        _logger.info("data.packing=True: training computes attention with 'xla', not 'cudnn'.")
    steps = compile_steps(
        *step,
        limit,
        meanwhile=lambda: run.prepare_evaluation(state),
        kernels=kernels,
    )
    if kernels is not None and processes.is_first():
        run.folder.write_kernels(kernels)
    _logger.info('%s', shapes_table(steps, data.plan))
    return steps


def log_summary(run: Run, state: TrainState) -> None:
    """Log the sizes of the run and, if it resumes, after which step.

    Args:
      run: the run.
      state: the state to start from.
    """
    data, start, steps = run.data, int(state.step), run.config.train.steps
    parameters = sum(x.size for x in jax.tree.leaves(state.params))
    _logger.info(
        '%s parameters, vocabulary of %s, %s training pairs in %d shapes, '
        '%d batches an epoch (padding %.1f %%), on %d %s device%s%s.',
        f'{parameters:,}',
        data.vocabulary.sizes,
        f'{data.plan.pairs - data.plan.dropped:,}',
        len(data.plan.buckets),
        data.plan.batches_per_epoch,
        100 * data.plan.padding,
        run.mesh.size,
        jax.default_backend(),
        '' if run.mesh.size == 1 else 's',
        f' of {processes.count()} processes' if processes.count() > 1 else '',
    )
    if start > steps:
        _logger.warning(
            'The run has %d steps already, more than train.steps=%d: it is scored as it is. '
            'For a shorter one choose another --workdir.',
            start,
            steps,
        )
    elif start:
        _logger.info('Resuming after step %d of %d.', start, steps)


def warn_of_empty_micro_batches(config: Config, buckets: Sequence[Bucket], mesh: Mesh) -> None:
    """Log a warning if train.accumulate_steps makes more micro-batches than there are rows."""
    fewest = min(bucket.rows for bucket in buckets)
    count = config.train.accumulate_steps * data_shards(mesh)
    if config.train.accumulate_steps > 1 and count > fewest:
        _logger.warning(
            'train.accumulate_steps=%d splits batches of %d rows into %d parts over all '
            'devices: the empty parts cost as much as the others. Lower it.',
            config.train.accumulate_steps,
            fewest,
            count,
        )


def warn_of_long_references(data: Data, max_extra_length: int) -> None:
    """Log a warning with the number of references that are longer than any output may be.

    Args:
      data: the run's data.
      max_extra_length: the limit of an output, in tokens more than its source.
    """
    too_long, totals = {}, {}
    sets: dict[str, Any] = {'train': data.store.lengths}
    for name, pairs in (('dev', data.dev), ('test', data.test)):
        sources, targets = zip(*pairs, strict=True)
        encoded = data.vocabulary.source.encode(sources), data.vocabulary.target.encode(targets)
        sets[name] = [np.array([*map(len, ids)]) for ids in encoded]
    for name, lengths in sets.items():
        totals[name] = count = data.plan.pairs if name == 'train' else len(lengths[0])
        parts = chunks(*lengths, count=count)
        too_long[name] = sum(int(np.sum(y > x + max_extra_length)) for x, y in parts)
    if any(too_long.values()):
        counts = (f'{count:,} of {totals[name]:,} ({name})' for name, count in too_long.items())
        _logger.warning(
            'References are longer than any output may be, with decode.max_extra_length=%d tokens '
            'more than the source: %s. Raise it.',
            max_extra_length,
            ', '.join(counts),
        )


def warn_of_normalization(
    vocabulary: Vocabulary, references: Sequence[str], target_language: str
) -> None:
    """Log a warning if the vocabulary cannot write the references, with the BLEU that it costs.

    Args:
      vocabulary: the run's, of the target side.
      references: target texts of dev.
      target_language: chooses sacreBLEU's tokenizer.
    """
    encoded = vocabulary.encode(references)
    written = [vocabulary.decode(ids) for ids in encoded]
    changed = [
        (vocabulary.unknown_id in ids, before, after)
        for ids, before, after in zip(encoded, references, written, strict=True)
        if before.split() != after.split()
    ]
    if not changed:
        return
    # What the normalization changes comes first, because a config can mend it.
    is_unknown, before, after = min(changed, key=lambda x: x[0])
    best, same = (
        score(texts, references, target_language=target_language).bleu
        for texts in (written, references)
    )
    if best < same - _BLEU_LOSS:
        _logger.warning(
            'The vocabulary writes %r for %r, because %s: a perfect translation has a BLEU of '
            '%.1f on dev, not %.0f. A vocabulary trained with %s.',
            after[:60],
            before[:60],
            'it does not know a character' if is_unknown else 'its normalization changes the text',
            best,
            same,
            'these characters writes them'
            if is_unknown
            else "data.normalization='identity' writes the text unchanged",
        )


def shapes_table(steps: Mapping[Bucket, CompiledStep], plan: BatchPlan) -> str:
    """Return a table of the batch shapes: rows, lengths, uses in an epoch, FLOPs and memory.

    Args:
      steps: from `compile_steps`.
      plan: the run's batch plan.
    """
    lines = ['  rows  source  target  batches an epoch   GFLOP   GiB of a device']
    lines += [
        f'{step.rows:6,}{bucket.source_length:8,}{bucket.target_length:8,}'
        f'{plan.uses[bucket]:18,}{step.flops / 1e9:8,.1f}{step.bytes / 2**30:6.2f}'
        for bucket, step in steps.items()
    ]
    return '\n'.join(lines)
