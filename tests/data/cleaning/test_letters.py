"""Characters are those of readers, and numbers are read as in many countries."""

import unicodedata

import pytest

from transformer_jax.data.cleaning.letters import characters, readings


@pytest.mark.parametrize(
    'characters_with_spaces',
    ['a b', 'हि न् दी', 'นี้ น้ำ', 'e\u0301 a', 'مُ دَ', '❤️ a', 'م ی\u200c ر', '한 국'],
)
def test_signs_belong_to_the_character_before_them(characters_with_spaces):
    text = characters_with_spaces.replace(' ', '')
    assert ' '.join(characters(text)) == characters_with_spaces
    decomposed = unicodedata.normalize('NFD', text)
    assert len(characters(decomposed)) == len(characters(text))


@pytest.mark.parametrize(
    ('text', 'found'),
    [
        ('1 000', [['1000'], ['000', '1'], ['000', '1']]),
        ('2010 300', [['2010', '300']] * 3),
        ('12, 13', [['12', '13']] * 3),
        ('٣٫٥', [['35'], ['35'], ['3', '5']]),
        ('', [[]] * 3),
    ],
)
def test_a_number_is_read_in_each_way(text, found):
    assert list(readings(text)) == found
