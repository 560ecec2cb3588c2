"""A run as a whole: its results, its metrics, its folder."""

import os
import shutil

import jax
import pytest
from closeness import assert_close
from tiny_run import tiny

from transformer_jax.errors import UserError
from transformer_jax.inference.load import load_trained
from transformer_jax.runtime.compile_counter import CompileCounter
from transformer_jax.storage.workdir import Workdir
from transformer_jax.training import train, trainer
from transformer_jax.training.logs.metrics_writer import read_metrics

pytestmark = pytest.mark.usefixtures('programs_kept')
ONE_SHAPE = {'num_buckets': 1}  # for models that no other test compiles


def test_a_finished_run_returns_its_results_and_does_no_work(uninterrupted, monkeypatch):
    monkeypatch.setattr(trainer, 'prepare', None)  # so that any work would fail
    assert train(tiny(), uninterrupted) == Workdir(uninterrupted).read_results()


def test_a_finished_run_whose_data_settings_changed_reads_its_data(uninterrupted, monkeypatch):
    class DataReadError(Exception):
        pass

    def prepare(*_):
        raise DataReadError

    monkeypatch.setattr(trainer, 'prepare', prepare)
    with pytest.raises(DataReadError):
        train(tiny(data={'vocabulary': 'other.model'}), uninterrupted)


def test_results_hold_scores_signatures_and_examples(uninterrupted):
    results = Workdir(uninterrupted).read_results()
    assert results['step'] == 12
    assert results['averaged_checkpoints'] == [9, 12]
    assert results['test']['sentences'] == 8
    assert 'tok:13a' in results['test']['bleu_signature']
    assert results['best_dev']['step'] in (6, 12)
    assert results['examples'][-1]['source'].startswith('The black cat sat on the couch')


def test_metrics_have_a_record_for_every_window_and_evaluation(uninterrupted):
    records = read_metrics(Workdir(uninterrupted).metrics)
    assert [(r['kind'], r['step']) for r in records] == [
        ('train', 5),
        ('dev', 6),
        ('train', 10),
        ('train', 12),
        ('dev', 12),
    ]


def test_a_run_starts_with_the_weights_and_the_vocabulary_of_another(uninterrupted, tmp_path):
    config = tiny(
        data=ONE_SHAPE | {'train_size': 300},  # whose own vocabulary would be another
        optimizer={'learning_rate_scale': 1e-9},
        train={'steps': 2, 'init_from': str(uninterrupted)},
        mesh={'fsdp': 2},
    )
    train(config, tmp_path)
    (_, there, weights, _), (_, here, trained, _) = map(load_trained, (uninterrupted, tmp_path))
    assert here.digest == there.digest
    jax.tree.map(assert_close, trained, weights)
    before, *_, after = (r for r in read_metrics(tmp_path / 'metrics.jsonl') if r['kind'] == 'dev')
    assert (before['step'], before['bleu']) == (0, after['bleu'])
    assert before['loss'] == pytest.approx(after['loss'], rel=1e-5)


def test_fewer_steps_than_were_taken_do_not_shorten_a_run(uninterrupted, tmp_path, caplog):
    shutil.copytree(uninterrupted, tmp_path / 'run')
    steps = tiny().train.steps
    assert train(tiny(train={'steps': steps - 1}), tmp_path / 'run')['step'] == steps
    assert f'The run has {steps} steps already, more than train.steps={steps - 1}' in caplog.text


def test_nothing_is_compiled_while_training(uninterrupted):
    counter = CompileCounter()
    jax.jit(lambda x: x * 3 + 14159)(1)
    assert counter.new() == 1
    assert [r['compilations'] for r in read_metrics(Workdir(uninterrupted).metrics)] == [0] * 5


def test_a_second_run_on_one_workdir_is_refused(uninterrupted):
    with (
        Workdir(uninterrupted).locked(),
        pytest.raises(UserError, match=f'is in use by another run .process {os.getpid()} on '),
    ):
        train(tiny(train={'steps': 20}), uninterrupted)
    train(tiny(), uninterrupted)  # no lock outlives its holder


def test_a_mesh_that_does_not_fit_leaves_the_folder_to_the_next_try(tmp_path):
    with pytest.raises(UserError, match=r'mesh\.tensor=4 does not divide model\.num_heads=2'):
        train(tiny(mesh={'tensor': 4}), tmp_path)
    assert not list(tmp_path.iterdir())
