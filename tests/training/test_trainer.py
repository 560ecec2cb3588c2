"""Promises 5 and 7: a run that was stopped ends with the same bytes as one that was not."""

import dataclasses
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from tiny_run import config_file, on_devices, remembered, tiny

from transformer_jax.checkpointing.manager import Checkpoints
from transformer_jax.data.prepare import prepare
from transformer_jax.errors import UserError
from transformer_jax.inference.load import load_trained
from transformer_jax.runtime import memory
from transformer_jax.runtime.signals import Stopped, stop_if_requested
from transformer_jax.storage.workdir import Workdir
from transformer_jax.training import device_batches, trainer
from transformer_jax.training.metrics_writer import read_metrics
from transformer_jax.training.preflight import CompileCounter
from transformer_jax.training.trainer import train

pytestmark = pytest.mark.usefixtures('programs_kept')
ONE_SHAPE = {'num_buckets': 1}  # for models that no other test compiles


def stop_at(monkeypatch, batch):
    """Has the next run stop as by Ctrl-C when it asks for its `batch`-th batch."""
    asked = iter(range(1, 10_000))
    lay = device_batches.shard_batch

    def shard_batch(*args):
        if next(asked) == batch:
            raise KeyboardInterrupt
        return lay(*args)

    monkeypatch.setattr(device_batches, 'shard_batch', shard_batch)


def test_stopped_twice_and_resumed_ends_with_the_same_bytes(uninterrupted, tmp_path, monkeypatch):
    for batch in (9, 6):  # between checkpoints, before and after the first evaluation
        stop_at(monkeypatch, batch)
        with pytest.raises(KeyboardInterrupt):
            train(tiny(), tmp_path)
        monkeypatch.undo()
    train(tiny(), tmp_path)
    assert remembered(tmp_path) == remembered(uninterrupted)
    # Of a window that a stop has cut, the speed is that of the steps that were timed.
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
    assert caplog.text.count('metrics go to metrics.jsonl alone') == 1


def test_all_regularisation_resumes_to_the_byte_as_well(tmp_path, monkeypatch):
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


def test_killed_outright_and_resumed_ends_with_the_same_bytes(uninterrupted, tmp_path):
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
    # Killed while a checkpoint is being written: its folder is there under its temporary name.
    while process.poll() is None and time.monotonic() < deadline:
        if list((workdir / 'checkpoints').glob('*')):
            break
        time.sleep(0.001)
    assert list((workdir / 'checkpoints').glob('*')), 'no save had begun'
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    train(tiny(), workdir)
    assert remembered(workdir) == remembered(uninterrupted)


def test_longer_training_goes_on_as_if_it_had_been_meant_from_the_start(uninterrupted, tmp_path):
    train(tiny(train={'steps': 9, 'eval_every': 3}), tmp_path)
    train(tiny(), tmp_path)
    assert remembered(tmp_path)[1] == remembered(uninterrupted)[1]


def test_a_finished_run_shows_its_results_and_trains_no_more(uninterrupted, monkeypatch):
    monkeypatch.setattr(trainer, 'prepare', None)  # so that any work would fail
    assert train(tiny(), uninterrupted) == Workdir(uninterrupted).read_results()


def test_a_finished_run_whose_files_have_other_names_looks_into_them(uninterrupted, monkeypatch):
    class LookedIntoError(Exception):
        pass

    def prepare(*_):
        raise LookedIntoError

    monkeypatch.setattr(trainer, 'prepare', prepare)
    with pytest.raises(LookedIntoError):
        train(tiny(data={'vocabulary': 'other.model'}), uninterrupted)


def test_results_hold_scores_signatures_and_examples(uninterrupted):
    results = Workdir(uninterrupted).read_results()
    assert results['step'] == 12
    assert results['averaged_checkpoints'] == [9, 12]
    assert results['test']['sentences'] == 8
    assert 'tok:13a' in results['test']['bleu_signature']
    assert results['best_dev']['step'] in (6, 12)
    assert results['examples'][-1]['source'].startswith('The black cat sat on the couch')


def test_metrics_are_of_every_window_and_evaluation(uninterrupted):
    records = read_metrics(Workdir(uninterrupted).metrics)
    assert [(r['kind'], r['step']) for r in records] == [
        ('train', 5),
        ('dev', 6),
        ('train', 10),
        ('train', 12),
        ('dev', 12),
    ]


def test_early_stopping_ends_the_run_and_stays_ended(tmp_path, monkeypatch, caplog):
    def score(*_, target_language):
        assert target_language == config.data.target_language
        return trainer.Scores(2.0, 'tok:13a', 1.0, '')  # never better than the first

    monkeypatch.setattr(trainer, 'score', score)
    config = tiny(train={'patience': 1, 'steps': 100, 'eval_every': 3})
    assert train(config, tmp_path)['step'] == 12  # the first after the warm-up
    (tmp_path / 'results.json').unlink()
    assert train(config, tmp_path)['step'] == 12
    assert 'train.patience=1 has run out' in caplog.text


