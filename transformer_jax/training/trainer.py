"""Trains a run from start to finish, and scores it."""

import contextlib
import logging
from pathlib import Path
from typing import Any

from jax.experimental.multihost_utils import reached_preemption_sync_point

from transformer_jax.checkpointing.dev_scores import quality
from transformer_jax.config import Config
from transformer_jax.data.prepare import Data, prepare
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError
from transformer_jax.runtime import distributed, processes
from transformer_jax.runtime.memory import device_memory
from transformer_jax.runtime.program_cache import keep_compiled_programs
from transformer_jax.runtime.signals import Stopped, StopSignals
from transformer_jax.sharding import make_mesh
from transformer_jax.storage.bucket_workdir import open_workdir
from transformer_jax.storage.cache import cache_folder
from transformer_jax.training.checks import resume_checks
from transformer_jax.training.checks.preflight import log_summary, preflight
from transformer_jax.training.initialization import abstract_state, check_state_fits
from transformer_jax.training.logs.trackers import check_installed
from transformer_jax.training.loop import evaluate_if_due, fit
from transformer_jax.training.run import Run, open_run
from transformer_jax.training.scoring.evaluation import out_of_patience, score_test
from transformer_jax.training.state import TrainState

_logger = logging.getLogger('transformer_jax')


def train(config: Config, workdir: str | Path) -> dict[str, Any]:
    """Train the run in `workdir`, or resume it, and score it on the test set.

    If several processes train one run, each calls this function with the same arguments.

    Args:
      config: the run's config.
      workdir: the run's folder, made if it does not exist. All processes must see the same folder.

    Returns:
      The content of results.json.

    Raises:
      UserError: if the data, the config or the folder do not allow the run, or if it cannot
        continue (a full disk, a loss that is not finite). All checkpoints are kept.
      Stopped: if SIGTERM or Ctrl-C asked for it.
    """
    folder = open_workdir(workdir)
    folder.check_writable()
    check_installed(config.train.log_to)
    mesh = make_mesh(config.mesh)
    agreed = reached_preemption_sync_point if processes.count() > 1 else None
    with StopSignals(agreed) as stop, contextlib.ExitStack() as stack:

        def lock() -> None:
            if processes.is_first():
                stack.enter_context(folder.locked())

        saved = resume_checks.load_saved_run(folder, config)
        if saved is not None:
            lock()
            results = resume_checks.finished_results(folder, config, saved)
            if results is not None:
                return results
        resume_checks.check_checkpoints_remain(folder, config, saved)
        data = _prepare_in_turn(config, resume_checks.required_vocabulary(folder, config, saved))
        keep_compiled_programs(cache_folder(config.data.cache_dir))
        resume_checks.check_same_data(folder, saved, data)
        if epochs := config.train.epochs:
            config = resume_checks.with_steps(config, data.plan.steps_of(epochs))
        abstract = abstract_state(config, data.vocabulary.sizes, mesh)
        check_state_fits(config, abstract, device_memory(mesh.local_devices[0]))
        with folder.failures_to_write():
            if saved is None:
                # Only now, so that a run that was refused leaves no trace. Another run may have
                # started and ended here meanwhile.
                lock()
                resume_checks.load_saved_run(folder, config)
            distributed.barrier('workdir')
            if saved is not None and folder.has_checkpoints():
                config = resume_checks.with_origin(config, saved)
            run, state = open_run(config, folder, data, mesh, stop)
            with contextlib.closing(run):
                results = _finish(run, state)
            folder.publish()
            return results


def _prepare_in_turn(config: Config, vocabulary: VocabularyPair | None) -> Data:
    """Prepare the data in process 0, then in the others, which may find it in the cache."""
    if not processes.is_first():
        distributed.barrier('prepared')
    data = prepare(config.data, vocabulary)
    if processes.is_first():
        distributed.barrier('prepared')
    first = distributed.broadcast_from_first('fingerprint', data.fingerprint)
    if data.fingerprint != first:
        raise UserError(
            f'data.corpus={config.data.corpus!r} is not the same for process '
            f'{processes.index()} as for process 0: give every process the same files, or one '
            'data.vocabulary for all.'
        )
    return data


def _finish(run: Run, state: TrainState) -> dict[str, Any]:
    """Train to the end, average checkpoints, score the test set and write the results."""
    config = run.config
    log_summary(run, state)
    steps = None
    if int(state.step) < config.train.steps:
        if out_of_patience(config, run.metrics.records):
            _logger.warning(
                'train.patience=%d has run out: the dev score has not risen in %d evaluations. '
                'To train longer, raise it, or set it to 0.',
                config.train.patience,
                config.train.patience,
            )
        else:
            steps = preflight(run, state)
    if processes.is_first():
        run.save_config()  # after preflight: a run that it refuses leaves no config behind
    evaluate_if_due(run, state)
    if steps is not None and not out_of_patience(config, run.metrics.records):
        state = fit(run, state, steps)
    last = int(state.step)
    if signal := run.stop.pending():
        raise Stopped(
            f'Stopped by {signal} after step {last}, the last one, which is saved: run the same '
            'command again to score the test set.'
        )
    averaged, test = score_test(
        config, run.checkpoints, run.evaluator, state.weights, run.data.test
    )
    dev = [record for record in run.metrics.records if record['kind'] == 'dev']
    results = {
        'finished': resume_checks.completion_key(config),
        'step': last,
        'averaged_checkpoints': averaged,
        'test': test['test'],
        'best_dev': max(dev, key=quality, default=None),
        'examples': test['examples'],
    }
    if processes.is_first():
        run.folder.write_results(results)
        run.folder.publish()
    return results
