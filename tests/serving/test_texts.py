import pytest
from fake_translator import FakeTranslator

from transformer_jax.serving.texts import TextSplitter


def splitter(most):
    return TextSplitter(('en', 'fr'), FakeTranslator(), most)


@pytest.mark.parametrize(
    'text', ['', ' ', '\n\n', 'a', ' a b. C d.\r\n\n e ', 'a  b\tc d e f g h', 'a.' * 9]
)
def test_the_parts_and_what_is_between_them_are_the_text(text):
    for most in (2, 3, 100):
        parts = splitter(most)(text)
        assert parts.join(parts.segments) == text
        assert all(len(part.split()) < most for part in parts.segments)


def test_a_long_sentence_is_divided_between_words():
    assert splitter(3)('a b c d').segments == ('a b', 'c d')


def test_a_long_word_is_divided_in_itself():
    letters = FakeTranslator()
    letters.vocabulary.source.encode = lambda texts: [[*text, 'EOS'] for text in texts]
    parts = TextSplitter(('en', 'fr'), letters, 4)('abcdefgh')
    assert parts.segments == ('ab', 'cd', 'ef', 'gh')
    assert parts.join(parts.segments) == 'abcdefgh'


def test_every_part_has_the_tag_that_holds_and_room_for_it():
    split = TextSplitter(('en', 'de'), FakeTranslator('en', {'fr': '<2fr>', 'de': '<2de>'}), 4)
    parts = split('A b c d.\n7\n<2fr> E f. G!')
    assert parts.tagged() == ['<2de> A b', '<2de> c d.', '<2fr> E f.', '<2fr> G!']
    assert parts.join(parts.segments) == 'A b c d.\n7\nE f. G!'
