"""Promises 5 and 7: a run that was stopped ends with the same bytes as one that was not."""

import shutil
import signal
import subprocess
import sys
import time

import pytest
from tiny_run import config_file, on_devices, remembered, stop_at, tiny

from transformer_jax.checkpointing.manager import Checkpoints
from transformer_jax.errors import UserError
from transformer_jax.storage.workdir import Workdir
from transformer_jax.training import run, train, trainer
from transformer_jax.training.logs.metrics_writer import read_metrics

pytestmark = pytest.mark.usefixtures('programs_kept')
ONE_SHAPE = {'num_buckets': 1}  # for models that no other test compiles


def test_stopped_twice_and_resumed_ends_with_the_same_bytes(uninterrupted, tmp_path, monkeypatch):
    for batch in (9, 6):  # between checkpoints, before and after the first evaluation
        stop_at(monkeypatch, batch)
        with pytest.raises(KeyboardInterrupt):
            train(tiny(), tmp_path)
        monkeypatch.undo()
    train(tiny(), tmp_path)
    assert remembered(tmp_path) == remembered(uninterrupted)
    # The speed of a window that a stop has cut counts only steps of this process.
    record = next(r for r in read_metrics(Workdir(tmp_path).metrics) if r['step'] == 10)
    timed = record['target_tokens_per_second'] * record['seconds']
    assert 0 < timed < 0.9 * record['target_tokens']


def test_without_tensorflow_the_run_ends_with_the_same_bytes(
    uninterrupted, tmp_path, monkeypatch, caplog
):
    for module in ('tensorflow', 'tensorflow_datasets', 'importlib_resources'):
        monkeypatch.setitem(sys.modules, module, None)  # as where none is installed
    train(tiny(), tmp_path)
    assert remembered(tmp_path) == remembered(uninterrupted)
    assert caplog.text.count('a plain thread feeds the batches') == 1
    assert caplog.text.count('metrics go to metrics.jsonl only') == 1


def test_with_all_regularisation_a_resumed_run_ends_with_the_same_bytes(tmp_path, monkeypatch):
    config = tiny(
        model={'attention_dropout_rate': 0.1, 'activation_dropout_rate': 0.1},
        data=ONE_SHAPE | {'subword_sampling': 0.1},
        optimizer={'r_drop': 5.0, 'ema_decay': 0.9, 'weight_decay': 0.1},
    )
    train(config, tmp_path / 'whole')
    stop_at(monkeypatch, 9)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / 'stopped')
    monkeypatch.undo()
    train(config, tmp_path / 'stopped')
    assert remembered(tmp_path / 'stopped') == remembered(tmp_path / 'whole')