@pytest.mark.parametrize(
    ('bleu', 'loss', 'ends'),
    [
        ([5.0, 6.0, 5.0], [3.0, 2.0, 1.0], True),  # a lower loss no longer counts
        ([0.0, 0.1, 0.0], [3.0, 2.0, 1.0], False),
        ([0.0, 0.1, 0.0], [3.0, 2.0, 2.0], True),
        ([5.0, 6.0, 7.0], [1.0, 2.0, 3.0], False),
    ],
)
def test_patience_asks_for_a_better_bleu_or_while_there_is_none_a_better_loss(bleu, loss, ends):
    records = [
        {'kind': 'dev', 'step': 20 + k, 'bleu': x, 'loss': y}
        for k, (x, y) in enumerate(zip(bleu, loss, strict=True))
    ]
    config = tiny(train={'patience': 1})
    run = SimpleNamespace(config=config, metrics=SimpleNamespace(records=records))
    assert trainer._Run._out_of_patience(run) == ends


def test_a_run_may_end_before_its_first_evaluation(tmp_path, monkeypatch):
    best = {'decode': {'beam_size': 2, 'average_checkpoints': 1, 'average': 'best'}}
    stop_at(monkeypatch, 5)
    with pytest.raises(KeyboardInterrupt):
        train(tiny(**best), tmp_path)
    monkeypatch.undo()
    results = train(tiny(**best, train={'steps': 3}), tmp_path)
    assert (results['step'], results['averaged_checkpoints']) == (3, [3])


def test_a_signal_during_the_last_step_leaves_the_scoring_to_the_next_start(tmp_path, monkeypatch):
    evaluate = trainer._Run._evaluate

    def evaluated(run, step):
        os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(run, step)

    monkeypatch.setattr(trainer._Run, '_evaluate', evaluated)
    with pytest.raises(Stopped, match='Stopped by SIGTERM after step 6, the last'):
        train(tiny(train={'steps': 6}), tmp_path)
    monkeypatch.undo()
    assert not (tmp_path / 'results.json').exists()
    assert train(tiny(train={'steps': 6}), tmp_path)['step'] == 6


def test_a_run_begins_with_the_weights_and_the_vocabulary_of_another(uninterrupted, tmp_path):
    config = tiny(
        data=ONE_SHAPE | {'train_size': 300},  # whose own vocabulary would be another
        optimizer={'learning_rate_scale': 1e-9},
        train={'steps': 2, 'init_from': str(uninterrupted)},
        mesh={'fsdp': 2},
    )
    train(config, tmp_path)
    (_, there, weights, _), (_, here, trained, _) = map(load_trained, (uninterrupted, tmp_path))
    assert here.digest == there.digest
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-7), trained, weights)
    before, *_, after = (r for r in read_metrics(tmp_path / 'metrics.jsonl') if r['kind'] == 'dev')
    assert (before['step'], before['bleu']) == (0, after['bleu'])
    assert before['loss'] == pytest.approx(after['loss'], rel=1e-5)


