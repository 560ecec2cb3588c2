"""Packages for Argos Translate."""

import dataclasses
import json
import zipfile

import pytest
from conversion.random_models import random_model, separate, shared

from transformer_jax.conversion.ctranslate2 import to_argos
from transformer_jax.data.vocabulary.table_vocabulary import TableVocabulary
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError

pytest.importorskip('ctranslate2')
_NAME = 'translate-en_fr-1_0'


def test_a_package_has_the_layout_that_is_installed(tmp_path):
    original = random_model(separate(), tied_embeddings='decoder')
    found = to_argos.export(original, tmp_path, quantization='float32')
    assert '12 of 12 greedy outputs' in found
    package = zipfile.ZipFile(tmp_path / f'{_NAME}.argosmodel')
    assert {*package.namelist()} == {
        f'{_NAME}/{name}'
        for name in (
            'README.md',
            'metadata.json',
            'model/',
            'model/config.json',
            'model/model.bin',
            'model/source_vocabulary.json',
            'model/target_vocabulary.json',
            'sentencepiece.model',
        )
    }
    metadata = json.loads(package.read(f'{_NAME}/metadata.json'))
    assert (metadata['from_code'], metadata['from_name']) == ('en', 'English')
    assert (metadata['to_code'], metadata['to_name']) == ('fr', 'French')
    assert package.read(f'{_NAME}/sentencepiece.model') == original.vocabulary.source.model


def test_argos_translate_installs_a_package(tmp_path, monkeypatch):
    monkeypatch.setenv('ARGOS_PACKAGES_DIR', str(tmp_path / 'packages'))
    for name in ('DATA', 'CONFIG', 'CACHE'):
        monkeypatch.setenv(f'XDG_{name}_HOME', str(tmp_path / name))
    pytest.importorskip('argostranslate')
    from argostranslate import package, sbd, translate

    # The real splitter is downloaded.
    monkeypatch.setattr(sbd.MiniSBDSentencizer, '__init__', lambda self, pkg: None)
    monkeypatch.setattr(sbd.MiniSBDSentencizer, 'split_sentences', lambda self, text: [text])
    original = random_model()
    to_argos.export(original, tmp_path, quantization='float32')
    package.install_from_path(tmp_path / f'{_NAME}.argosmodel')
    assert [language.name for language in translate.get_installed_languages()] == [
        'English',
        'French',
    ]
    assert translate.translate('The cat sleeps.', 'en', 'fr')


def test_a_model_of_several_languages_is_refused():
    table = ['<pad>', '</s>', '<unk>', '>>fra<<']
    source = TableVocabulary(shared().source.model, table, is_source=True)
    vocabulary = VocabularyPair(source, shared().target)
    original = dataclasses.replace(random_model(), vocabulary=vocabulary)
    with pytest.raises(UserError, match="each named by a piece such as '>>fra<<'"):
        to_argos.check_argos(original)


def test_a_model_of_unknown_languages_is_refused():
    original = random_model()
    data = dataclasses.replace(original.config.data, source_language='')
    config = dataclasses.replace(original.config, data=data)
    with pytest.raises(UserError, match=r"data.source_language='' and data.target_language='fr'"):
        to_argos.check_argos(dataclasses.replace(original, config=config))
