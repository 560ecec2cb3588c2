"""The table of pieces by id."""

from conversion.random_models import shared

from transformer_jax.conversion.piece_tables import piece_table
from transformer_jax.data.table_vocabulary import TableVocabulary


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
