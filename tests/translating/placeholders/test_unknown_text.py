"""Emoji and words in scripts that a vocabulary has no letters of."""

import string
from types import SimpleNamespace

import pytest
from growth import is_linear

from transformer_jax.translating.placeholders.patterns import Kind
from transformer_jax.translating.placeholders.unknown_text import UnknownText

# As that of a model of English and French in which a foreign letter or two has got.
LETTERS = frozenset(f'{string.ascii_letters}{string.digits}éèàç’а\U0001f600')


@pytest.fixture(scope='module')
def unknown():
    return UnknownText(SimpleNamespace(characters=LETTERS))


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('I love dogs 🐶 and cats.', ['🐶']),
        ('Good morning 😀', ['😀']),  # although the vocabulary has it
        ('Yes 👍🏽👩‍👩‍👧 🇫🇷 ❤️ no', ['👍🏽👩‍👩‍👧 🇫🇷 ❤️']),
        ('Press 1️⃣ or #️⃣.', ['1️⃣', '#️⃣']),
        ('A → B, ½ of it ☑', ['→', '½', '☑']),
        ('♪ I love you ♪', ['♪', '♪']),
        ('Moscow (Москва) is big.', ['Москва']),
        ('He said "Привет, как дела?" to me.', ['Привет, как дела']),
        ('My name is 山田太郎, not 田中.', ['山田太郎', '田中']),
        ('नमस्ते is a word', ['नमस्ते']),
        ('iPhone手机', ['手机']),
        ('١٢٣ is a number', ['١٢٣']),
    ],
)
def test_emoji_and_words_of_other_scripts_are_found(unknown, text, expected):
    assert [text[x.begin : x.end] for x in unknown.find(text)] == expected


@pytest.mark.parametrize(
    'text',
    ['Zażółć it.', 'It’s café, “çà” … — e\u0301', 'ﬁne: ｆｕｌｌ ①', 'a\u00a0b\u200b', 'Ünïcödé'],
)
def test_words_of_the_same_script_are_known_whatever_accents_they_have(unknown, text):
    assert unknown.find(text) == []


def test_words_are_names_in_a_sentence_and_emoji_are_signs(unknown):
    assert [x.kind for x in unknown.find('Я 😀')] == [Kind.NAME, Kind.SIGN]


@pytest.mark.parametrize('part', ['я', 'я ', '😀', '😀 ', 'a😀', '\u200d', '1\ufe0f', 'я😀'])
def test_they_are_found_in_linear_time(unknown, part):
    assert is_linear(unknown.find, lambda size: part * size, 2_000)
