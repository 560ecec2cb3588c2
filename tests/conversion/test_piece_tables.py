"""The table of pieces by id."""

import pytest
from conversion.random_models import shared

from transformer_jax.conversion.piece_tables import piece_table, read_table
from transformer_jax.data.vocabulary.table_vocabulary import TableVocabulary
from transformer_jax.errors import UserError


def test_pieces_are_in_the_order_of_ids():
    vocabulary = shared().source
    table = piece_table(vocabulary)
    assert table[:3] == ['<pad>', '</s>', '<unk>']
    assert len(table) == len({*table}) == vocabulary.size
    ids = vocabulary.encode(['The cat sleeps.'])[0]
    assert [table[k] for k in ids[:-1]] == vocabulary.pieces(ids)


def test_a_second_piece_of_a_special_name_gets_another_name():
    table = ['padding', '</s>', '<unk>', '<pad>', '▁cat']
    vocabulary = TableVocabulary(shared().source.model, table, is_source=True)
    assert piece_table(vocabulary) == ['<pad>', '</s>', '<unk>', '<unused_3>', '▁cat']


def test_a_piece_that_yaml_writes_on_a_line_of_its_own_is_read(tmp_path):
    path = tmp_path / 'vocab.yml'
    path.write_bytes('a: 0\n? \'\x85  \'\n: 1\n? "b: c"\n: 2\n?: 3\n: 4\n'.encode())
    assert read_table(path) == {'a': 0, '\x85  ': 1, 'b: c': 2, '?': 3, '': 4}


@pytest.mark.parametrize('text', ['? a\n', '? a\nb: 1\n', '? a\n? b\n: 1\n', '? a\n: b\n'])
def test_a_piece_without_an_id_is_refused(tmp_path, text):
    path = tmp_path / 'vocab.yml'
    path.write_text(text)
    with pytest.raises(UserError, match='is not a table of pieces and their ids'):
        read_table(path)
