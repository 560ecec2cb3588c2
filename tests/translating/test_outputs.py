"""The outputs of a text, put together from those of its sentences."""

import numpy as np

from transformer_jax.translating.batch_decoder import DecodeResult
from transformer_jax.translating.outputs import Translation, distinct, join, pharaoh
from transformer_jax.translating.segments import SegmentedText


def translation(text, score, alignment=None):
    return Translation(text, score, tuple(text.split()), False, alignment)


def test_outputs_of_the_same_text_are_put_together_under_the_first():
    tokens = np.array([[5, 1], [6, 1], [5, 1], [7, 1], [8, 1]])
    scores = np.array([-1.0, -2.0, -3.0, -np.inf, -4.0])
    result = DecodeResult(0, tokens, scores, scores)
    names = {5: 'a', 6: 'b', 8: 'c'}
    decode = lambda ids: names[ids[0]]  # noqa: E731
    assert distinct(result, decode, 9) == {'a': [0, 2], 'b': [1], 'c': [4]}
    assert distinct(result, decode, 2) == {'a': [0], 'b': [1]}


def test_the_nth_output_joins_the_nth_of_each_sentence_or_its_last():
    text = SegmentedText(('A.', 'B.'), ('', '  ', '\n'))
    outputs = [[translation('x', -1.0), translation('y', -2.0)], [translation('z', -0.5)]]
    first, second = join(text, outputs, align=False)
    assert (first.text, first.score, first.tokens) == ('x  z\n', -1.5, ('x', 'z'))
    assert (second.text, second.score) == ('y  z\n', -2.5)
    assert first.alignment is None


def test_a_text_without_sentences_stays_as_it_is():
    [output] = join(SegmentedText((), (' \n',)), [], align=True)
    assert (output.text, output.alignment) == (' \n', ())


def test_words_are_counted_through_the_text():
    text = SegmentedText(('a b.', 'c.'), (' ', ' ', ''))
    outputs = [[translation('x.', 0.0, ((0, 0),))], [translation('y z.', 0.0, ((0, 0), (0, 1)))]]
    [output] = join(text, outputs, align=True)
    assert output.alignment == ((0, 0), (2, 1), (2, 2))


def test_sentences_without_a_blank_between_them_share_a_word():
    # Words 0 to 2: a, b.c and d.
    text = SegmentedText(('a b.', 'c d.'), ('', '', ''))
    alignment = ((0, 0), (1, 1))
    outputs = [[translation('x y.', 0.0, alignment)], [translation('z w.', 0.0, alignment)]]
    [output] = join(text, outputs, align=True)
    assert output.alignment == ((0, 0), (1, 1), (2, 2))


def test_pharaoh_lists_pairs_of_source_and_target():
    assert pharaoh(((0, 0), (1, 2))) == '0-0 1-2'
    assert pharaoh(()) == ''
