import pytest
from fake_translator import upper
from growth import is_linear

from transformer_jax.documents.subtitles import Subtitles
from transformer_jax.errors import UserError
from transformer_jax.translating.outputs import Translation


def file_of(*contents, pause=0):
    """Return subtitles of two seconds each."""
    starts = [k * (2 + pause) for k in range(len(contents))]
    return ''.join(
        f'{k}\n00:00:{start:02},000 --> 00:00:{start + 2:02},000\n{text}\n\n'
        for k, (start, text) in enumerate(zip(starts, contents, strict=True), 1)
    )


def translated(source, *outputs):
    """Return the file with these outputs, aligned word by word with the texts."""
    found = Subtitles(source)
    outputs = outputs or [upper(x) for x in found.texts]
    counts = [
        min(len(x.split()), len(y.split())) for x, y in zip(found.texts, outputs, strict=True)
    ]
    return found.translated(
        [
            Translation(output, 0.0, (), alignment=tuple((k, k) for k in range(count)))
            for output, count in zip(outputs, counts, strict=True)
        ]
    )


@pytest.mark.parametrize(
    ('source', 'expected'),
    [
        ('A cat.', 'A CAT.'),
        ('{\\an8}<i>A cat.</i>', '{\\an8}<i>A CAT.</i>'),
        ('<font color="red">A</font> cat.', '<font color="red">A</font> CAT.'),
        ('- A cat.\n- A dog.', '- A CAT.\n- A DOG.'),
        ('A & b < c', 'A & B < C'),
        ('https://a.org/b', 'https://a.org/b'),
        ('See <i>www.a.org</i> now.', 'SEE <i>www.a.org</i> NOW.'),
        ('\u266a A cat \u266a', '\u266a A CAT \u266a'),
        ('\u266a 12:30 \u266a', '\u266a 12:30 \u266a'),
        ('A big cat\nand a dog.', 'A BIG CAT\nAND A DOG.'),
        ('</i>A <b>cat', '</i>A <b>CAT</b>'),
        ('- How old?\n- 42.', '- HOW OLD?\n- 42.'),
        ('<i>- A cat.</i>\n<i>- A dog.</i>', '<i>- A CAT.</i>\n<i>- A DOG.</i>'),
        ('What?\n- Nothing.', 'WHAT?\n- NOTHING.'),
        ('Hello.\\NI see.', 'HELLO.\nI SEE.'),
        ('A cat.<br>A dog.', 'A CAT.\nA DOG.'),
        (
            'A <s>b</s> <em>c</em> <span class="x">d</span>',
            'A <s>B</s> <EM>C</EM> <span class="x">D</span>'.replace('EM', 'em'),
        ),
        ('<v Tom>A <c.red>cat</c>.</v>', '<v Tom>A <c.red>CAT</c>.</v>'),
        ('{\\i1}A{\\i0} cat.', '{\\i1}A{\\i0} CAT.'),
        ('A {\\i1}big cat{\\i0}.', 'A {\\i1}BIG CAT{\\i0}.'),
        ('A\\hcat', 'A CAT'),
        ('a &amp; b&#39;s &lt;c', "A &amp; B'S &lt;C"),
        ('<i>- A cat.\n- A dog.</i>', '<i>- A CAT.</i>\n<i>- A DOG.</i>'),
        ('<i>- 42.\n- A dog.</i>', '<i>- 42.</i>\n<i>- A DOG.</i>'),
    ],
)
def test_formats_and_lines_stay(source, expected):
    assert translated(file_of(source)) == file_of(expected)


def test_numbers_times_and_line_ends_stay():
    source = '7\r\n01:02:03,004 --> 01:02:05,600 X1:10\r\nA cat.\r\n\r\n'
    assert translated(source) == source.replace('A cat.', 'A CAT.')


@pytest.mark.parametrize(
    'times',
    [
        '0:00:01.500000 --> 0:00:03',
        '00:00:09,9 --> 00:00:11,65',
        '00:00:12.4 - > 00：00：13，25 X1:10',
    ],
)
def test_times_stay_as_they_are_written(times):
    assert translated(f'1\n{times}\nA cat.\n') == f'1\n{times}\nA CAT.\n'


