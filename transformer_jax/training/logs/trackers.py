"""Where metrics go besides metrics.jsonl: TensorBoard files, Weights & Biases, or MLflow.

metrics.jsonl stays the record of a run. What a tracker fails to take is lost to it alone: the run
goes on.
"""

import contextlib
import functools
import importlib.util
import json
import logging
import os
import queue
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from transformer_jax.config import Config
from transformer_jax.data._tensorflow import import_tensorflow
from transformer_jax.errors import UserError, first_line
from transformer_jax.storage.files import atomic_write, read_json

_logger = logging.getLogger('transformer_jax')
_PROJECT = 'transformer_jax'
_IDS = 'tracker.json'
_PATIENCE = 5  # seconds to wait for a tracker at the end
_MOST_PARAMS = 100  # of a batch that MLflow takes


class Tracker(Protocol):
    """Takes the numbers of a step, and is closed at the end."""

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Take numbers by name, such as 'train/loss'."""

    def close(self, failed: bool) -> None:
        """Finish writing; `failed` says that the run was stopped or failed."""


def check_installed(kind: str) -> None:
    """Raise UserError if the package of train.log_to is not installed."""
    found = None if kind == 'tensorboard' else importlib.util.find_spec(kind)
    # A folder of that name, such as wandb itself makes, is found as a package without an origin.
    if kind != 'tensorboard' and (found is None or found.origin is None):
        raise UserError(
            f"train.log_to={kind!r} needs a package: pip install 'transformer_jax[{kind}]'."
        )


class SafeTracker:
    """A tracker that cannot hold up a training or end it.

    It is opened for its first numbers, because that takes seconds. What needs a network has a
    thread of its own. After its first failure it takes no more.
    """

    def __init__(self, kind: str, folder: Path, config: Config | None = None):
        """Open nothing yet.

        Args:
          kind: the config's train.log_to.
          folder: the work directory.
          config: the run's config, which is logged with it.
        """
        self._kind = kind
        self._open = functools.partial(_TRACKERS[kind], folder, config)
        self._tracker: Tracker | None = None
        self._failed = False
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Pass numbers on."""
        self._do(functools.partial(self._write, step, values))

    def close(self) -> None:
        """Close the tracker, if it was opened; an exception on its way marks the run as failed."""
        if self._tracker is None and self._thread is None:
            return
        self._do(functools.partial(self._close, sys.exception() is not None))
        if self._thread is None:
            return
        self._queue.put(None)  # ends the thread
        self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            _logger.warning(
                'train.log_to=%r did not take the last metrics within %d s; metrics.jsonl has all '
                'of them.',
                self._kind,
                _PATIENCE,
            )

    def _do(self, action: Callable[[], None]) -> None:
        """Do something here, or in the thread of this tracker."""
        if self._kind == 'tensorboard':
            action()
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        self._queue.put(action)

    def _work(self) -> None:
        while (action := self._queue.get()) is not None:
            action()

    def _write(self, step: int, values: Mapping[str, float]) -> None:
        if self._failed:
            return
        try:
            if self._tracker is None:
                self._tracker = self._open()
            self._tracker.write(step, values)
        except Exception as error:  # packages raise many kinds
            self._fail(error)

    def _close(self, failed: bool) -> None:
        if self._tracker is None or self._failed:
            return
        try:
            self._tracker.close(failed)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._failed = True
        if self._kind == 'tensorboard' and isinstance(error, ImportError):
            _logger.warning('tensorflow is not installed: metrics go to metrics.jsonl only.')
            return
        _logger.warning(
            'train.log_to=%r takes no more metrics (%s: %s); metrics.jsonl has all of them.',
            self._kind,
            type(error).__name__,
            first_line(error),
        )


