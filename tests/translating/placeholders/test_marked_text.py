import pytest
from growth import is_linear

from transformer_jax.translating.placeholders.marked_text import MarkedText, Piece


@pytest.mark.parametrize(
    'is_aligned',
    [lambda k: True, lambda k: k % 3, lambda k: k < 100, lambda k: False],
    ids=['all', 'two thirds', 'the first', 'none'],
)
def test_a_long_text_takes_no_long_time(is_aligned):
    def make(size):
        pieces = [Piece('a '), Piece('b', ('mark',)), Piece(' ')] * (size // 2)
        return pieces, 'b a ' * (size // 2), [(k ^ 1, k) for k in range(size) if is_aligned(k)]

    def work(arguments):
        pieces, output, alignment = arguments
        MarkedText(pieces).translated(output, alignment)

    assert is_linear(work, make, 3_000)


@pytest.mark.parametrize('character', ['.', 'a'])
def test_a_long_word_takes_no_long_time(character):
    def work(text):
        MarkedText([Piece(f'a{text}a')]).translated(text, [(0, 0)])

    assert is_linear(work, lambda size: character * size, 4_000)


@pytest.mark.parametrize('word', ['बिल्ली', 'கொடு', 'ที่', 'كتابُ', 'caf' + 'e\u0301'])
def test_a_vowel_sign_belongs_to_its_letter(word):
    text = MarkedText([Piece('the '), Piece('cat', ('b',)), Piece('.')])
    found = text.translated(f'a {word}.', [(0, 0), (1, 1)])
    assert ''.join(piece.text for piece in found if piece.marks == ('b',)) == word
