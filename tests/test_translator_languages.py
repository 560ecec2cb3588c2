"""A translator into several languages: each text begins with the code of one."""

import pytest
from tiny_run import TEXTS

from transformer_jax.data.table_vocabulary import TableVocabulary
from transformer_jax.data.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError
from transformer_jax.translator import Translator

pytestmark = pytest.mark.usefixtures('programs_kept')


@pytest.fixture(scope='module')
def into_french(translator):
    """The trained model, with a language code in the place of a byte that no text has."""
    plain = translator.vocabulary.source
    pieces = ['<pad>', '</s>', '<unk>', *plain.pieces(range(3, plain.size))]
    pieces[3] = '>>fra<<'
    sides = (TableVocabulary(plain.model, pieces, is_source=x) for x in (True, False))
    return Translator(translator.config, VocabularyPair(*sides), translator.network.params[0])


def test_a_text_needs_a_code(into_french):
    with pytest.raises(UserError, match=r'must begin with the language .*, one of >>fra<<'):
        into_french(TEXTS[:2])
    assert into_french('') == ''


def test_the_code_of_a_text_holds_for_all_its_lines(into_french):
    apart = into_french.translate([f'>>fra<< {text}' for text in TEXTS[1:3]], align=True)
    [[both]] = into_french.translate([f'>>fra<< {TEXTS[1]}\n{TEXTS[2]}'], align=True)
    (first,), (second,) = apart
    assert both.text == f'{first.text}\n{second.text}'
    # The second line begins with a word less than alone, because it has no code.
    words, outputs = 1 + len(TEXTS[1].split()), len(first.text.split())
    moved = {(words + s - 1, outputs + t) for s, t in second.alignment if s}
    assert both.alignment == tuple(sorted({*first.alignment} | moved))


def test_scores_take_the_code_with_the_source(into_french, translator):
    source = f'>>fra<< {TEXTS[0]}'
    [[output]] = into_french.translate([source])
    (score,) = into_french.score([source], [output.text])
    (without,) = translator.score([TEXTS[0]], [output.text])
    assert score.pieces == without.pieces
    assert score.log_prob != without.log_prob
