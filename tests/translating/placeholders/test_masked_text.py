"""Stand-ins in place of placeholders, and placeholders in place of stand-ins."""

import pytest
from growth import is_linear

from transformer_jax.translating.outputs import Translation
from transformer_jax.translating.placeholders.masked_text import Masked, MaskedText


def masked(text, **stand_ins):
    """Return a text of which each word in {} is masked; the stand-in is '' if none is given."""
    places, at = [], 0
    while (begin := text.find('{', at)) >= 0:
        at = text.index('}', begin) + 1
        places.append(Masked(begin, at, stand_ins.get(text[begin + 1 : at - 1], '')))
    return MaskedText(text, places)


def restored(text, output, *alignment):
    return text.restored(Translation(output, -1.0, ('x',), alignment=alignment), align=True)


def test_the_model_sees_stand_ins_and_no_signs():
    assert masked('Dear {a},  see {b}, {c} or ({d}).', a='Tom', d='Oslo').text == (
        'Dear Tom, see, or (Oslo).'
    )


@pytest.mark.parametrize(
    ('output', 'expected'),
    [
        ('Bonjour, Tom !', 'Bonjour, {a} !'),
        ("L'ami de Tom.", "L'ami de {a}."),
        ('Tom, mon Tom !', '{a}, mon !'),  # it is there once
        ('Bonjour, {a} !', 'Bonjour, {a} !'),  # from a forced beginning
        ('{a} ! Tom', '{a} !'),
    ],
)
def test_a_placeholder_takes_the_place_of_its_stand_in(output, expected):
    assert restored(masked('Hello, {a}!', a='Tom'), output).text == expected


@pytest.mark.parametrize(
    ('output', 'alignment', 'expected'),
    [
        ('Il y a vingt-cinq pommes ici.', [(2, 3), (3, 4)], 'Il y a {n} pommes ici.'),
        ('Des pommes ici.', [(3, 1), (4, 2)], 'Des pommes {n} ici.'),
        ('Il y a 254 pommes.', [(2, 3), (3, 4)], 'Il y a {n} pommes.'),
        ('!', [(2, 0)], '{n}!'),
        ('', [], '{n}'),
    ],
)
def test_without_its_stand_in_the_alignment_says_where_it_goes(output, alignment, expected):
    text = masked('There are {n} apples here.', n='25')
    assert text.needs_alignment(output)
    assert restored(text, output, *alignment).text == expected


@pytest.mark.parametrize(
    ('source', 'output', 'expected'),
    [
        ('I love dogs {s} and cats.', "J'aime les chiens et les chats.", 'chiens {s} et'),
        ('{s} I love dogs.', "J'aime les chiens.", "{s} J'aime les chiens."),
        ('I love dogs. {s}', "J'aime les chiens.", 'chiens. {s}'),
    ],
)
def test_a_sign_stays_beside_its_word(source, output, expected):
    text = masked(source)
    alignment = (1, 0), (2, 1), (2, 2), (3, 3), (4, 4), (4, 5)
    pairs = [(s, t) for s, t in alignment if t < len(output.split())]
    assert expected in restored(text, output, *pairs).text


def test_the_alignment_is_that_of_the_whole_texts():
    text = masked('{s} I see {a b} now, {c}.', **{'a b': 'Oslo', 'c': 'Tom'})
    assert text.text == 'I see Oslo now, Tom.'
    found = restored(text, 'Tom, je vois Oslo.', (4, 0), (0, 1), (1, 2), (2, 3))
    assert found.text == '{s} {c}, je vois {a b}.'
    assert found.alignment == ((0, 0), (1, 2), (2, 3), (3, 4), (4, 5), (6, 1))


def test_score_and_pieces_are_those_of_the_model():
    found = masked('See {a}.', a='Tom').restored(Translation('Voir Tom.', -1.0, ('x',)), False)
    assert found == Translation('Voir {a}.', -1.0, ('x',))


def test_an_output_is_complete_if_each_stand_in_is_there_once():
    text = masked('See {a} and {n}.', a='Tom', n='25')
    assert text.is_complete('Tom 25')
    for output in ('Tom', '25 Tom Tom', 'Tomas 25', 'Tom 1.25', 'Tom 25,000', 'Tom 325'):
        assert text.is_complete(output) == (output == 'Tom 1.25')


@pytest.mark.parametrize('part', ['{a} b ', 'b {a}', 'b {a} '])
def test_a_long_text_takes_no_long_time(part):
    def make(size):
        words = part * size
        return masked(words), words.replace('{a}', 'c')

    def work(arguments):
        text, output = arguments
        pairs = [(k, k) for k in range(len(text.text.split()))]
        text.restored(Translation(output, 0.0, (), alignment=pairs), align=True)

    assert is_linear(work, make, 500)
