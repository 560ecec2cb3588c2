"""Any text survives the vocabulary, and every mistake in training it gives one sentence."""

import io
import os
import random
import subprocess
import sys

import pytest
import sentencepiece

from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.errors import UserError
from transformer_jax.runtime.signals import Stopped

TEXT = ['the cat sleeps', 'the dog sleeps', 'le chat dort', 'le chien dort', 'où est le chat ?']


@pytest.fixture(scope='module')
def vocabulary():
    return Vocabulary.train(TEXT, size=300)


def given_model(**options):
    """Return a SentencePiece model with its default ids: unk 0, bos 1, eos 2."""
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


def test_size_and_special_ids_are_fixed(vocabulary):
    assert (vocabulary.size, vocabulary.pad_id, vocabulary.eos_id) == (300, 0, 1)


@pytest.mark.parametrize('text', ['the dog', 'le ☃ 猫', 'œuf', 'ThE CaT!', '\U0001f600'])
def test_any_text_survives_encoding_and_decoding(vocabulary, text):
    ids = vocabulary.encode([text])[0]
    assert vocabulary.decode(ids) == text
    assert 2 not in ids  # the unknown piece


def test_texts_end_with_eos(vocabulary):
    assert [ids[-1] for ids in vocabulary.encode(TEXT)] == [1] * 5
    assert vocabulary.encode([''])[0].tolist() == [1]


def test_decoding_stops_at_eos_and_skips_padding(vocabulary):
    cat = vocabulary.encode(['the cat'])[0][:-1].tolist()
    assert vocabulary.decode([0, *cat, 1, *cat]) == 'the cat'
    assert ''.join(vocabulary.pieces([*cat, 1, 0])) == '▁the▁cat'


def test_training_again_gives_the_same_model(vocabulary):
    assert Vocabulary.train(TEXT, size=300).digest == vocabulary.digest
    assert Vocabulary.train(TEXT, size=299).digest != vocabulary.digest


@pytest.mark.parametrize(
    ('normalization', 'expected'), [('identity', 'le\u202fchat'), ('nmt_nfkc', 'le chat')]
)
def test_normalization_follows_the_rule(normalization, expected):
    vocabulary = Vocabulary.train(TEXT, size=300, normalization=normalization)
    assert vocabulary.decode(vocabulary.encode(['le\u202fchat'])[0]) == expected


def test_a_size_that_is_too_large_is_refused_with_the_largest_possible():
    with pytest.raises(UserError, match=r'data\.vocab_size=9000 is more than this text can') as e:
        Vocabulary.train(TEXT, size=9000)
    most = int(str(e.value).split('set it to ')[1].split(' ')[0])
    assert Vocabulary.train(TEXT, size=most).size == most


def test_a_size_below_the_number_of_characters_is_refused():
    with pytest.raises(UserError, match=r'data\.vocab_size=200 cannot hold the \d+ characters'):
        Vocabulary.train(TEXT, size=200)


@pytest.mark.parametrize('text', [[], ['', '']])
def test_training_pairs_without_text_are_refused(text):
    with pytest.raises(UserError, match=r'^the training pairs have no text to train a vocabulary'):
        Vocabulary.train(text, size=300)


@pytest.mark.parametrize('model_type', ['bpe', 'word', 'char'])
def test_words_with_their_counts_teach_what_the_sentences_teach(model_type):
    text = [*TEXT, ' two  spaces ', 'a\tb', 'un\xa0mot', 'long' * 2000] * 2
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text),
        model_writer=model,
        model_type=model_type,
        vocab_size=300,
        hard_vocab_limit=model_type != 'word',
        character_coverage=1.0,
        byte_fallback=True,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        max_sentence_length=1 << 20,
        minloglevel=2,
        normalization_rule_name='nmt_nfkc',
    )
    expected = Vocabulary(model.getvalue())
    found = Vocabulary.train(text, size=300, model_type=model_type)
    ids = list(range(3, expected.size))
    assert found.size == expected.size and found.pieces(ids) == expected.pieces(ids)


@pytest.mark.parametrize(
    'error', [UserError('line 3 is not UTF-8'), Stopped('Stopped by SIGTERM.')]
)
def test_an_error_while_reading_the_text_is_raised_unchanged(error):
    def sentences():
        yield from TEXT
        raise error

    with pytest.raises(type(error)) as raised:
        Vocabulary.train(sentences(), size=300)
    assert raised.value is error


def test_ids_of_a_model_without_padding_are_shifted_by_one():
    vocabulary = Vocabulary(given_model())
    ids = vocabulary.encode(['the cat sleeps'])[0]
    assert (vocabulary.size, vocabulary.eos_id) == (31, 3)
    assert 0 not in ids
    assert vocabulary.decode(ids) == 'the cat sleeps'


