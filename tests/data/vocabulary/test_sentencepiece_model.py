"""SentencePiece models that would end the process, or are none, are refused."""

import io

import pytest
import sentencepiece

from transformer_jax.data.vocabulary.sentencepiece_model import open_model
from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.errors import UserError


@pytest.fixture(scope='module')
def model():
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(['a b ac', 'bc no', 'no a b']),
        model_writer=file,
        vocab_size=12,
        hard_vocab_limit=False,
        normalization_rule_name='nmt_nfkc',
        minloglevel=2,
    )
    return file.getvalue()


def test_a_model_is_opened(model):
    assert open_model(model).encode('no ａ', out_type=str)[-1] == '▁a'


@pytest.mark.parametrize(
    ('content', 'message'),
    [
        (b'', 'empty, not a SentencePiece model'),
        (b'\x12\x02\x20\x08', 'it has no pieces'),
        (b'the cat sleeps', 'not a SentencePiece model'),
        (bytes(300), 'not a SentencePiece model'),
    ],
)
def test_what_is_no_model_is_refused(content, message):
    with pytest.raises(ValueError, match=message):
        open_model(content)


@pytest.mark.parametrize('share', [0.001, 0.1, 0.5, 0.99])
def test_a_truncated_model_is_refused(model, share):
    with pytest.raises(ValueError, match='not a SentencePiece model'):
        open_model(model[: int(len(model) * share)])


def test_a_normalisation_that_points_outside_itself_is_refused(model):
    place = model.index(b'nmt_nfkc') + len('nmt_nfkc') + 8  # the trie, behind its sizes
    damaged = model[:place] + b'\xff\xff\xff\x7f' * 8 + model[place + 32 :]
    with pytest.raises(ValueError, match='whose normalisation is damaged'):
        open_model(damaged)


def test_an_empty_vocabulary_file_is_named(tmp_path):
    (tmp_path / 'x.model').touch()
    with pytest.raises(UserError, match=r'x.model.* is empty, not a SentencePiece model: give'):
        Vocabulary.load(tmp_path / 'x.model')
