"""Pieces of SentencePiece with the ids of a table, and language codes before the text."""

import json

import numpy as np
import pytest

from transformer_jax.data.vocabulary.table_vocabulary import TableVocabulary
from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.errors import UserError

TEXT = ['the cat sleeps', 'the dog sleeps', 'the cat and the dog']
# No piece of another language's: SentencePiece would write these texts with more pieces.
TABLE = ('<pad>', '▁odd', '</s>', '▁the', '▁cat', 's', '<unk>', '▁', '▁sle', 'ep')
CODES = ('>>fra<<', '>>cmn_Hans<<')


@pytest.fixture(scope='module')
def model():
    return Vocabulary.train(TEXT, size=290).model


@pytest.fixture(scope='module')
def pieces(model):
    """All pieces of the model, in another order, and with two language codes."""
    plain = Vocabulary(model)
    own = plain.pieces(range(3, plain.size))
    return ['<pad>', *own[::-1], CODES[0], '</s>', '<unk>', CODES[1]]


@pytest.fixture(scope='module')
def source(model, pieces):
    return TableVocabulary(model, pieces, is_source=True)


@pytest.fixture(scope='module')
def target(model, pieces):
    return TableVocabulary(model, pieces, is_source=False)


def test_ids_are_places_in_the_table(model):
    vocabulary = TableVocabulary(model, TABLE, is_source=True)
    assert (vocabulary.size, vocabulary.eos_id, vocabulary.unknown_id) == (10, 2, 6)
    assert vocabulary.encode(['the cat', '', ' '])[0].tolist() == [3, 4, 2]
    assert [ids.tolist() for ids in vocabulary.encode(['', ' '])] == [[2], [2]]
    assert vocabulary.encode(['the dog'])[0].tolist() == [3, 6, 2]
    assert vocabulary.encode([]) == []


def test_a_piece_of_the_table_that_sentencepiece_lacks_is_written_with_its_space(model):
    vocabulary = TableVocabulary(model, TABLE, is_source=False)
    assert vocabulary.decode([1, 4, 1, 0, 2, 3]) == 'odd cat odd'
    assert vocabulary.pieces([1, 4, 2]) == ['▁odd', '▁cat']
    assert vocabulary.output_words([1, 4, 5, 1, 2]) == [0, 1, 1, 2, None]


@pytest.mark.parametrize('text', ['the dog sleeps', 'le ☃', 'cats  and dogs'])
def test_texts_survive_where_the_table_has_all_pieces(target, model, text):
    (ids,) = target.encode([text])
    assert target.decode(ids) == Vocabulary(model).decode(Vocabulary(model).encode([text])[0])
    assert target.unknown_id not in ids
    (again,) = target.encode(target.texts([ids]))
    assert again.tolist() == ids.tolist()
    assert target.output_words(ids.tolist()) == Vocabulary(model).output_words(
        Vocabulary(model).encode([text])[0].tolist()
    )


def test_a_language_code_is_one_piece_before_those_of_the_text(source, target):
    plain, coded = target.encode(['the dog'])[0], source.encode(['>>fra<< the dog'])[0]
    (code,) = source.ids_of_pieces(['>>fra<<'], 'code')
    assert coded.tolist() == [code, *plain]
    assert source.encode([' >>fra<<the dog'])[0].tolist() == coded.tolist()
    codes_alone = source.encode(['>>fra<<'])[0]
    assert source.texts([codes_alone, coded]) == ['>>fra<< ', '>>fra<< the dog']
    assert source.encode(['>>cmn_Hans<<'])[0].tolist() == [source.size - 1, source.eos_id]
    assert source.language_codes == CODES
    assert target.language_codes == ()


@pytest.mark.parametrize(
    'text, hint',
    [
        ('the dog', r'\.'),
        ('the >>fra<< dog', r'\.'),
        ('>>frs<< the dog', ": did you mean '>>fra<<'"),
        ('>> fra << the dog', r'\.'),
    ],
)
def test_a_text_without_a_known_language_code_is_refused(source, text, hint):
    with pytest.raises(UserError, match=f'must begin with .*one of >>fra<<, >>cmn_Hans<<{hint}'):
        source.encode(['>>fra<< the cat', text])
    assert source.encode(['', '  '])[1].tolist() == [source.eos_id]


