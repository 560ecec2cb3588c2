"""Metrics reach TensorBoard, Weights & Biases and MLflow, and no failure there ends a training."""

import json
import logging
import time
from importlib.machinery import ModuleSpec

import pytest
from tiny_run import tiny

from transformer_jax.data._tensorflow import import_tensorflow
from transformer_jax.errors import UserError
from transformer_jax.training import train
from transformer_jax.training.logs import trackers
from transformer_jax.training.logs.metrics_writer import MetricsWriter, read_metrics
from transformer_jax.training.logs.trackers import SafeTracker


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(trackers, '_PATIENCE', 60)  # seconds; a database takes some to be made


def written_twice(kind, folder):
    """Write steps 1 to 3, then resume from step 2, as after a kill."""
    for resumed, steps in ((0, (1, 2, 3)), (2, (3, 4))):
        tracker = SafeTracker(kind, folder, tiny())
        writer = MetricsWriter(folder / 'metrics.jsonl', tracker, step=resumed)
        for step in steps:
            writer.write({'step': step, 'kind': 'train', 'loss': 10.0 - step})
        writer.close()


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
    runs = sorted(path.name for path in (tmp_path / 'wandb').glob('offline-run-*'))
    assert len(runs) == 2 and all(run.endswith(name) for run in runs)
    assert [record['step'] for record in read_metrics(tmp_path / 'metrics.jsonl')] == [1, 2, 3, 4]


def test_a_store_that_does_not_know_the_run_gets_a_new_one(tmp_path, monkeypatch):
    mlflow = pytest.importorskip('mlflow', reason='mlflow is not installed')
    pytest.importorskip('sqlalchemy', reason='mlflow is installed without its database')
    monkeypatch.setenv('MLFLOW_TRACKING_URI', f'sqlite:///{tmp_path}/mlflow.db')
    (tmp_path / 'tracker.json').write_text('{"mlflow": "0123456789abcdef0123456789abcdef"}')
    tracker = SafeTracker('mlflow', tmp_path)
    tracker.write(1, {'train/loss': 1.0})
    tracker.close()
    run = json.loads((tmp_path / 'tracker.json').read_text())['mlflow']
    (metric,) = mlflow.MlflowClient().get_metric_history(run, 'train/loss')
    assert (metric.step, metric.value) == (1, 1.0)


def test_a_resumed_run_repeats_no_step(tmp_path, monkeypatch):
    seen = []

    class Recorder:
        def __init__(self, folder, config):
            pass

        def write(self, step, values):
            seen.append((step, values))

        def close(self, failed):
            seen.append(failed)

    monkeypatch.setitem(trackers._TRACKERS, 'mlflow', Recorder)
    written_twice('mlflow', tmp_path)
    steps = [item if isinstance(item, bool) else item[0] for item in seen]
    assert steps == [1, 2, 3, False, 4, False]


def test_a_tracker_that_hangs_holds_nothing_up(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(trackers, '_PATIENCE', 0.1)
    monkeypatch.setitem(trackers._TRACKERS, 'wandb', lambda folder, config: time.sleep(3))
    caplog.set_level(logging.WARNING, 'transformer_jax')
    tracker = SafeTracker('wandb', tmp_path)
    begin = time.monotonic()
    tracker.write(1, {'train/loss': 1.0})
    tracker.close()
    assert time.monotonic() - begin < 2
    assert 'did not take the last metrics' in caplog.text


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


@pytest.mark.parametrize('found', [None, ModuleSpec('wandb', None)], ids=['none', 'a folder'])
def test_a_missing_package_is_named_before_the_training(tmp_path, monkeypatch, found):
    monkeypatch.setattr('importlib.util.find_spec', lambda name: found)
    with pytest.raises(UserError, match=r"train\.log_to='wandb' needs a package: pip install 'tr"):
        train(tiny(train={'log_to': 'wandb'}), tmp_path / 'run')
    assert not list((tmp_path / 'run').glob('*'))