class _TensorBoard:
    """Files for TensorBoard."""

    def __init__(self, folder: Path, config: Config | None):
        del config
        self._tf = tf = import_tensorflow()
        self._summary = tf.summary.create_file_writer(str(folder / 'tensorboard'))
        # tf.summary.scalar would need the tensorboard package, which only readers need.
        self._metadata = tf.compat.v1.SummaryMetadata(
            plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name='scalars')
        )
        self._metadata.data_class = 1  # DATA_CLASS_SCALAR

    def write(self, step: int, values: Mapping[str, float]) -> None:
        tf = self._tf
        with self._summary.as_default():
            for name, value in values.items():
                tensor = tf.constant(value, tf.float32)
                tf.summary.write(name, tensor, step=step, metadata=self._metadata)
        self._summary.flush()

    def close(self, failed: bool) -> None:
        del failed
        self._summary.close()


class _Wandb:
    """A run of Weights & Biases. WANDB_MODE, WANDB_PROJECT and so on hold, as everywhere."""

    def __init__(self, folder: Path, config: Config | None):
        import wandb

        self._run = wandb.init(
            project=os.environ.get('WANDB_PROJECT', _PROJECT),
            id=_own_id(folder, 'wandb', lambda: uuid.uuid4().hex[:12]),
            resume='allow',
            name=folder.absolute().name,
            dir=str(folder),
            config=None if config is None else config.to_dict(),
            # stdout is for results.
            settings=wandb.Settings(console='off'),
        )

    def write(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self, failed: bool) -> None:
        self._run.finish(exit_code=int(failed))


class _Mlflow:
    """A run of MLflow. MLFLOW_TRACKING_URI and so on hold, as everywhere."""

    def __init__(self, folder: Path, config: Config | None):
        import mlflow.entities
        import mlflow.exceptions

        self._client, self._entities = mlflow.MlflowClient(), mlflow.entities

        def new() -> str:
            return self._new_run(folder.absolute().name, config)

        self._run = _own_id(folder, 'mlflow', new)
        try:
            self._client.update_run(self._run, status='RUNNING')
        except mlflow.exceptions.MlflowException:  # the store is another than before
            self._run = _own_id(folder, 'mlflow', new, again=True)

    def _new_run(self, run_name: str, config: Config | None) -> str:
        client, name = self._client, os.environ.get('MLFLOW_EXPERIMENT_NAME', _PROJECT)
        found = client.get_experiment_by_name(name)
        experiment = found.experiment_id if found else client.create_experiment(name)
        run = client.create_run(experiment, run_name=run_name).info.run_id
        sections = {} if config is None else config.to_dict()
        params = [
            self._entities.Param(f'{section}.{field}', str(value))
            for section, fields in sections.items()
            for field, value in fields.items()
        ]
        for first in range(0, len(params), _MOST_PARAMS):
            client.log_batch(run, params=params[first : first + _MOST_PARAMS])
        return run

    def write(self, step: int, values: Mapping[str, float]) -> None:
        now = int(1000 * time.time())
        metrics = [self._entities.Metric(name, value, now, step) for name, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def close(self, failed: bool) -> None:
        # It says on stdout where to look, and stdout is for results.
        with contextlib.redirect_stdout(sys.stderr):
            self._client.set_terminated(self._run, 'KILLED' if failed else 'FINISHED')


def _own_id(folder: Path, kind: str, new: Callable[[], str], again: bool = False) -> str:
    """Return the id of this run in a tracker, which a resumed run finds in its folder.

    Args:
      folder: the work directory.
      kind: of the tracker.
      new: makes an id.
      again: whether to make another id than the one in the folder.
    """
    path = folder / _IDS
    try:
        ids = read_json(path, {str: str})
    except (OSError, ValueError):
        ids = {}
    if again or kind not in ids:
        ids[kind] = new()
        with atomic_write(path) as file:
            json.dump(ids, file)
    return ids[kind]


_TRACKERS: dict[str, Any] = {'tensorboard': _TensorBoard, 'wandb': _Wandb, 'mlflow': _Mlflow}
