"""Models that come with the package, by name."""

import logging
import shutil

import pytest

from transformer_jax import score
from transformer_jax.errors import UserError
from transformer_jax.inference.load import load_trained
from transformer_jax.storage import pretrained
from transformer_jax.translator import Translator


@pytest.fixture
def packaged(release, tmp_path, monkeypatch):
    """A folder of packaged models with the model 'mini'; the current folder is another."""
    folder = tmp_path / 'pretrained'
    shutil.copytree(release, folder / 'mini')
    (tmp_path / 'here').mkdir()
    monkeypatch.setattr(pretrained, '_FOLDER', folder)
    monkeypatch.chdir(tmp_path / 'here')
    return folder


def test_a_name_is_the_workdir_of_a_command(packaged, run_command):
    for path in (packaged / 'mini', *(packaged / 'mini').iterdir()):
        path.chmod(path.stat().st_mode & 0o555)
    pair = 'The black cat sat on the couch.\tLe chat noir était assis sur le canapé.\n'
    code, out, _ = run_command(score, '--workdir=mini', stdin=pair.encode())
    assert (code, out[:8]) == (0, '-82.5642')


def test_a_folder_of_the_same_name_wins_and_says_so(packaged, tmp_path, caplog):
    caplog.set_level(logging.INFO, 'transformer_jax')
    assert pretrained.model_folder('mini').path == packaged / 'mini'
    assert caplog.text == ''
    (tmp_path / 'here' / 'mini').mkdir()
    for _ in range(2):
        assert str(pretrained.model_folder('mini').path) == 'mini'
    assert caplog.text.count('here/mini is taken, not the model mini of the package.') == 1


def test_an_unknown_name_says_which_models_exist(packaged):
    with pytest.raises(UserError, match=r'or a model of the package \(mini\)\.$'):
        load_trained('minni')


def test_the_model_of_the_package_translates():
    folder = pretrained.pretrained_models()['tatoeba_en_fr']
    assert sum(file.stat().st_size for file in folder.iterdir()) < 16 * 2**20
    translator = Translator.load('tatoeba_en_fr')
    assert translator('Where did you put my keys?') == 'Où as-tu mis mes clés ?'