def test_a_model_without_byte_fallback_is_loaded_with_a_warning(tmp_path, caplog):
    (tmp_path / 'given.model').write_bytes(given_model())
    assert Vocabulary.load(tmp_path / 'given.model').size == 31
    assert 'has no byte fallback' in caplog.text


def test_a_saved_model_is_loaded_unchanged(vocabulary, tmp_path, caplog):
    vocabulary.save(tmp_path / 'a.model')
    assert Vocabulary.load(tmp_path / 'a.model').digest == vocabulary.digest
    assert caplog.text == ''


def test_a_model_without_eos_is_refused(tmp_path):
    (tmp_path / 'given.model').write_bytes(given_model(eos_id=-1))
    with pytest.raises(UserError, match='without EOS'):
        Vocabulary.load(tmp_path / 'given.model')


def test_other_and_missing_files_are_refused(tmp_path):
    (tmp_path / 'text').write_text('not a model')
    with pytest.raises(UserError, match=r'data\.vocabulary=.*is not a SentencePiece model'):
        Vocabulary.load(tmp_path / 'text')
    with pytest.raises(UserError, match='cannot be read'):
        Vocabulary.load(tmp_path / 'missing')


def test_the_home_of_an_unknown_user_is_refused():
    with pytest.raises(UserError) as error:
        Vocabulary.load('~no_such_user/x.model')
    assert str(error.value) == (
        "data.vocabulary='~no_such_user/x.model' names a user without a home directory: "
        'give a full path.'
    )


def test_sampled_pieces_give_the_same_text(vocabulary):
    texts = ['the cat sleeps', 'le chien dort'] * 10
    drawn = vocabulary.sample(texts, 0.3, seed=1)
    assert [vocabulary.decode(ids) for ids in drawn] == texts
    assert len({tuple(ids) for ids in drawn}) > 4


def test_the_seed_determines_the_sampled_pieces_in_every_process(vocabulary, tmp_path):
    vocabulary.save(tmp_path / 'a.model')
    code = (
        'import sys; from transformer_jax.data.vocabulary.vocabulary import Vocabulary\n'
        'drawn = Vocabulary.load(sys.argv[1]).sample(["the cat sleeps"] * 10, 0.3, 1)\n'
        'print([ids.tolist() for ids in drawn])'
    )
    there = subprocess.run(
        [sys.executable, '-c', code, tmp_path / 'a.model'],
        capture_output=True,
        text=True,
        check=True,
    )
    here = [ids.tolist() for ids in vocabulary.sample(['the cat sleeps'] * 10, 0.3, 1)]
    assert there.stdout == f'{here}\n'


@pytest.mark.parametrize('seed', [1, 2**32 - 1])
def test_the_seed_determines_the_pieces_of_a_single_text(vocabulary, seed):
    def draw(seed):
        return vocabulary.sample(['the cat sleeps and the dog sleeps'], 0.5, seed)[0].tolist()

    draw(3)
    first = draw(seed)
    assert [draw(seed) for _ in range(5)] == [first] * 5


def test_a_sentencepiece_that_ignores_the_seed_is_refused(vocabulary, monkeypatch):
    monkeypatch.setattr(sentencepiece, '__version__', '0.2.3')
    with pytest.raises(UserError, match=r'SentencePiece 0\.2\.3 draws different segmentations in'):
        vocabulary.sample(['the cat sleeps'], 0.3, 1)


def test_the_seed_determines_the_sampled_pieces(vocabulary):
    def draw(seed):
        return [ids.tolist() for ids in vocabulary.sample(['the cat sleeps'] * 10, 0.3, seed)]

    assert draw(1) == draw(1) != draw(2)


def test_the_byte_fallback_rate_counts_bytes(vocabulary):
    (known, unknown) = vocabulary.encode(['the cat', 'Ж'])
    assert vocabulary.byte_fallback_rate(known) == 0
    # The space before it and EOS are pieces; its two bytes are not.
    assert vocabulary.byte_fallback_rate(unknown) == 0.5
    assert vocabulary.byte_fallback_rate(unknown[:0]) == 0


def test_texts_restores_the_texts_of_ids(vocabulary):
    ids = vocabulary.encode(['the  cat sleeps ', 'où est le chat ?'])
    assert vocabulary.texts(ids) == ['the cat sleeps', 'où est le chat ?']


ALPHABETS = [
    'the cat sleeps le chien dort ou est',
    'ab \t\u00a0\u202f\u2009\u3000\u2581',
    '\u200b\u00ad\ufeff\x07 a',
    'ﬁ½…Ⅷe\u0301\ufdfa b',
    '猫☃\U0001f600 \U0001f468\u200d',
]