@pytest.mark.parametrize(
    'text, expected',
    [
        ('>>fra<< the dog', ('>>fra<<', 'the dog')),
        (' >>cmn_Hans<<the dog', ('>>cmn_Hans<<', 'the dog')),
        ('>>fra<<', ('>>fra<<', '')),
        ('>>frs<< the dog', ('', '>>frs<< the dog')),
        ('the >>fra<< dog', ('', 'the >>fra<< dog')),
    ],
)
def test_a_language_code_is_taken_from_a_text(source, target, text, expected):
    assert source.take_tag(text) == expected
    assert target.take_tag(text) == ('', text)
    assert (source.tags, target.tags) == (CODES, ())


def test_words_of_a_text_with_a_language_code(source, target, model):
    assert target.source_words('the dog') == Vocabulary(model).source_words('the dog')
    words = target.source_words('the dog')
    assert source.source_words(' >>fra<<  the dog') == [None, *words]
    assert source.source_words('>>fra<<the dog') == [None, *words]
    assert source.source_words('>>fra<<') == [None, None]
    for text in (' >>fra<<  the dog', '>>fra<<the dog', '>>fra<<'):
        assert len(source.source_words(text)) == len(source.encode([text])[0])


def test_sampling_gives_other_pieces_of_the_same_text(source):
    texts = ['>>fra<< the dog sleeps and the cat sleeps'] * 4
    first, second = source.sample(texts, 0.5, 1), source.sample(texts, 0.5, 2)
    assert [x.tolist() for x in first] == [x.tolist() for x in source.sample(texts, 0.5, 1)]
    assert [x.tolist() for x in first] != [x.tolist() for x in second]
    assert source.can_sample
    assert {source.texts([ids])[0] for ids in first + second} == {texts[0]}
    assert {int(ids[0]) for ids in first} == {source.encode(texts[:1])[0][0]}


def test_bytes_and_unknown_pieces_are_counted(target):
    assert target.byte_fallback_rate(target.encode(['the dog'])[0]) == 0.0
    snow = target.encode(['☃'])[0]
    # A space, three bytes and EOS.
    assert target.byte_fallback_rate(snow) == pytest.approx(3 / 5)
    assert target.byte_fallback_rate(np.array([target.unknown_id])) == 1.0


def test_a_piece_that_the_table_lacks_is_refused_by_name(target):
    with pytest.raises(UserError, match=r"prefix: '▁bird' is no piece .* spells the text '▁"):
        target.ids_of_pieces(['▁bird'], 'prefix')


def test_saved_files_give_the_same_vocabulary(source, tmp_path):
    source.save(tmp_path / 'a.model')
    again = TableVocabulary.load_table(tmp_path / 'a.model', 'vocabulary', is_source=True)
    assert (again.digest, again.table, again.language_codes) == (
        source.digest,
        source.table,
        source.language_codes,
    )
    assert again.digest != Vocabulary(source.model).digest


@pytest.mark.parametrize(
    'table, message',
    [
        (['<pad>', '</s>', '<unk>', 'a', 'a'], "a table that has the piece 'a' twice"),
        (['<pad>', '<unk>', 'a'], 'a table without </s> after the padding'),
        (['</s>', '<unk>'], 'a table without </s> after the padding'),
        (['<pad>', '</s>', 7], r"item 2 of 'pieces' is"),
        ({}, r"'pieces' is"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(model, tmp_path, table, message):
    (tmp_path / 'a.model').write_bytes(model)
    (tmp_path / 'a.json').write_text(json.dumps({'pieces': table}))
    with pytest.raises(UserError, match=message):
        TableVocabulary.load_table(tmp_path / 'a.model', 'vocabulary', is_source=True)


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(UserError, match=r'vocabulary=.* cannot be read \(.*a\.json: No such file'):
        TableVocabulary.load_table(tmp_path / 'a.model', 'vocabulary', is_source=True)
