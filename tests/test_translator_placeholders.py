"""Placeholders are copied, once each, whatever options a text is translated with."""

import pytest

from transformer_jax.translator import Sampling

pytestmark = pytest.mark.usefixtures('programs_kept')
TEXT = 'The {name} cat sleeps 😀.'


@pytest.mark.parametrize(
    'options',
    [
        {},
        {'n_best': 2},
        {'n_best': 2, 'mbr': 'chrf'},
        {'n_best': 3, 'sampling': Sampling()},
        {'prefixes': ['{name} le']},
        {'max_source_length': 3},
        {'align': True},
    ],
    ids=str,
)
def test_a_placeholder_is_in_each_output_once(translator, options):
    for output in translator.translate([TEXT], **options)[0]:
        assert output.text.count('{name}') == output.text.count('😀') == 1


def test_lines_without_letters_are_copied(translator):
    assert translator(['12 345,67', '***']) == ['12 345,67', '***']
    assert translator('The cat sleeps.\n{x}\n').split('\n')[1] == '{x}'


def test_an_option_turns_it_off(translator):
    assert translator('***', placeholders=False) != '***'
