"""Imports of Marian models, each compared with the program that it comes from."""

import json

import pytest
from peers import marian_folders

from transformer_jax import convert
from transformer_jax.conversion.huggingface import from_huggingface
from transformer_jax.conversion.marian import from_marian


def check(module, source, tmp_path):
    """Import a model with --check; return what conversion.json says."""
    folder = tmp_path / 'imported'
    folder.mkdir()
    module.import_model(source, folder, check=True)
    found = json.loads((folder / 'conversion.json').read_text())['checks']
    assert max(found['differences'].values()) < 1e-4
    assert found['same_pieces'] == found['sentences'] == 20
    greedy, beam = found['searches']
    assert greedy['same'] + greedy['ties'] == greedy['number'] == 20
    assert greedy['ties'] < 3
    assert beam['same'] + beam['explained'] == beam['number'] > 5
    return found


@pytest.mark.parametrize(
    'options',
    [
        {'codes': ('>>fra<<', '>>oci<<'), 'half': True},
        {'share': False, 'activation': 'relu', 'renormalize_logits': True},
        {'share': False, 'tie': False, 'activation': 'gelu', 'pad_row': True, 'safe': False},
    ],
    ids=['shared', 'separate', 'not tied, .bin'],
)
def test_imports_of_hugging_face_compute_what_transformers_does(tmp_path, options):
    pytest.importorskip('transformers', reason='transformers is not installed')
    pytest.importorskip('torch', reason='torch is not installed')
    source = tmp_path / 'opus-mt-en-fr'
    source.mkdir()
    marian_folders.write_huggingface(source, **options)
    found = check(from_huggingface, source, tmp_path)
    assert set(found['differences']) == {'encoder', 'logits', 'log-probabilities', 'scores'}


@pytest.mark.parametrize(
    'options',
    [
        {'vocabularies': 'yml', 'tied': 'all', 'activation': 'swish'},
        {'vocabularies': 'spm', 'tied': 'all', 'activation': 'gelu'},
        {'vocabularies': 'separate', 'tied': 'decoder', 'activation': 'relu'},
        {'vocabularies': 'separate-spm', 'tied': 'none', 'activation': 'swish'},
    ],
    ids=['table', 'spm', 'two tables', 'two spm'],
)
def test_imports_of_marian_compute_what_pymarian_does(tmp_path, options):
    pytest.importorskip('pymarian', reason='pymarian is not installed')
    source = tmp_path / 'opus-mt-en-fr'
    source.mkdir()
    marian_folders.train_marian(source, **options)
    check(from_marian, source, tmp_path)


def test_texts_of_pymarian_are_the_same(tmp_path, run_command):
    pymarian = pytest.importorskip('pymarian', reason='pymarian is not installed')
    from transformer_jax.translator import Translator

    source = tmp_path / 'model'
    source.mkdir()
    marian_folders.train_marian(source, vocabularies='spm')
    code, _, err = run_command(
        convert, '--from', source / 'model.npz', '--workdir', tmp_path / 'ours'
    )
    assert code == 0, err
    texts = [pair[0] for pair in marian_folders.SENTENCES]
    translator = Translator.load(tmp_path / 'ours')
    options = {'models': str(source / 'model.npz'), 'vocabs': [str(source / 'vocab.spm')] * 2}
    theirs = pymarian.Translator(
        **options, beam_size=6, normalize=1, cpu_threads=1, quiet=True, max_length_factor=30
    )
    assert translator(texts) == theirs.translate(texts)
