"""Metrics reach TensorBoard, Weights & Biases and MLflow, and no failure there ends a training."""

import json
import logging

import pytest
from tiny_run import tiny

from transformer_jax.data._tensorflow import import_tensorflow
from transformer_jax.errors import UserError
from transformer_jax.training import trackers, train
from transformer_jax.training.trackers import SafeTracker


def written_twice(kind, folder):
    """Write steps 1 to 3, then resume from step 2, as after a kill."""
    for steps in ((1, 2, 3), (3, 4)):
        tracker = SafeTracker(kind, folder, tiny())
        for step in steps:
            tracker.write(step, {'train/loss': 10.0 - step})
        tracker.close()


def test_tensorboard_gets_the_numbers(tmp_path):
    pytest.importorskip('tensorflow', reason='tensorflow is not installed')
    tf = import_tensorflow()
    tracker = SafeTracker('tensorboard', tmp_path)
    tracker.write(5, {'train/loss': 1.5})
    tracker.close()
    (file,) = (tmp_path / 'tensorboard').iterdir()
    values = [
        (event.step, value.tag, float(tf.make_ndarray(value.tensor)))
        for data in tf.data.TFRecordDataset(str(file)).as_numpy_iterator()
        for event in [tf.compat.v1.Event.FromString(data)]
        for value in event.summary.value
    ]
    assert values == [(5, 'train/loss', 1.5)]


def test_mlflow_gets_each_step_once_though_the_run_was_resumed(tmp_path, monkeypatch):
    mlflow = pytest.importorskip('mlflow', reason='mlflow is not installed')
    pytest.importorskip('sqlalchemy', reason='mlflow is installed without its database')
    monkeypatch.setenv('MLFLOW_TRACKING_URI', f'sqlite:///{tmp_path}/mlflow.db')
    (tmp_path / 'run').mkdir()
    written_twice('mlflow', tmp_path / 'run')
    client = mlflow.MlflowClient()
    run = json.loads((tmp_path / 'run' / 'tracker.json').read_text())['mlflow']
    history = client.get_metric_history(run, 'train/loss')
    assert sorted((x.step, x.value) for x in history) == [(n, 10.0 - n) for n in (1, 2, 3, 4)]
    assert client.get_run(run).data.params['model.d_model'] == '16'
    assert client.get_run(run).info.status == 'FINISHED'


def test_wandb_resumes_the_same_run_offline(tmp_path, monkeypatch):
    pytest.importorskip('wandb', reason='wandb is not installed')
    monkeypatch.setenv('WANDB_MODE', 'offline')
    monkeypatch.setenv('WANDB_SILENT', 'true')
    written_twice('wandb', tmp_path)
    name = json.loads((tmp_path / 'tracker.json').read_text())['wandb']
    runs = [path.name for path in (tmp_path / 'wandb').glob('offline-run-*')]
    assert len(runs) == 2 and all(run.endswith(name) for run in runs)


def test_a_failure_is_said_once_and_ends_nothing(tmp_path, monkeypatch, caplog):
    def unreachable(folder, config):
        raise ConnectionError('no route to host')

    monkeypatch.setitem(trackers._TRACKERS, 'mlflow', unreachable)
    caplog.set_level(logging.WARNING, 'transformer_jax')
    tracker = SafeTracker('mlflow', tmp_path)
    for step in (1, 2):
        tracker.write(step, {'train/loss': 1.0})
    tracker.close()
    assert [record.getMessage() for record in caplog.records] == [
        "train.log_to='mlflow' takes no more metrics (ConnectionError: no route to host); "
        'metrics.jsonl has all of them.'
    ]


def test_a_missing_package_is_named_before_the_training(tmp_path, monkeypatch):
    monkeypatch.setattr('importlib.util.find_spec', lambda name: None)
    with pytest.raises(UserError, match=r"train\.log_to='wandb' needs a package: pip install 'tr"):
        train(tiny(train={'log_to': 'wandb'}), tmp_path / 'run')
    assert not list((tmp_path / 'run').glob('*'))
