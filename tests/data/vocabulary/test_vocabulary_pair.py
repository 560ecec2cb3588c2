"""The two sides' vocabularies, and their files in a work directory."""

import os

import pytest

from transformer_jax.data.vocabulary.table_vocabulary import TableVocabulary
from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError


@pytest.fixture(scope='module')
def english():
    return Vocabulary.train(['the cat sleeps', 'the dog sleeps'], size=280)


@pytest.fixture(scope='module')
def french():
    return Vocabulary.train(['le chat dort', 'le chien dort'], size=275)


def table(vocabulary, is_source, first=()):
    pieces = ['<pad>', *first, '</s>', '<unk>', *vocabulary.pieces(range(3, vocabulary.size))]
    return TableVocabulary(vocabulary.model, pieces, is_source=is_source)


def test_a_shared_vocabulary_is_one_file_with_its_own_digest(english, tmp_path):
    pair = VocabularyPair(english, english)
    assert (pair.shared, pair.digest, pair.sizes) == (True, english.digest, (280, 280))
    pair.save(tmp_path)
    assert os.listdir(tmp_path) == ['vocabulary.model']
    again = VocabularyPair.load(tmp_path)
    assert (again.shared, again.digest) == (True, english.digest)


def test_each_side_may_have_its_own_file(english, french, tmp_path):
    pair = VocabularyPair(english, french)
    assert (pair.shared, pair.sizes.source, pair.sizes.target) == (False, 280, 275)
    assert pair.digest not in (english.digest, french.digest)
    assert pair.digest != VocabularyPair(french, english).digest
    pair.save(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ['source_vocabulary.model', 'target_vocabulary.model']
    again = VocabularyPair.load(tmp_path)
    assert again.digest == pair.digest
    assert again.source.decode(again.source.encode(['the cat'])[0]) == 'the cat'
    assert again.target.decode(again.target.encode(['le chat'])[0]) == 'le chat'


def test_tables_are_files_beside_the_models(english, tmp_path):
    pair = VocabularyPair(table(english, True), table(english, False))
    pair.save(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [
        'source_vocabulary.json',
        'source_vocabulary.model',
        'target_vocabulary.json',
        'target_vocabulary.model',
    ]
    again = VocabularyPair.load(tmp_path)
    assert (again.digest, again.sizes) == (pair.digest, pair.sizes)
    assert isinstance(again.source, TableVocabulary) and isinstance(again.target, TableVocabulary)


def test_language_codes_are_for_the_source_only(english, tmp_path):
    codes = ['>>fra<<']
    VocabularyPair(table(english, True, codes), table(english, False, codes)).save(tmp_path)
    again = VocabularyPair.load(tmp_path)
    assert (again.source.language_codes, again.target.language_codes) == (('>>fra<<',), ())
    assert len(again.target.encode(['the cat'])[0]) > 1
    with pytest.raises(UserError, match='must begin with'):
        again.source.encode(['the cat'])


def test_sides_with_another_eos_are_refused(english, tmp_path):
    source = table(english, True, ['odd'])
    with pytest.raises(ValueError, match='EOS has id 2 in the source vocabulary, but 1 in the'):
        VocabularyPair(source, english)
    source.save(tmp_path / 'source_vocabulary.model')
    english.save(tmp_path / 'target_vocabulary.model')
    with pytest.raises(UserError, match=r'vocabulary of the workdir in .*EOS has id 2'):
        VocabularyPair.load(tmp_path)


def test_a_missing_file_is_named(english, tmp_path):
    with pytest.raises(UserError, match=r"vocabulary of the workdir='.*vocabulary\.model' cannot"):
        VocabularyPair.load(tmp_path)
    english.save(tmp_path / 'source_vocabulary.model')
    with pytest.raises(UserError, match=r'target_vocabulary\.model. cannot be read'):
        VocabularyPair.load(tmp_path)
