"""Texts divided into lines or sentences, and joined as they were."""

import random
import sys

import pytest

from transformer_jax.errors import UserError
from transformer_jax.translating.segments import (
    SegmentedText,
    SentenceSplitter,
    divide_templates,
    split_lines,
    split_text,
)

# What texts of the random tests are made of, many blanks and ends among them.
PARTS = [
    *' \t\n\r\u00a0\u202f\u3000\u2028\x0b\x0c\x85.!?…。！‼,;:()[]"“”«»\'-–1aZé中😀\u200b',
    *['\r\n', '  ', 'Dr. ', 'e.g. ', 'M. ', '2. ', 'The cat. ', 'I go! ', 'क।', 'word '],
]


def random_texts(count):
    dice = random.Random(0)
    yield from ('', ' ', '\n', '\r\n', ' \n\t\r\n ', 'no end', 'One. Two.')
    for _ in range(count):
        yield ''.join(dice.choices(PARTS, k=dice.randrange(30)))


@pytest.fixture(params=['lines', 'en', 'fr', 'zh-TW', 'xx', ''])
def split(request):
    """The function for lines, and those for the sentences of languages."""
    return split_lines if request.param == 'lines' else SentenceSplitter(request.param)


def test_joined_segments_are_the_text(split):
    for text in random_texts(5_000):
        found = split(text)
        assert found.join(found.segments) == text
        assert len(found.separators) == len(found.segments) + 1


def test_no_segment_is_empty_or_has_a_line_end_or_blanks_at_its_ends(split):
    for text in random_texts(5_000):
        found = split(text)
        for segment in found.segments:
            assert segment
            assert not {*segment} & {*'\r\n'}
            assert segment == segment.strip()


def test_separators_are_blanks_only(split):
    for text in random_texts(5_000):
        assert not ''.join(split(text).separators).strip()


@pytest.mark.parametrize('text', ['', ' ', '\u00a0\t', '\n', ' \r\n\r \n'])
def test_a_blank_text_has_no_segment_and_stays_as_it_is(split, text):
    found = split(text)
    assert found.segments == ()
    assert found.join([]) == text


def test_a_text_without_line_ends_is_one_line():
    for text in random_texts(5_000):
        if text.strip() and '\n' not in text and '\r' not in text:
            assert split_lines(text).segments == (text.strip(),)


@pytest.mark.parametrize('end', ['\n', '\r\n', '\r', '\n\n', ' \n\t'])
def test_lines_are_divided_at_their_ends(end):
    assert split_lines(f'One.{end}Two.') == SegmentedText(('One.', 'Two.'), ('', end, ''))


@pytest.mark.parametrize('blank', ['\u2028', '\u2029', '\x0b', '\x0c', '\x85', '\x1c', '\u00a0'])
def test_other_separators_of_unicode_do_not_end_a_line(blank):
    text = f'One{blank}two'
    assert split_lines(text).segments == (text,)


def test_outputs_take_the_place_of_their_segments():
    found = split_lines('  One.\r\n\n\tTwo. \n')
    assert found.join(['Un.', 'Deux.']) == '  Un.\r\n\n\tDeux. \n'


def test_a_missing_output_is_an_error():
    with pytest.raises(ValueError):
        split_lines('One.\nTwo.').join(['Un.'])


def test_sentences_without_a_blank_between_them_get_one_in_languages_that_have_it():
    found = SentenceSplitter('zh')('天气很好。我们走吧！好。')
    assert found.segments == ('天气很好。', '我们走吧！', '好。')
    assert found.join(['It is fine.', 'Let us go!', 'Good.']) == 'It is fine. Let us go! Good.'
    assert found.join(['晴れです。', '行こう！', 'はい。']) == '晴れです。行こう！はい。'


@pytest.mark.parametrize(
    ('language', 'sentences'),
    [
        ('en', ['Dr. Smith left the U.S. in 1999.', 'It cost $3.50, e.g. for tea.', 'Why?']),
        ('en', ['"Stop!" she said.', 'He did not...', 'Then he did.']),
        ('en', ['1. The first point.', '2. The second point.']),
        ('fr', ['Quel jour\u202f!', 'Il dit\u00a0: «\u00a0Viens\u202f!\u00a0»', 'Fin.']),
        ('fr', ['Je vois M. Dupont.', 'M. Petit dort.']),
        ('de', ['Am 3. Mai kam z. B. Dr. Braun.', 'Er blieb.']),
        ('DE_at', ['Am 3. Mai kam z. B. Dr. Braun.', 'Er blieb.']),
        ('es', ['¿Cómo estás?', '¡Bien!', 'El Sr. López vino.']),
        ('unknown', ['One sentence.', 'Another.']),
    ],
)
def test_sentences_end_where_a_reader_sees_their_end(language, sentences):
    assert [*SentenceSplitter(language)(' '.join(sentences)).segments] == sentences


def test_a_sentence_never_goes_on_after_a_line_end():
    found = SentenceSplitter('en')('The cat\nsleeps. It\r\ndreams.')
    assert found.segments == ('The cat', 'sleeps.', 'It', 'dreams.')


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, 'sentencex', None)
    with pytest.raises(UserError, match=r"sentencex: pip install -e '\.\[paragraphs\]'\."):
        SentenceSplitter('en')


@pytest.mark.parametrize(
    ('text', 'segments', 'separators'),
    [
        ('a', ('a',), ('', '')),
        ('Hi {% if x %}b{% else %} c{% endif %}, d.', ('Hi', 'b', 'c', 'd.'), None),
        ('<?php if ($n): ?>a<?php else: ?>b<?php endif; ?>', ('a', 'b'), None),
        ('{{#if x}}{{ y }}{{/if}}', ('{{ y }}',), None),
        ('a {% url "x" %} b', ('a {% url "x" %} b',), ('', '')),
        ('a {{ b }} {c}', ('a {{ b }} {c}',), ('', '')),
        ('{% else %}', (), ('{% else %}',)),
    ],
)
def test_commands_of_templates_divide_a_text(text, segments, separators):
    found = divide_templates(split_text(text, None))
    assert found.segments == segments
    assert found.join(found.segments) == text
    assert separators in (None, found.separators)


def test_parts_between_commands_are_no_sentences():
    found = divide_templates(split_text('See {% if x %}a car{% endif %} today.', None))
    outputs = ['Voir.', 'Une voiture.', "Aujourd'hui."]
    assert found.join(outputs) == "Voir {% if x %}une voiture{% endif %} aujourd'hui."


def test_commands_divide_random_texts_into_what_they_are():
    dice = random.Random(0)
    marks = ['{% if x %}', '{% else %}', '{% endif %}', '{{#a}}', '{{/a}}', '<% end %>', '{{ b }}']
    for _ in range(2_000):
        text = ''.join(dice.choices([*PARTS, *marks], k=dice.randrange(20)))
        found = divide_templates(split_lines(text))
        assert found.join(found.segments) == text
        assert all(x == x.strip() and x for x in found.segments)