def test_a_run_begun_from_another_resumes_to_the_byte_without_it(
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


def test_fewer_steps_than_there_are_do_not_shorten_a_run(uninterrupted, tmp_path, caplog):
    shutil.copytree(uninterrupted, tmp_path / 'run')
    steps = tiny().train.steps
    assert train(tiny(train={'steps': steps - 1}), tmp_path / 'run')['step'] == steps
    assert f'The run has {steps} steps already, more than train.steps={steps - 1}' in caplog.text


def test_a_vocabulary_that_cannot_write_the_references_is_said(tmp_path, caplog):
    source, target = tmp_path / 'train.en', tmp_path / 'train.zh'
    source.write_text(''.join(f'hello {n}\n' for n in range(200)))
    target.write_text(''.join(f'你好，世界 {n}！\n' for n in range(200)), encoding='utf-8')
    data = {
        'corpus': 'files',
        'target_language': 'zh',
        'train_source': str(source),
        'train_target': str(target),
        'dev_size': 10,
        'test_size': 10,
        'train_size': 1,
        'vocab_size': 300,
    }
    train(tiny(data=ONE_SHAPE | data, train={'steps': 1}), tmp_path / 'run')
    assert re.search(r"writes '你好,世界 \d+!' for '你好，世界 \d+！': its", caplog.text)
    assert re.search(r'a BLEU of \d\d\.\d on dev, not 100\. One trained with data\.', caplog.text)


def test_a_model_whose_state_does_not_fit_is_refused_before_it_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(trainer, 'initial_state', None)
    monkeypatch.setattr(trainer, 'device_memory', lambda device: 10_000)
    with pytest.raises(UserError, match=r'make [\d,]+ parameters, which with the moments of Adam'):
        train(tiny(), tmp_path)


def test_a_damaged_checkpoint_is_put_aside_and_made_again(uninterrupted, tmp_path):
    train(tiny(train={'steps': 9}), tmp_path)
    for file in (tmp_path / 'checkpoints' / '9').rglob('*'):
        if file.is_file():
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    train(tiny(), tmp_path)
    assert remembered(tmp_path)[1] == remembered(uninterrupted)[1]
    assert (tmp_path / 'checkpoints.damaged' / '9').is_dir()


def test_nothing_is_compiled_once_training_has_begun(uninterrupted):
    # Of the run's own counter, which does count:
    counter = CompileCounter()
    jax.jit(lambda x: x * 3 + 14159)(1)
    assert counter.lap() == 1
    assert [r['compilations'] for r in read_metrics(Workdir(uninterrupted).metrics)] == [0] * 5


def test_a_loss_that_is_not_finite_stops_the_run_and_says_where(tmp_path):
    config = tiny(optimizer={'learning_rate_scale': 1e30})
    with pytest.raises(UserError, match=r'step 2 was not finite \(learning rate .*, batch 1 of'):
        train(config, tmp_path)
    # Step 1, still sound, was not yet due to be saved; nothing of what came after is.
    assert not Checkpoints(tmp_path / 'checkpoints', read_only=True).steps()


def test_steps_that_are_not_finite_can_be_skipped(tmp_path, caplog):
    config = tiny(optimizer={'learning_rate_scale': 1e30}, train={'on_nonfinite': 'skip'})
    train(config, tmp_path)
    records = [r for r in read_metrics(tmp_path / 'metrics.jsonl') if r['kind'] == 'train']
    assert sum(r['skipped_steps'] for r in records) == 11
    assert 'Skipped 4 steps: the loss or the gradient of step 2 was not finite' in caplog.text


def test_a_second_run_on_one_workdir_is_refused(uninterrupted):
    with (
        Workdir(uninterrupted).locked(),
        pytest.raises(UserError, match=f'is in use by another run .process {os.getpid()} on '),
    ):
        train(tiny(train={'steps': 20}), uninterrupted)
    train(tiny(), uninterrupted)  # no lock outlives its holder


@pytest.mark.parametrize(
    ('number', 'step'),
    [(signal.SIGTERM, 5), (signal.SIGINT, 5), (signal.SIGTERM, 6)],  # 6 is one to be evaluated
)
def test_a_signal_saves_the_step_at_hand(tmp_path, uninterrupted, monkeypatch, number, step):
    lay, asked = device_batches.shard_batch, iter(range(100))

    def shard_batch(*args):
        if next(asked) == step:  # a batch is laid out one step ahead
            os.kill(os.getpid(), number)
        return lay(*args)

    monkeypatch.setattr(device_batches, 'shard_batch', shard_batch)
    with pytest.raises(Stopped, match=f'Stopped by {number.name} after step {step} of 12'):
        train(tiny(), tmp_path)
    assert Checkpoints(tmp_path / 'checkpoints', read_only=True).steps()[-1] == step
    train(tiny(), tmp_path)
    assert remembered(tmp_path) == remembered(uninterrupted)


@pytest.mark.parametrize('step', [6, 12])  # the last, too
def test_a_stop_in_an_evaluation_saves_the_step_and_puts_the_evaluation_off(
    tmp_path, uninterrupted, monkeypatch, step
):
    with monkeypatch.context() as patch:
        patch.setattr(
            trainer,
            'score',
            lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM) or stop_if_requested(),
        )
        config = tiny(train={'eval_every': step, 'checkpoint_every': 3})
        with pytest.raises(Stopped, match=f'Stopped by SIGTERM after step {step}'):
            train(config, tmp_path)
    checkpoints = Checkpoints(tmp_path / 'checkpoints', read_only=True)
    assert checkpoints.steps()[-1] == step and checkpoints.scores.bleu(step) is None
    train(config, tmp_path)
    whole = tmp_path / 'whole' if step == 12 else uninterrupted
    if step == 12:
        train(config, whole)
    assert remembered(tmp_path) == remembered(whole)
    if step == 12:  # the other is not kept
        assert Checkpoints(tmp_path / 'checkpoints', read_only=True).scores.bleu(12) is not None


def test_scores_that_a_kill_kept_from_a_checkpoint_are_added(uninterrupted, tmp_path):
    run = shutil.copytree(uninterrupted, tmp_path / 'run')
    shutil.rmtree(run / 'checkpoints' / '12' / 'scores')
    (run / 'results.json').unlink()
    train(tiny(), run)
    assert Checkpoints(run / 'checkpoints', read_only=True).scores.bleu(12) is not None
    assert remembered(run) == remembered(uninterrupted)


