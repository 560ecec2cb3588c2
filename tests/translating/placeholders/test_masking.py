"""Segments of which the translator does not see what is copied."""

from types import SimpleNamespace

import numpy as np
import pytest

from transformer_jax.config import DecodeConfig
from transformer_jax.translating.outputs import Translation
from transformer_jax.translating.placeholders.masking import MaskingTranslator
from transformer_jax.translating.segment_translator import Segment

DECODE = DecodeConfig()


class FakeSegments:
    """Gives texts back in upper case, except for stand-ins that it does not drop."""

    def __init__(self, dropped=(), code=()):
        letters = frozenset('▁abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789')
        side = SimpleNamespace(
            characters=letters, language_codes=code, encode=lambda x: [[0] * len(y) for y in x]
        )
        self.vocabulary = SimpleNamespace(source=side, target=side)
        self.calls, self._dropped = [], dropped

    def __call__(self, segments, decode, n_best=1, align=False, progress=False):
        self.calls.append([x.text for x in segments])
        return [[self._translation(x.text, n) for n in range(n_best)] for x in segments]

    def _translation(self, text, n):
        words = [x for x in text.split() if n == 0 or x.islower()]
        words = [x for x in words if x.strip('!') not in self._dropped]
        return Translation(' '.join(words), -1.0, (*words,), alignment=())


def translated(text, segments=None, **options):
    translate = MaskingTranslator(segments or FakeSegments())
    return [x.text for x in translate([Segment(text, 1)], DECODE, **options)[0]]


def test_the_translator_sees_a_number_for_a_number_and_a_name_for_a_name():
    segments = FakeSegments()
    text = 'you have %d messages from {name}, see https://a.org'
    assert translated(text, segments) == [text]
    assert segments.calls[0] == ['you have 25 messages from X, see Tom']


def test_a_stand_in_does_not_occur_in_the_text():
    segments = FakeSegments()
    assert translated('X has %d of 25', segments) == ['X has %d of 25']
    assert segments.calls[0] == ['X has 24 of 25']


def test_texts_without_placeholders_are_given_as_they_are_and_together():
    segments = FakeSegments()
    texts = ['a cat', 'see {a}', 'a dog']
    MaskingTranslator(segments)([Segment(x, 1) for x in texts], DECODE)
    assert segments.calls[0] == ['a cat', 'see X', 'a dog']


@pytest.mark.parametrize(
    'text',
    ['12 345,67', '***', '→ 1', '{name}', '%d%%', 'https://a.org/b', 'Привет, мир!', '😀', ' 42'],
)
def test_what_has_no_letters_that_the_model_knows_is_copied(text):
    segments = FakeSegments()
    found = MaskingTranslator(segments)([Segment(text, 1)], DECODE, align=True)
    words = tuple((k, k) for k in range(len(text.split())))
    assert found == [[Translation(text, 0.0, (), alignment=words)]]
    assert not any(segments.calls)


@pytest.mark.parametrize('text', ['', ' ', '\u200b', '\u00ad'])
def test_an_empty_text_is_left_to_the_translator(text):
    segments = FakeSegments()
    translated(text, segments)
    assert segments.calls[0] == [text]


def test_a_forced_beginning_is_obeyed_in_a_text_without_letters():
    segments = FakeSegments()
    MaskingTranslator(segments)([Segment('42', 1, prefix=np.zeros(1, np.int32))], DECODE)
    assert segments.calls[0] == ['42']


def test_other_stand_ins_are_tried_where_the_best_output_lacks_one():
    segments = FakeSegments(dropped=['X'])
    assert translated('dear {name} !', segments) == ['dear {name} !']
    assert segments.calls == [['dear X !'], ['dear Tom !']]


def test_a_placeholder_is_in_an_output_that_lacks_all_stand_ins():
    segments = FakeSegments(dropped=['X', 'Tom', 'IBM', 'BBC'])
    assert translated('{a} and {a} !', segments) == ['{a} and {a} !']


def test_outputs_of_one_text_are_one():
    assert translated('see {a}', n_best=2) == ['see {a}']
    assert len(translated('see A', n_best=2)) == 2


def test_a_model_of_many_languages_needs_no_code_before_a_stand_in():
    assert translated('>>fra<< see {a}', FakeSegments(code=('>>fra<<',))) == ['>>fra<< see {a}']
