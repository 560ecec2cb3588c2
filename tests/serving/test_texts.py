import pytest

from transformer_jax.serving.texts import TextSplitter


def splitter(most):
    return TextSplitter('en', lambda texts: [len(text.split()) + 1 for text in texts], most)


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
    letters = TextSplitter('en', lambda texts: [len(text) + 1 for text in texts], 4)
    parts = letters('abcdefgh')
    assert parts.segments == ('ab', 'cd', 'ef', 'gh')
    assert parts.join(parts.segments) == 'abcdefgh'