def test_digits_after_the_seconds_are_a_fraction():
    texts = file_of('I have seen', 'a house').replace('00:00:02,000 -->', '00:00:02,500000 -->')
    assert len(Subtitles(texts).texts) == 1


@pytest.mark.parametrize(
    'text', ['It was\n\n12.05.2024 at night.', 'Room\n7\n10:30:15 is too early.']
)
def test_a_text_may_look_like_a_time(text):
    found = translated(file_of(text, 'A cat.'))
    assert found.count('-->') == 2
    assert text.split('\n')[-1].split()[0] in found


def test_a_number_is_not_joined_with_the_next_subtitle():
    assert Subtitles(file_of('5', 'and now')).texts == ['and now']


def test_subtitles_without_numbers_get_none():
    source = '00:00:01,000 --> 00:00:02,000\nA cat.\n\n00:00:03,000 --> 00:00:04,000\nA dog.\n'
    assert translated(source) == source.replace('cat', 'CAT').replace('dog', 'DOG')


def test_a_sentence_that_goes_on_is_translated_as_a_whole():
    source = file_of('I have seen', 'a <i>red</i> house.', 'It is old.')
    assert Subtitles(source).texts == ['I have seen a red house.', 'It is old.']
    assert translated(source) == file_of('I HAVE SEEN', 'A <i>RED</i> HOUSE.', 'IT IS OLD.')


def test_a_format_may_go_on_in_the_next_subtitle():
    source = file_of('<i>I think', 'you are right.</i>')
    assert translated(source) == file_of('<i>I THINK</i>', '<i>YOU ARE RIGHT.</i>')


def test_the_word_i_may_go_on_with_a_sentence():
    assert len(Subtitles(file_of('If you go with us', "I'll wait.")).texts) == 1


def test_signs_stay_with_their_word():
    output = translated(file_of('Where are\nyou going?'), 'Où allez-vous donc ?')
    assert '\n?' not in output
    output = translated(file_of('do you', 'like it?'), 'aimez-vous ?')
    assert output == file_of('aimez-vous ?', '')


@pytest.mark.parametrize('end', ['', '\n', '\n\n\n'])
def test_the_end_of_the_file_stays(end):
    source = file_of('A cat.').rstrip('\n') + end
    assert translated(source) == source.replace('A cat.', 'A CAT.')


@pytest.mark.parametrize(
    'source',
    [
        file_of('I have seen.', 'a house'),
        file_of('I have seen', 'A house'),
        file_of('I have seen', '- a house'),
        file_of('I have seen', 'a house', pause=2),
    ],
)
def test_other_subtitles_are_translated_apart(source):
    assert len(Subtitles(source).texts) == 2


def test_a_translation_is_divided_where_the_alignment_says_so():
    found = Subtitles(file_of('the big red', 'house stands'))
    # Words of the first subtitle are around one of the second.
    alignment = ((0, 0), (3, 1), (1, 2), (2, 3), (4, 4))
    output = Translation('la maison grande rouge est', 0.0, (), alignment=alignment)
    assert found.translated([output]) == file_of('la maison grande rouge', 'est')


@pytest.mark.parametrize(('output', 'expected'), [('un', ('un', '')), ('', ('', ''))])
def test_fewer_words_than_subtitles_lose_none(output, expected):
    assert translated(file_of('the red', 'house stands'), output) == file_of(*expected)


def test_a_long_translation_gets_a_second_line():
    output = 'une phrase qui est beaucoup plus longue que celle de la source'
    (first, second) = translated(file_of('Short.'), output).split('\n')[2:4]
    assert f'{first} {second}' == output
    assert abs(len(first) - len(second)) < 12


FIRST, SECOND = '00:00:00,000 --> 00:00:02,000', '00:00:02,000 --> 00:00:04,000'


