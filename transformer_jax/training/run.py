"""The open files and objects of a run, all but its state."""

import dataclasses
import logging

import numpy as np
import optax
from jax.sharding import Mesh

from transformer_jax.checkpointing.manager import Checkpoints
from transformer_jax.config import Config, VocabSizes
from transformer_jax.data.prepare import Data
from transformer_jax.inference.load import load_trained
from transformer_jax.runtime import processes
from transformer_jax.runtime.compile_counter import CompileCounter
from transformer_jax.runtime.signals import StopSignals
from transformer_jax.storage.workdir import SavedRun, Workdir
from transformer_jax.training.initialization import abstract_state, initial_state
from transformer_jax.training.logs.metrics_writer import MetricsWriter
from transformer_jax.training.logs.trackers import SafeTracker
from transformer_jax.training.logs.train_log import with_empty_window
from transformer_jax.training.optimizer import make_schedule
from transformer_jax.training.scoring.evaluation import Evaluator
from transformer_jax.training.state import TrainState, with_weights

_logger = logging.getLogger('transformer_jax')


@dataclasses.dataclass(frozen=True)
class Run:
    """The open files and objects of a run, all but its state.

    Attributes:
      config: all settings.
      folder: the work directory.
      data: vocabulary, token store, batch plan, dev and test.
      mesh: the devices.
      stop: the signals that ask the run to stop.
      checkpoints: the run's checkpoints, open for writing.
      metrics: metrics.jsonl and TensorBoard, open for writing.
      evaluator: scores weights on dev and test.
      learning_rate: the schedule.
      compiled: counts compiled programs.
    """

    config: Config
    folder: Workdir
    data: Data
    mesh: Mesh
    stop: StopSignals
    checkpoints: Checkpoints
    metrics: MetricsWriter
    evaluator: Evaluator
    learning_rate: optax.Schedule
    compiled: CompileCounter

    def prepare_evaluation(self, state: TrainState) -> None:
        """Compile all that an evaluation, a log record and a checkpoint run."""
        self.evaluator.prepare(state.weights)
        self.checkpoints.prepare(state.items())
        self.learning_rate(np.int32(0))
        with_empty_window(state)

    def save_config(self) -> None:
        """Write what the folder needs to be resumed and to translate, before the first step."""
        self.data.vocabulary.save(self.folder.path)
        self.folder.write_run(
            SavedRun(
                self.config,
                self.data.fingerprint,
                self.data.split_fingerprints,
                self.data.vocabulary.digest,
            )
        )
        self.folder.publish()

    def close(self) -> None:
        """Wait for the last checkpoint and close all files."""
        self.checkpoints.close()
        self.metrics.close()


def open_run(
    config: Config, folder: Workdir, data: Data, mesh: Mesh, stop: StopSignals
) -> tuple[Run, TrainState]:
    """Open the files of a run, and restore its last state or make its first.

    Args:
      config: the run's config.
      folder: the work directory. Its checks are done and its lock is held.
      data: the run's data.
      mesh: the devices.
      stop: the signals that ask the run to stop.

    Raises:
      UserError: if the checkpoints cannot be read, or the weights to begin from do not fit.
    """
    checkpoints = Checkpoints(
        folder.checkpoints,
        keep=config.train.keep,
        keep_best=config.train.keep_best,
        every=config.train.checkpoint_every,
    )
    # A resumed run does not also allocate a fresh state.
    restored = checkpoints.restore_latest(
        abstract_state(config, data.vocabulary.sizes, mesh).items()
    )
    state = (
        _first_state(config, data.vocabulary.sizes, mesh)
        if restored is None
        else _forget_skipped_steps(config, TrainState.from_items(restored))
    )
    metrics = MetricsWriter(
        folder.metrics,
        SafeTracker(config.train.log_to, folder.path, config),
        # A run without a checkpoint starts again, its evaluation before step 1 included.
        step=-1 if restored is None else int(state.step),
        read_only=not processes.is_first(),
    )
    run = Run(
        config=config,
        folder=folder,
        data=data,
        mesh=mesh,
        stop=stop,
        checkpoints=checkpoints,
        metrics=metrics,
        evaluator=Evaluator(config, data, mesh),
        learning_rate=make_schedule(config.optimizer, config.model.d_model, config.train.steps),
        compiled=CompileCounter(),
    )
    return run, state


def _first_state(config: Config, vocab_size: VocabSizes, mesh: Mesh) -> TrainState:
    """Return the state before step 1, with the weights of train.init_from if that is set."""
    state = initial_state(config, vocab_size, mesh)
    origin = config.train.init_from
    if not origin:
        return state
    _, _, weights, steps = load_trained(origin, field='train.init_from')
    mean = f': the mean of its checkpoints {steps}' if steps else ''
    _logger.info('Starting from %s%s.', origin, mean)
    return with_weights(state, weights)


def _forget_skipped_steps(config: Config, state: TrainState) -> TrainState:
    """Return a resumed state that does not count earlier skipped steps, if skipping is now off."""
    window = state.window
    if config.train.on_nonfinite == 'skip' or not int(window.first_skipped):
        return state
    _logger.warning(
        'Since the last log line before this start, %d steps were skipped, from step %d on.',
        int(window.skipped),
        int(window.first_skipped),
    )
    return state.replace(window=with_empty_window(state).window._replace(sums=window.sums))
