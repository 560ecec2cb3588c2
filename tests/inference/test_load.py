"""Promise 8: a work directory is all that loading a trained model needs, or a message says why."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from tiny_run import TEXTS

from transformer_jax.checkpointing.manager import Checkpoints
from transformer_jax.data.phrasebook import corpus as phrasebook
from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.errors import UserError
from transformer_jax.inference.load import load_trained
from transformer_jax.storage.workdir import Workdir
from transformer_jax.translator import Translator

pytestmark = pytest.mark.usefixtures('programs_kept')


def test_a_moved_workdir_translates_as_before(translator, workdir, tmp_path):
    shutil.copytree(workdir, tmp_path / 'elsewhere')
    assert Translator.load(tmp_path / 'elsewhere')(TEXTS) == translator(TEXTS)


def test_parameters_are_the_mean_of_the_latest_checkpoints(translator, workdir):
    assert translator.steps == [60, 120]
    last = Translator.load(workdir, checkpoints=1)
    assert last.steps == [120]
    mean, newest = (
        t.network.params[0]['decoder']['layer_0']['self_attention']['query']
        for t in (translator, last)
    )
    assert not np.array_equal(mean, newest)


@pytest.mark.parametrize(
    'options, sentence',
    [
        ({'average': 'latst'}, "average='latst' must be 'latest' or 'best'."),
        ({'checkpoints': 1.5}, 'checkpoints=1.5 must be a whole number from 1 to 1,000,000.'),
        (
            {'checkpoints': 10**12},
            'checkpoints=1000000000000 must be a whole number from 1 to 1,000,000',
        ),
        ({'steps': []}, 'name the steps of at least one checkpoint'),
        ({'steps': [60], 'checkpoints': 2}, 'steps=[60] with checkpoints=2: name the steps'),
        ({'steps': 60}, 'steps=60 must be a list of steps, for example [60].'),
        ({'steps': [61]}, 'steps=61 are not all saved in'),
    ],
)
def test_a_bad_choice_of_checkpoints_is_refused(workdir, options, sentence):
    with pytest.raises(UserError) as error:
        Translator.load(workdir, **options)
    assert sentence in str(error.value)


@pytest.mark.parametrize('size, known', [(500, True), (400, False)])
def test_the_vocabulary_of_another_run_is_refused(workdir, tmp_path, size, known):
    run = Workdir(shutil.copytree(workdir, tmp_path / 'run'))
    if not known:  # runs of an earlier version did not record the digest
        saved = json.loads((run.path / 'config.json').read_text())
        del saved['vocabulary_digest']
        (run.path / 'config.json').write_text(json.dumps(saved))
    other = phrasebook.generate(seed=9, train=2000, dev=0, test=0)['train']
    Vocabulary.train([text for pair in other for text in pair], size=size).save(run.vocabulary)
    with pytest.raises(UserError, match=r'is not the vocabulary with which the model was'):
        Translator.load(run.path)


def test_a_damaged_checkpoint_is_left_out_with_a_warning(workdir, tmp_path, caplog):
    shutil.copytree(workdir, tmp_path / 'run')
    for file in (tmp_path / 'run' / 'checkpoints' / '120').rglob('*'):
        if file.is_file():
            file.write_bytes(b'')
    assert Translator.load(tmp_path / 'run').steps == [60]
    assert 'The checkpoint of step 120 is damaged' in caplog.text


def test_if_the_latest_is_damaged_an_older_checkpoint_is_taken(workdir, tmp_path, caplog):
    run = shutil.copytree(workdir, tmp_path / 'run')
    saved = json.loads((run / 'config.json').read_text())
    saved['config']['train']['checkpoint_every'] = 20  # so that 60 and 120 are apart
    (run / 'config.json').write_text(json.dumps(saved))
    for file in (run / 'checkpoints' / '120').rglob('*'):
        if file.is_file():
            file.write_bytes(b'')
    assert Translator.load(run).steps == [60]
    assert 'The checkpoint of step 120 is damaged' in caplog.text


def test_if_the_requested_checkpoints_are_damaged_the_message_lists_the_others(workdir, tmp_path):
    run = shutil.copytree(workdir, tmp_path / 'run')
    for file in (run / 'checkpoints' / '120').rglob('*'):
        if file.is_file():
            file.write_bytes(b'')
    with pytest.raises(UserError, match=r'those of steps 120 are damaged\. .* --steps=60\.$'):
        load_trained(run, steps=[120])


def with_config(workdir, folder, section, **changes):
    """Return a copy of a run with other values in its config.json."""
    run = shutil.copytree(workdir, folder / 'run')
    saved = json.loads((run / 'config.json').read_text())
    saved['config'][section] |= changes
    (run / 'config.json').write_text(json.dumps(saved))
    return run


@pytest.mark.parametrize(
    ('changes', 'array'),
    [
        ({'num_layers': 2}, r'decoder/layer_1/\S+ is missing and should be float32'),
        ({'num_heads': 4}, r'is float32 \[32, 2, 16\] and should be float32 \[32, 4, 8\]'),
        ({'output_bias': True}, 'output_bias is missing'),
    ],
)
def test_weights_that_do_not_fit_the_config_are_refused_by_name(workdir, tmp_path, changes, array):
    run = with_config(workdir, tmp_path, 'model', **changes)
    with pytest.raises(UserError, match=f'does not fit its checkpoints: .*{array}'):
        Translator.load(run)


def test_weights_that_the_config_does_not_have_are_refused_by_name(workdir, tmp_path):
    _, _, weights, _ = load_trained(workdir)
    run = shutil.copytree(workdir, tmp_path / 'run')
    shutil.rmtree(run / 'checkpoints')
    manager = Checkpoints(run / 'checkpoints')
    manager.save_weights(120, weights | {'more': np.zeros(2, np.float32)})
    manager.close()
    with pytest.raises(UserError, match="its checkpoints: there is 'more' as well"):
        Translator.load(run)


@pytest.mark.parametrize('value', [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(workdir, tmp_path, value):
    _, _, weights, _ = load_trained(workdir)
    run = shutil.copytree(workdir, tmp_path / 'run')
    shutil.rmtree(run / 'checkpoints')
    weights['embedding'][3, 3] = value
    manager = Checkpoints(run / 'checkpoints')
    manager.save_weights(120, weights)
    manager.close()
    with pytest.raises(UserError, match='embedding has values that are not finite in the mean of'):
        Translator.load(run)


@pytest.mark.parametrize('made', [False, True])
def test_an_untrained_workdir_is_refused(tmp_path, made):
    folder = tmp_path / 'run'
    if made:
        folder.mkdir()
    with pytest.raises(UserError, match='holds no trained model: train one there first'):
        Translator.load(folder)


def test_without_a_dev_bleu_the_latest_replace_the_best_with_a_warning(workdir, tmp_path, caplog):
    run = Workdir(shutil.copytree(workdir, tmp_path / 'run'))
    for scores in run.checkpoints.rglob('scores.json'):
        scores.unlink()
    saved = run.read_run()
    decode = dataclasses.replace(saved.config.decode, average='best', average_checkpoints=1)
    config = dataclasses.replace(saved.config, decode=decode)
    run.write_run(dataclasses.replace(saved, config=config))
    assert Translator.load(run.path).steps == [120]
    assert 'No checkpoint has a dev score yet: the latest are averaged.' in caplog.text


def test_more_best_checkpoints_than_keep_best_give_a_warning(workdir, tmp_path, caplog):
    run = Workdir(shutil.copytree(workdir, tmp_path / 'run'))
    shutil.copytree(run.checkpoints / '120' / 'scores', run.checkpoints / '60' / 'scores')
    Translator.load(run.path, average='best', checkpoints=1)
    assert caplog.text == ''
    assert Translator.load(run.path, average='best', checkpoints=2).steps == [60, 120]
    assert 'of the 2 best that are left: train.keep_best=1 kept only that many' in caplog.text


def test_a_checkpoint_that_a_training_deletes_meanwhile_is_left_out(
    workdir, tmp_path, caplog, monkeypatch
):
    shutil.copytree(workdir, tmp_path / 'run')
    steps = Checkpoints.steps

    def and_deleted(self):
        found = steps(self)
        shutil.rmtree(self.directory / '60', ignore_errors=True)
        return found

    monkeypatch.setattr(Checkpoints, 'steps', and_deleted)
    assert Translator.load(tmp_path / 'run').steps == [120]
    assert 'The checkpoint of step 60 is deleted by another process: it is left out.' in caplog.text


def test_fewer_checkpoints_than_requested_give_a_warning(workdir, caplog):
    assert Translator.load(workdir, checkpoints=9).steps == [60, 120]
    assert 'There are 2 checkpoints to average, not 9.' in caplog.text