@pytest.mark.slow
@pytest.mark.parametrize(
    'changes',
    [
        {
            'optimizer': {'schedule': 'cosine', 'learning_rate': 1e-3, 'clip_norm': 0.5},
            'train': {'epochs': 2},
            'data': {'sentences_per_batch': 96, 'num_buckets': 1},
        }
    ],
)
def test_a_run_by_epochs_and_sentences_resumes_to_the_same_bytes(tmp_path, monkeypatch, changes):
    whole, stopped = tmp_path / 'whole', tmp_path / 'stopped'
    train(tiny(**changes), whole)
    config = Workdir(whole).read_run().config
    assert config.train.steps == 2 * -(-400 // 96) == Workdir(whole).read_results()['step']
    with monkeypatch.context() as context:
        stop_at(context, 5)
        with pytest.raises(KeyboardInterrupt):
            train(tiny(**changes), stopped)
    train(tiny(**changes), stopped)
    assert remembered(whole) == remembered(stopped)
    # A finished run does no work, though its steps are those of its data.
    monkeypatch.setattr(trainer, 'prepare', None)
    assert train(tiny(**changes), whole) == Workdir(whole).read_results()


def test_killed_by_sigkill_and_resumed_ends_with_the_same_bytes(uninterrupted, tmp_path):
    config = config_file(tmp_path / 'config.py', tiny())
    workdir = tmp_path / 'run'
    process = subprocess.Popen(
        [
            sys.executable,
            '-m',
            'transformer_jax.main',
            f'--config={config}',
            f'--workdir={workdir}',
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=on_devices(8),
    )
    deadline = time.monotonic() + 240
    # The kill comes while a checkpoint is written: its folder exists under a temporary name.
    while process.poll() is None and time.monotonic() < deadline:
        if list((workdir / 'checkpoints').glob('*')):
            break
        time.sleep(0.001)
    assert list((workdir / 'checkpoints').glob('*')), 'no save had begun'
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    train(tiny(), workdir)
    assert remembered(workdir) == remembered(uninterrupted)


def test_a_run_made_longer_ends_with_the_bytes_of_one_that_was_long_at_once(
    uninterrupted, tmp_path
):
    train(tiny(train={'steps': 9, 'eval_every': 3}), tmp_path)
    train(tiny(), tmp_path)
    assert remembered(tmp_path)[1] == remembered(uninterrupted)[1]


def test_a_run_started_from_another_resumes_without_it_to_the_same_bytes(
    uninterrupted, tmp_path, monkeypatch
):
    origin = shutil.copytree(uninterrupted, tmp_path / 'origin')
    train_options = {'init_from': str(origin)}
    config = tiny(data=ONE_SHAPE, optimizer={'ema_decay': 0.9}, train=train_options)
    train(config, tmp_path / 'whole')
    for batch in (2, 9):  # before the first checkpoint, and between two
        stop_at(monkeypatch, batch)
        with pytest.raises(KeyboardInterrupt):
            train(config, tmp_path / 'stopped')
        monkeypatch.undo()
    shutil.rmtree(origin)
    train(config, tmp_path / 'stopped')
    assert remembered(tmp_path / 'stopped') == remembered(tmp_path / 'whole')


def test_a_damaged_checkpoint_is_set_aside_and_trained_again(uninterrupted, tmp_path):
    train(tiny(train={'steps': 9}), tmp_path)
    for file in (tmp_path / 'checkpoints' / '9').rglob('*'):
        if file.is_file():
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    train(tiny(), tmp_path)
    assert remembered(tmp_path)[1] == remembered(uninterrupted)[1]
    assert (tmp_path / 'checkpoints.damaged' / '9').is_dir()


def test_scores_missing_from_a_checkpoint_after_a_kill_are_added(uninterrupted, tmp_path):
    run = shutil.copytree(uninterrupted, tmp_path / 'run')
    shutil.rmtree(run / 'checkpoints' / '12' / 'scores')
    (run / 'results.json').unlink()
    train(tiny(), run)
    assert Checkpoints(run / 'checkpoints', read_only=True).scores.quality(12) is not None
    assert remembered(run) == remembered(uninterrupted)


def test_a_full_disk_ends_the_run_and_loses_nothing(
    tmp_path, uninterrupted, monkeypatch, small_disk
):
    train(tiny(train={'steps': 6}), tmp_path)
    fit = trainer.fit

    def limited(*args):
        restore = small_disk()
        try:
            return fit(*args)
        finally:
            time.sleep(1.0)  # threads that still write should meet the full disk too
            restore()

    monkeypatch.setattr(trainer, 'fit', limited)
    with pytest.raises(UserError, match=r'cannot be written any more \(File too large\)'):
        train(tiny(), tmp_path)
    monkeypatch.undo()
    train(tiny(), tmp_path)
    assert remembered(tmp_path)[1] == remembered(uninterrupted)[1]


def test_a_resumed_run_does_not_allocate_a_fresh_state(uninterrupted, tmp_path, monkeypatch):
    shutil.copytree(uninterrupted, tmp_path / 'run')
    monkeypatch.setattr(run, 'initial_state', None)  # so that making it would fail
    assert train(tiny(train={'steps': 15}), tmp_path / 'run')['step'] == 15