def random_texts(count):
    """Return texts of known and unknown characters, of many spaces, and of ligatures."""
    rng = random.Random(0)
    letters = [rng.choice(ALPHABETS) for _ in range(count)]
    return [''.join(rng.choices(x, k=rng.randrange(12))) for x in letters]


@pytest.mark.parametrize('normalization', ['nmt_nfkc', 'identity'])
def test_each_piece_belongs_to_a_word_of_its_text_in_order(normalization):
    vocabulary = Vocabulary.train(TEXT, size=300, normalization=normalization)
    for text in random_texts(500):
        (ids,) = vocabulary.encode([text])
        words = vocabulary.source_words(text)
        inside = [word for word in words if word is not None]
        assert len(words) == len(ids)
        assert inside == sorted(inside)
        assert set(inside) <= set(range(len(text.split())))
        if vocabulary.decode(ids) == text:  # normalisation has removed no character
            assert set(inside) == set(range(len(text.split())))


def test_each_piece_of_an_output_belongs_to_a_word_of_its_text(vocabulary):
    rng = random.Random(0)
    pieces = [k for k in range(vocabulary.size) if k != vocabulary.eos_id]
    for _ in range(500):
        ids = [*rng.choices(pieces, k=rng.randrange(12)), vocabulary.eos_id]
        words = vocabulary.output_words(ids)
        inside = [word for word in words if word is not None]
        assert len(words) == sum(i != vocabulary.pad_id for i in ids)
        assert inside == sorted(inside)
        assert set(inside) == set(range(len(vocabulary.decode(ids).split())))


def by_word(vocabulary, text):
    """Return the pieces of each word, without the signs of spaces."""
    (ids,) = vocabulary.encode([text])
    found = [''] * len(text.split())
    pieces = [*vocabulary.pieces(ids), '</s>']
    for piece, word in zip(pieces, vocabulary.source_words(text), strict=True):
        if word is not None:
            found[word] += piece.strip('▁')
    return found


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('  the  cat ', ['the', 'cat']),
        ('the\u00a0cat\u202f!', ['the', 'cat', '<0x21>']),
        ('Ж é', ['<0xD0><0x96>', '<0xC3><0xA9>']),
        ('te te\u200bte', ['te', 'tete']),  # the zero-width space is none for str.split
        ('\x07 te', ['', 'te']),  # a word that normalisation removes
        ('ﬁ ½', ['<0x66>i', '<0x31><0xE2><0x81><0x84><0x32>']),
        ('', []),
        (' ', []),
    ],
)
def test_pieces_are_joined_to_the_words_of_the_raw_text(vocabulary, text, expected):
    assert by_word(vocabulary, text) == expected


def test_words_are_found_in_a_model_whose_ids_are_shifted():
    vocabulary = Vocabulary(given_model())
    text = 'the cat sleeps'
    (ids,) = vocabulary.encode([text])
    assert by_word(vocabulary, text) == text.split()
    assert vocabulary.output_words([*ids, 0]) == vocabulary.source_words(text)


def test_an_empty_output_has_no_words(vocabulary):
    assert vocabulary.output_words([vocabulary.eos_id, 0]) == [None]


def test_a_single_text_is_refused(vocabulary):
    for encode in (vocabulary.encode, lambda text: vocabulary.sample(text, 0.1, 0)):
        with pytest.raises(UserError, match="texts='the cat' is a single text"):
            encode('the cat')


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / 'a.model')
    with pytest.raises(UserError, match=r'cannot be read \(not a regular file\)'):
        Vocabulary.load(tmp_path / 'a.model')


@pytest.mark.parametrize(
    ('model_type', 'size', 'pieces'),
    [
        ('bpe', 300, None),
        ('unigram', 285, None),
        ('word', 273, ['▁The', '▁cat', '▁sleeps', '▁near', '▁the', '▁old', '▁table.']),
        ('char', 400, ['▁', *'The', '▁', *'cat']),
    ],
)
def test_every_type_of_pieces_spells_any_text(model_type, size, pieces):
    sentences = ['The cat sleeps near the old table.', 'Where is the house?', 'Le chat dort là.']
    vocabulary = Vocabulary.train(sentences, size=size, model_type=model_type)
    assert vocabulary.size <= size
    for text in (*sentences, 'A dog, 日本.'):
        (ids,) = vocabulary.encode([text])
        assert vocabulary.decode(ids) == text == vocabulary.texts([ids])[0]
        words = [word for word in vocabulary.output_words(ids) if word is not None]
        assert sorted(set(words)) == list(range(len(text.split())))
    if pieces:
        found = vocabulary.pieces(vocabulary.encode(sentences[:1])[0])
        assert found[: len(pieces)] == pieces
