"""Whether a run may start in its folder, and what it takes over from there."""

import json
import shutil

import jax
import numpy as np
import pytest
from tiny_run import tiny

from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.errors import UserError
from transformer_jax.inference.load import load_trained
from transformer_jax.sharding import make_mesh
from transformer_jax.storage.workdir import Workdir
from transformer_jax.training import run as runs
from transformer_jax.training import train
from transformer_jax.training.checks import resume_checks

pytestmark = pytest.mark.usefixtures('programs_kept')


def files(folder):
    """The time of the last change of each file; False for folders."""
    return {p: p.is_file() and p.stat().st_mtime_ns for p in folder.rglob('*') if p.name != 'lock'}


def refused(workdir, sentence):
    """Assert that a run is refused and leaves its folder unchanged."""
    before = files(workdir)
    with pytest.raises(UserError, match=sentence):
        train(tiny(train={'steps': 20}), workdir)
    assert files(workdir) == before


def test_an_origin_comes_too_late_for_a_run_that_has_begun(uninterrupted, tmp_path):
    shutil.copytree(uninterrupted, tmp_path / 'run')
    config = tiny(train={'steps': 20, 'init_from': str(uninterrupted)})
    with pytest.raises(UserError, match=r"init_from='.*' comes too late for the run in workdir="):
        train(config, tmp_path / 'run')


def test_the_origin_of_a_run_stays_in_its_config(uninterrupted, tmp_path, caplog):
    train(tiny(train={'steps': 2, 'init_from': str(uninterrupted)}), tmp_path)
    train(tiny(train={'steps': 4, 'init_from': 'elsewhere'}), tmp_path)
    assert Workdir(tmp_path).read_run().config.train.init_from == str(uninterrupted)
    assert "train.init_from='elsewhere' is ignored" in caplog.text


def test_the_origin_of_a_run_that_has_checkpoints_may_have_moved(uninterrupted, tmp_path):
    def config(origin, steps):
        return tiny(train={'init_from': str(origin), 'steps': steps})

    train(config(uninterrupted, 6), tmp_path)
    assert train(config(tmp_path / 'gone', 9), tmp_path)['step'] == 9


def test_a_release_folder_is_not_trained(release, tmp_path):
    copy = shutil.copytree(release, tmp_path / 'mine')
    refused(copy, r'is a release folder, .* choose another --workdir, .* \(train.init_from\)')


def test_a_run_begins_with_the_weights_and_the_vocabulary_of_a_release(release):
    config = tiny(train={'init_from': str(release)})
    vocabulary, trained = resume_checks.inherited_vocabulary(config), load_trained(release)
    assert vocabulary.digest == trained.vocabulary.digest
    state = runs._first_state(config, vocabulary.sizes, make_mesh(config.mesh))
    jax.tree.map(np.testing.assert_array_equal, state.params, trained.params)


def test_an_exchanged_vocabulary_is_refused(uninterrupted, tmp_path):
    run = Workdir(shutil.copytree(uninterrupted, tmp_path / 'run'))
    Vocabulary.train(['another text'] * 9, size=280).save(run.vocabulary)
    with pytest.raises(UserError, match=r'is not the vocabulary that the run was trained with'):
        train(tiny(train={'steps': 20}), run.path)


def test_another_vocabulary_is_refused(uninterrupted, tmp_path):
    path = tmp_path / 'other.model'
    Vocabulary.train(['the cat', 'le chat'], size=270).save(path)
    with pytest.raises(UserError, match=r"data\.vocabulary='.*' is not the vocabulary that the"):
        train(tiny(train={'steps': 20}, data={'vocabulary': str(path)}), uninterrupted)


@pytest.mark.parametrize(
    ('folder', 'd_ff', 'sentence'),
    [
        ('', 64, r"init_from='.*' holds the weights of another model .*model.d_ff: 64 against 32"),
        ('checkpoints', 32, r"init_from='.*/checkpoints' holds no trained model"),
    ],
)
def test_weights_that_are_missing_or_do_not_fit_are_refused(
    uninterrupted, tmp_path, folder, d_ff, sentence
):
    config = tiny(model={'d_ff': d_ff}, train={'init_from': str(uninterrupted / folder)})
    with pytest.raises(UserError, match=sentence):
        train(config, tmp_path / 'run')
    assert not (tmp_path / 'run').exists()


def test_a_run_whose_checkpoints_are_gone_does_not_start_again(uninterrupted, tmp_path):
    run = shutil.copytree(uninterrupted, tmp_path / 'run')
    shutil.rmtree(run / 'checkpoints')
    refused(run, r'has metrics of 12 steps but no checkpoint any more: restore')


def test_a_run_without_a_checkpoint_yet_may_get_a_shorter_interval(
    uninterrupted, tmp_path, monkeypatch
):
    class BegunError(Exception):
        pass

    def begin(*_, **__):
        raise BegunError

    run = shutil.copytree(uninterrupted, tmp_path / 'run')
    shutil.rmtree(run / 'checkpoints')
    saved = json.loads((run / 'config.json').read_text())
    saved['config']['train'].update(checkpoint_every=1000, eval_every=1000)
    (run / 'config.json').write_text(json.dumps(saved))
    monkeypatch.setattr(runs, 'MetricsWriter', begin)
    with pytest.raises(BegunError):
        train(tiny(train={'steps': 20}), run)


def test_checkpoints_without_a_config_are_not_touched(uninterrupted, tmp_path):
    run = shutil.copytree(uninterrupted, tmp_path / 'run')
    (run / 'config.json').unlink()
    refused(run, r'holds checkpoints but no config\.json')


def test_another_config_is_refused_and_named(uninterrupted):
    before = (uninterrupted / 'config.json').read_text()
    with pytest.raises(UserError, match=r'model\.d_ff: 64 against 32'):
        train(tiny(model={'d_ff': 64}), uninterrupted)
    assert (uninterrupted / 'config.json').read_text() == before


def test_other_data_are_refused(tmp_path, uninterrupted):
    run = shutil.copytree(uninterrupted, tmp_path / 'run')
    saved = json.loads((run / 'config.json').read_text())
    saved['data_fingerprint'] = 'that of other data'
    (run / 'config.json').write_text(json.dumps(saved))
    refused(run, 'belongs to other data')


def test_unreadable_metrics_are_refused(tmp_path):
    (tmp_path / 'metrics.jsonl').mkdir()
    with pytest.raises(UserError, match=r'has a metrics\.jsonl that cannot be read \('):
        resume_checks.check_checkpoints_remain(Workdir(tmp_path), tiny(), None)
