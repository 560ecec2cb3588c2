import io
import os

import pytest
import sentencepiece

from transformer_jax.data import vocabulary as vocabulary_module
from transformer_jax.data.vocabulary import Vocabulary
from transformer_jax.errors import UserError
from transformer_jax.runtime.signals import Stopped

TEXT = ['the cat sleeps', 'the dog sleeps', 'le chat dort', 'le chien dort', 'où est le chat ?']


@pytest.fixture(scope='module')
def vocabulary():
    return Vocabulary.train(TEXT, size=300)


def given_model(**options):
    """A SentencePiece model as others train it; by default its ids are unk 0, bos 1, eos 2."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT),
        model_writer=model,
        vocab_size=30,
        model_type='bpe',
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def test_size_and_special_ids(vocabulary):
    assert (vocabulary.size, vocabulary.pad_id, vocabulary.eos_id) == (300, 0, 1)


@pytest.mark.parametrize('text', ['the dog', 'le ☃ 猫', 'œuf', 'ThE CaT!', '\U0001f600'])
def test_any_text_comes_back(vocabulary, text):
    ids = vocabulary.encode([text])[0]
    assert vocabulary.decode(ids) == text
    assert 2 not in ids  # the unknown piece


def test_texts_end_with_the_end_mark(vocabulary):
    assert [ids[-1] for ids in vocabulary.encode(TEXT)] == [1] * 5
    assert vocabulary.encode([''])[0].tolist() == [1]


def test_decoding_stops_at_the_end_mark_and_skips_padding(vocabulary):
    cat = vocabulary.encode(['the cat'])[0][:-1].tolist()
    assert vocabulary.decode([0, *cat, 1, *cat]) == 'the cat'
    assert ''.join(vocabulary.pieces([*cat, 1, 0])) == '▁the▁cat'


def test_training_again_gives_the_same_model(vocabulary):
    assert Vocabulary.train(TEXT, size=300).digest == vocabulary.digest
    assert Vocabulary.train(TEXT, size=299).digest != vocabulary.digest


@pytest.mark.parametrize(
    ('normalization', 'expected'), [('identity', 'le\u202fchat'), ('nmt_nfkc', 'le chat')]
)
def test_normalization(normalization, expected):
    vocabulary = Vocabulary.train(TEXT, size=300, normalization=normalization)
    assert vocabulary.decode(vocabulary.encode(['le\u202fchat'])[0]) == expected


def test_more_pieces_than_the_text_supports_says_how_many_it_does():
    with pytest.raises(UserError, match=r'data\.vocab_size=9000 is more than this text can') as e:
        Vocabulary.train(TEXT, size=9000)
    most = int(str(e.value).split('set it to ')[1].split(' ')[0])
    assert Vocabulary.train(TEXT, size=most).size == most


def test_fewer_pieces_than_characters():
    with pytest.raises(UserError, match=r'data\.vocab_size=200 cannot hold the \d+ characters'):
        Vocabulary.train(TEXT, size=200)


@pytest.mark.parametrize('text', [[], ['', '']])
def test_no_text_is_no_matter_of_the_size(text):
    with pytest.raises(UserError, match=r'^the training pairs have no text to make a vocabulary'):
        Vocabulary.train(text, size=300)


def test_sentences_that_sentencepiece_leaves_out_are_counted(monkeypatch, caplog):
    monkeypatch.setattr(vocabulary_module, '_LONGEST', 60)
    Vocabulary.train([*TEXT, 'é' * 31, 'é' * 30], size=300)
    assert 'made without 1 sentences of more than 60 bytes' in caplog.text


@pytest.mark.parametrize(
    'error', [UserError('line 3 is not UTF-8'), Stopped('Stopped by SIGTERM.')]
)
def test_what_reading_the_text_raises_is_not_taken_for_a_bad_size(error):
    def sentences():
        yield from TEXT
        raise error

    with pytest.raises(type(error)) as raised:
        Vocabulary.train(sentences(), size=300)
    assert raised.value is error


def test_a_given_model_without_padding_makes_room_for_it():
    vocabulary = Vocabulary(given_model())
    ids = vocabulary.encode(['the cat sleeps'])[0]
    assert (vocabulary.size, vocabulary.eos_id) == (31, 3)
    assert 0 not in ids
    assert vocabulary.decode(ids) == 'the cat sleeps'


def test_a_given_file_is_loaded_and_its_lack_of_bytes_named(tmp_path, caplog):
    (tmp_path / 'given.model').write_bytes(given_model())
    assert Vocabulary.load(tmp_path / 'given.model').size == 31
    assert 'has no byte fall-back' in caplog.text


def test_a_saved_model_is_the_same(vocabulary, tmp_path, caplog):
    vocabulary.save(tmp_path / 'a.model')
    assert Vocabulary.load(tmp_path / 'a.model').digest == vocabulary.digest
    assert caplog.text == ''


def test_a_model_without_an_end_mark(tmp_path):
    (tmp_path / 'given.model').write_bytes(given_model(eos_id=-1))
    with pytest.raises(UserError, match='without an end mark'):
        Vocabulary.load(tmp_path / 'given.model')


def test_what_is_no_model_and_what_is_not_there(tmp_path):
    (tmp_path / 'text').write_text('not a model')
    with pytest.raises(UserError, match=r'data\.vocabulary=.*is not a SentencePiece model'):
        Vocabulary.load(tmp_path / 'text')
    with pytest.raises(UserError, match='cannot be read'):
        Vocabulary.load(tmp_path / 'missing')


def test_a_path_of_somebody_without_a_home():
    with pytest.raises(UserError) as error:
        Vocabulary.load('~no_such_user/x.model')
    assert str(error.value) == (
        "data.vocabulary='~no_such_user/x.model' is of somebody who has no home here: "
        'give a full path.'
    )


def test_sampled_pieces_spell_the_same_text(vocabulary):
    texts = ['the cat sleeps', 'le chien dort'] * 10
    drawn = vocabulary.sample(texts, 0.3, seed=1)
    assert [vocabulary.decode(ids) for ids in drawn] == texts
    assert len({tuple(ids) for ids in drawn}) > 4


def test_the_seed_determines_the_sampled_pieces(vocabulary):
    def draw(seed):
        return [ids.tolist() for ids in vocabulary.sample(['the cat sleeps'] * 10, 0.3, seed)]

    assert draw(1) == draw(1) != draw(2)


def test_bytes_spell_what_has_no_pieces(vocabulary):
    (known, spelled) = vocabulary.encode(['the cat', 'Ж'])
    assert vocabulary.spelled(known) == 0
    # The space before it and the end mark are pieces; its two bytes are not.
    assert vocabulary.spelled(spelled) == 0.5


def test_ids_to_texts_and_back(vocabulary):
    ids = vocabulary.encode(['the  cat sleeps ', 'où est le chat ?'])
    assert vocabulary.texts(ids) == ['the cat sleeps', 'où est le chat ?']


def test_one_text_is_not_taken_for_many(vocabulary):
    for encode in (vocabulary.encode, lambda text: vocabulary.sample(text, 0.1, 0)):
        with pytest.raises(UserError, match="texts='the cat' must be several"):
            encode('the cat')


def test_a_pipe_for_a_model_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / 'a.model')
    with pytest.raises(UserError, match=r'cannot be read \(not a regular file\)'):
        Vocabulary.load(tmp_path / 'a.model')
