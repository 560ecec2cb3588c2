"""Where metrics go besides metrics.jsonl: TensorBoard files, Weights & Biases, or MLflow.

metrics.jsonl stays the record of a run. What a tracker fails to take is lost to it alone: the run
goes on.
"""

import functools
import importlib.util
import json
import logging
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from transformer_jax.config import Config
from transformer_jax.errors import UserError, first_line
from transformer_jax.storage.files import atomic_write, read_json

_logger = logging.getLogger('transformer_jax')
_PROJECT = 'transformer_jax'
_IDS = 'tracker.json'


class Tracker(Protocol):
    """Takes the numbers of a step, and is closed at the end."""

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Take numbers by name, such as 'train/loss'."""

    def close(self) -> None:
        """Finish writing."""


def check_installed(kind: str) -> None:
    """Raise UserError if the package of train.log_to is not installed."""
    if kind != 'tensorboard' and importlib.util.find_spec(kind) is None:
        raise UserError(
            f"train.log_to={kind!r} needs a package: pip install 'transformer_jax[{kind}]'."
        )


class SafeTracker:
    """A tracker that is opened for its first numbers, and left out after its first failure.

    Opening takes seconds, and no network or disk of a tracker may end a training.
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

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Pass numbers on."""
        if self._failed:
            return
        try:
            if self._tracker is None:
                self._tracker = self._open()
            self._tracker.write(step, values)
        except Exception as error:  # packages raise many kinds
            self._fail(error)

    def close(self) -> None:
        """Close the tracker, if it was opened."""
        if self._tracker is not None and not self._failed:
            try:
                self._tracker.close()
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
        from transformer_jax.data._tensorflow import import_tensorflow

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

    def close(self) -> None:
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
        # A resumed run repeats the steps after its last checkpoint, with the same numbers.
        self._last = self._run.step - 1 if self._run.resumed else -1

    def write(self, step: int, values: Mapping[str, float]) -> None:
        if step > self._last:
            self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


class _Mlflow:
    """A run of MLflow. MLFLOW_TRACKING_URI and so on hold, as everywhere."""

    def __init__(self, folder: Path, config: Config | None):
        from mlflow import MlflowClient

        self._client = client = MlflowClient()
        name = os.environ.get('MLFLOW_EXPERIMENT_NAME', _PROJECT)

        def new() -> str:
            found = client.get_experiment_by_name(name)
            experiment = found.experiment_id if found else client.create_experiment(name)
            run = client.create_run(experiment, run_name=folder.absolute().name).info.run_id
            for section, fields in ({} if config is None else config.to_dict()).items():
                for field, value in fields.items():
                    client.log_param(run, f'{section}.{field}', value)
            return run

        self._run = _own_id(folder, 'mlflow', new)
        client.update_run(self._run, status='RUNNING')
        self._written: dict[str, int] = {}

    def write(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            if name not in self._written:
                # A resumed run repeats the steps after its last checkpoint, with the same numbers.
                history = self._client.get_metric_history(self._run, name)
                self._written[name] = max((metric.step for metric in history), default=-1)
            if step > self._written[name]:
                self._client.log_metric(self._run, name, value, step=step)
                self._written[name] = step

    def close(self) -> None:
        self._client.set_terminated(self._run)


def _own_id(folder: Path, kind: str, new: Any) -> str:
    """Return the id of this run in a tracker, which a resumed run finds in its folder."""
    path = folder / _IDS
    try:
        ids = read_json(path, {str: str})
    except (OSError, ValueError):
        ids = {}
    if kind not in ids:
        ids[kind] = new()
        with atomic_write(path) as file:
            json.dump(ids, file)
    return ids[kind]


_TRACKERS: dict[str, Any] = {'tensorboard': _TensorBoard, 'wandb': _Wandb, 'mlflow': _Mlflow}
