"""Models by their names on the Hugging Face hub, from its cache, without a network."""

import pytest
from conversion import marian_files

from transformer_jax import convert
from transformer_jax.conversion.hub import model_path
from transformer_jax.errors import UserError
from transformer_jax.inference.load import load_trained

NAME = 'Helsinki-NLP/opus-mt-en-fr'


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of the hub with one model, and no network."""
    constants = pytest.importorskip('huggingface_hub.constants', reason='no huggingface_hub')
    folder = tmp_path / 'hub' / 'models--Helsinki-NLP--opus-mt-en-fr'
    (folder / 'snapshots/abc').mkdir(parents=True)
    (folder / 'refs').mkdir()
    (folder / 'refs/main').write_text('abc')
    marian_files.write_huggingface(folder / 'snapshots/abc', marian_files.arrays())
    monkeypatch.setattr(constants, 'HF_HUB_CACHE', str(tmp_path / 'hub'))
    monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', True)
    monkeypatch.chdir(tmp_path)


def test_a_name_is_found_in_the_cache_and_imported(cache, tmp_path, run_command):
    code, out, err = run_command(convert, f'--from={NAME}', '--workdir', tmp_path / 'opus')
    assert code == 0, err
    assert out.splitlines() == [
        '2 layers of width 8, 8 target pieces, swish, sinusoidal_halves, tied embeddings: all',
        'not compared with the program that it comes from: --check does that',
        f'{tmp_path / "opus"} holds the model',
    ]
    trained = load_trained(tmp_path / 'opus')
    assert trained.config.data.target_language == 'fr'
    assert trained.params['embedding'].shape == (8, 8)


def test_a_folder_of_that_name_wins(cache, tmp_path):
    folder = tmp_path / NAME
    folder.mkdir(parents=True)
    assert str(model_path(NAME, '--from')) == NAME


def test_names_that_are_not_there_are_mistakes(cache):
    with pytest.raises(UserError, match=r"--from='Helsinki-NLP/no' is no folder and cannot be"):
        model_path('Helsinki-NLP/no', '--from')
    with pytest.raises(UserError, match=r"--from='no/such/folder' does not exist"):
        model_path('no/such/folder', '--from')


def test_what_is_no_model_is_a_mistake(tmp_path, run_command):
    (tmp_path / 'empty').mkdir()
    code, _, err = run_command(convert, '--from', tmp_path / 'empty', '--workdir', tmp_path / 'x')
    assert code == 2
    assert 'holds no model that can be imported: it must be a folder of a Marian model' in err
    assert not (tmp_path / 'x').exists()