@pytest.mark.parametrize(
    'source',
    [
        f'{FIRST}\nA cat.\n\n{SECOND}\nA dog.\n',
        f'1\n{FIRST}\nA cat.\n2\n{SECOND}\nA dog.',
        f'\ufeff\n 1\n{FIRST}\n\nA cat.\n\n\n\n2 \n\n{SECOND}\nA dog.\n',
        f'1.\r\r\n{FIRST}\r\r\nA cat.\r\r\n\r\r\n-2.5\r\r\n{SECOND}\r\r\nA dog.\r\r\n',
        f'1\n{FIRST.replace(",", ".")}\nA cat.\n\n2\n{SECOND.replace(" --> ", "- >  ")}\nA dog.',
        f'1\n{FIRST}\nA\n\ncat.\n \n2\n0:0:2 --> 0：0：3，1000X1:10\nA dog.',
    ],
    ids=['no numbers', 'no blank lines', 'blanks', 'line ends', 'signs', 'blank line in a text'],
)
def test_odd_files_are_read(source):
    assert Subtitles(source).texts == ['A cat.', 'A dog.']


def test_a_number_can_be_a_text():
    source = file_of('42', '7')
    assert translated(source) == source


def test_a_subtitle_can_be_empty():
    source = file_of('', 'A cat.')
    assert translated(source) == source.replace('A cat.', 'A CAT.')


def test_a_damaged_time_is_named():
    source = file_of('A cat.', 'A dog.').replace('00:00:02,000 -->', '00:00:02,000 ->')
    with pytest.raises(UserError, match=r"line 5: '2\\n00:00:02,000 -> "):
        Subtitles(source)


def test_tags_beyond_the_limit_keep_their_place():
    source = file_of('<b>' * 40 + 'A cat.' + '</b>' * 40)
    assert translated(source) == source.replace('A cat.', 'A CAT.')


@pytest.mark.parametrize('part', ['\n', '\\N', '<', '{'])
def test_a_file_with_too_many_parts_is_refused(part):
    with pytest.raises(UserError, match='more than 200,000 lines and tags: divide it into several'):
        Subtitles(part * 200_001)
    with pytest.raises(UserError, match='no subtitles'):
        Subtitles('a' + part * 199_999)


@pytest.mark.parametrize(
    ('make', 'size'),
    [
        (lambda n: '0' * n, 100),
        (lambda n: file_of(f'a\n{"0" * n}a'), 300),
        (lambda n: '\n' * n, 1000),
        (lambda n: f'0:0:{"0" * n}', 300),
        (lambda n: file_of('<b' * n), 3000),
        (lambda n: file_of('{\\' * n), 3000),
        (lambda n: file_of('a' + ' "' * n + ' a', 'a'), 1000),
        (lambda n: file_of('<b>' * n + 'a'), 2000),
        (lambda n: file_of('<b>a ' * n), 1000),
        (lambda n: file_of('a ' * n), 500),
        (lambda n: file_of('a ' * n, 'a ' * n), 500),
        (lambda n: file_of('a ' * n + f'{"b" * n} ' * 3), 500),
    ],
    ids=[
        'digits',
        'digits of a text',
        'blank lines',
        'digits of a time',
        'tags without an end',
        'places without an end',
        'signs within a sentence',
        'open tags',
        'open tags with words',
        'words',
        'words of two subtitles',
        'long words',
    ],
)
def test_hostile_subtitles_take_no_long_time(make, size):
    def work(source):
        try:
            found = Subtitles(source)
        except UserError:
            return
        alignments = [tuple((k, k) for k in range(len(x.split()))) for x in found.texts]
        found.translated(
            [
                Translation(x, 0.0, (), alignment=alignment)
                for x, alignment in zip(found.texts, alignments, strict=True)
            ]
        )

    assert is_linear(work, make, size)


@pytest.mark.parametrize('source', ['a cat', '1\n00:00 --> x\na', '1\n'])
def test_another_file_is_refused(source):
    with pytest.raises(UserError, match='no subtitles in the format SubRip'):
        Subtitles(source)


def test_an_empty_file_stays_empty():
    assert translated('') == ''