def test_references_out_of_reach_and_outputs_cut_are_counted(tmp_path, caplog):
    config = tiny(data=ONE_SHAPE, train={'steps': 1}, decode={'max_extra_length': 0})
    results = train(config, tmp_path)
    assert re.search(r'max_extra_length=0 .*: \d+ of 400 \(train\), \d of 8 \(dev\), ', caplog.text)
    assert 0 < results['test']['cut_outputs'] <= 8
    assert 'outputs ended at the limit of max_extra_length=0' in caplog.text


def test_a_disk_that_is_full_is_said_and_costs_nothing(
    tmp_path, uninterrupted, monkeypatch, small_disk
):
    train(tiny(train={'steps': 6}), tmp_path)
    train_steps = trainer._Run._train

    def limited(*args):
        restore = small_disk()
        try:
            return train_steps(*args)
        finally:
            time.sleep(1.0)  # what still writes in other threads is to meet the full disk, too
            restore()

    monkeypatch.setattr(trainer._Run, '_train', limited)
    with pytest.raises(UserError, match=r'cannot be written any more \(File too large\)'):
        train(tiny(), tmp_path)
    monkeypatch.undo()
    train(tiny(), tmp_path)
    assert remembered(tmp_path)[1] == remembered(uninterrupted)[1]


def test_a_shape_too_large_for_the_device_is_refused_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr(trainer, 'device_memory', lambda device, held=(): 10_000 if held else None)
    with pytest.raises(UserError, match=r'tokens_per_batch=512 .* MiB on a device of 0.01'):
        train(tiny(), tmp_path)
    monkeypatch.undo()
    # The remedy works in the same folder.
    smaller = tiny(data={'num_buckets': 1}, train={'steps': 1})
    assert train(smaller, tmp_path)['step'] == 1


def test_a_test_set_that_cannot_be_scored_is_refused_before_training(tmp_path, monkeypatch):
    def with_long_test(*args):
        return dataclasses.replace(prepare(*args), test=[('the cat ' * 200, 'le chat ' * 200)])

    monkeypatch.setattr(trainer, 'prepare', with_long_test)
    monkeypatch.setattr(memory, 'CHECK_FROM_TOKENS', 256)
    monkeypatch.setattr(memory, 'device_memory', lambda device: 10_000)
    with pytest.raises(UserError, match=r"^pair 1 of the test set, which begins 'the cat"):
        train(tiny(), tmp_path)
    assert not (tmp_path / 'config.json').exists()


def test_parts_of_batches_that_are_empty_are_said(tmp_path, caplog):
    config = tiny(data=ONE_SHAPE, train={'steps': 1, 'accumulate_steps': 16})
    train(config, tmp_path)
    assert re.search(
        r'train\.accumulate_steps=16 cuts batches of \d+ .* into 128 parts', caplog.text
    )


def test_a_state_that_goes_on_is_alone_in_memory(uninterrupted, tmp_path, monkeypatch):
    shutil.copytree(uninterrupted, tmp_path / 'run')
    monkeypatch.setattr(trainer, 'initial_state', None)
    assert train(tiny(train={'steps': 15}), tmp_path / 'run')['step'] == 15


def test_a_window_without_a_step_has_no_loss(tmp_path):
    config = tiny(optimizer={'learning_rate_scale': 1e30}, train={'on_nonfinite': 'skip'})
    train(config, tmp_path)
    first, *rest = [r for r in read_metrics(tmp_path / 'metrics.jsonl') if r['kind'] == 'train']
    assert first['loss'] > 0 and first['target_tokens'] > 0
    for record in rest:
        assert record['target_tokens'] == 0 and 'loss' not in record and 'nll' not in record


def test_steps_skipped_before_do_not_stop_a_run_that_is_to_skip_no_more(tmp_path, monkeypatch):
    hot = {'learning_rate_scale': 1e30}
    config = tiny(optimizer=hot, train={'on_nonfinite': 'skip', 'log_every': 100})
    stop_at(monkeypatch, 6)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path)
    monkeypatch.undo()
    begun = Checkpoints(tmp_path / 'checkpoints', read_only=True).steps()[-1]
    # The next one is told, and none that was skipped when that was right.
    config = tiny(optimizer=hot, train={'log_every': 100})
    with pytest.raises(UserError, match=f'of step {begun + 1} was not finite'):
        train(config, tmp_path)


def test_a_mesh_that_does_not_fit_leaves_the_folder_to_the_next_try(tmp_path):
    with pytest.raises(UserError, match=r'mesh\.tensor=4 does not divide model\.num_heads=2'):
        train(tiny(mesh={'tensor': 4}), tmp_path)
    assert not list(tmp_path.iterdir())
