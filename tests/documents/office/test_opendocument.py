import io
import random
import zipfile

import pytest
from growth import is_linear
from office_files import open_document, part_of, same, text_of, translated, with_gaps

from transformer_jax.documents.office.opendocument import OpenDocument
from transformer_jax.errors import UserError

BOLD = ('<text:span text:style-name="T1">', '</text:span>')
LINK = ('<text:a xlink:href="x">', '</text:a>')


@pytest.mark.parametrize(
    'source',
    [
        '<text:p>a</text:p>',
        '<text:h text:outline-level="1">a &lt;b&gt; &amp; c</text:h>',
        f'<text:p>a {BOLD[0]}b c{BOLD[1]}, d</text:p>',
        f'<text:p>a {LINK[0]}b {BOLD[0]}c{BOLD[1]}{LINK[1]} d</text:p>',
        '<text:p><text:s text:c="3"/>a<text:tab/>b<text:line-break/>c</text:p>',
        '<text:p>a<draw:frame><draw:image xlink:href="y"/></draw:frame> b</text:p>',
        '<text:p><text:bookmark-start text:name="b"/>b<text:bookmark-end text:name="b"/></text:p>',
        '<text:p>a <text:page-number>1</text:page-number> b</text:p>',
        f'<text:p>a{BOLD[0].replace(">", "/>")} b</text:p>',
    ],
)
def test_formats_stay_where_words_stay(source):
    assert text_of(translated(OpenDocument(open_document(source)), same)) == source


@pytest.mark.parametrize(
    ('source', 'expected'),
    [
        (f'a {BOLD[0]}b c{BOLD[1]}', f'{BOLD[0]}C B{BOLD[1]} A'),
        (f'a {LINK[0]}b{LINK[1]}!', f'{LINK[0]}B{LINK[1]}! A'),
        ('a <draw:frame/>b', '<draw:frame/>B A'),
        ('a b<text:tab/>c d', 'B A<text:tab/>D C'),
        ('a<text:s/>b\n  c', 'C B A'),
        (f'a {LINK[0]}www.a.org{LINK[1]} b', f'B {LINK[0]}www.a.org{LINK[1]} A'),
        ('a <text:soft-page-break/>b', 'B A'),
        (
            'a <text:bookmark-start text:name="x"/>b<text:bookmark-end text:name="x"/> c',
            'C <text:bookmark-start text:name="x"/>B<text:bookmark-end text:name="x"/> A',
        ),
    ],
)
def test_formats_follow_their_words(source, expected):
    found = translated(OpenDocument(open_document(f'<text:p>{source}</text:p>')))
    assert text_of(found) == f'<text:p>{expected}</text:p>'


def test_paragraphs_are_found_wherever_they_are():
    source = (
        '<text:p>{}<text:note><text:p>{}</text:p></text:note></text:p>'
        '<text:p><draw:text-box><text:p>{}</text:p></draw:text-box></text:p>'
        '<table:table><table:table-cell><text:p>{}</text:p></table:table-cell></table:table>'
    )
    texts = ['a b', 'the note', 'the box', 'cell']
    header = '<style:header><text:p>header</text:p></style:header>'
    found = OpenDocument(open_document(source.format(*texts), styles=header))
    assert found.texts == [*texts, 'header']
    out = translated(found)
    assert text_of(out) == source.format('B A', 'NOTE THE', 'BOX THE', 'CELL')
    assert '>HEADER<' in part_of(out, 'styles.xml')


def test_comments_and_deleted_texts_stay():
    source = (
        '<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>'
        '<text:p><office:annotation><text:p>comment</text:p></office:annotation>1</text:p>'
    )
    found = OpenDocument(open_document(source))
    assert found.texts == []
    assert text_of(found.translated([])) == source


def test_styles_that_look_the_same_are_one():
    style = '<style:style style:name="{}" style:family="text"><style:text-properties {}/>'
    style += '</style:style>'
    bold = 'fo:font-weight="bold"'
    styles = [('T1', bold), ('T2', f'{bold} fo:language="fr"'), ('T3', 'fo:country="FR"')]
    source = '<text:p>{}</text:p>'.format(
        ''.join(f'<text:span text:style-name="{x}">{x}</text:span> ' for x, _ in styles)
    )
    declarations = ''.join(style.format(*x) for x in styles)
    found = translated(OpenDocument(open_document(source, declarations=declarations)))
    assert text_of(found) == f'<text:p>T3 {BOLD[0]}T2 T1{BOLD[1]} </text:p>'


def test_all_other_parts_are_the_same():
    data = open_document('<text:p>a</text:p>')
    before, after = (zipfile.ZipFile(io.BytesIO(x)) for x in (data, translated(OpenDocument(data))))
    for first, second in zip(before.infolist(), after.infolist(), strict=True):
        assert first.filename == second.filename
        assert first.compress_type == second.compress_type
        if first.filename != 'content.xml':
            assert before.read(first) == after.read(second)


def encrypted():
    source, out = zipfile.ZipFile(io.BytesIO(open_document(''))), io.BytesIO()
    with zipfile.ZipFile(out, 'w') as archive:
        for name in source.namelist():
            content = source.read(name).decode()
            entry = '<manifest:file-entry><manifest:encryption-data/></manifest:file-entry>'
            archive.writestr(name, content.replace('</manifest:m', f'{entry}</manifest:m'))
    return out.getvalue()


@pytest.mark.parametrize(
    ('data', 'message'),
    [
        (b'hello', 'no .odt file'),
        (open_document('', media_type='spreadsheet'), 'no .odt file'),
        (encrypted(), 'password'),
        (open_document('<text:p>'), 'damaged'),
    ],
)
def test_what_is_no_text_is_refused(data, message):
    with pytest.raises(UserError, match=message):
        OpenDocument(data)


def test_damaged_files_are_refused_or_translated():
    data = open_document(f'<text:p>a {BOLD[0]}b{BOLD[1]}<text:s text:c="2"/></text:p>')
    draw = random.Random(0)
    refused = 0
    for _ in range(500):
        damaged = bytearray(data)
        damaged[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        try:
            translated(OpenDocument(bytes(damaged)))
        except UserError:
            refused += 1
    assert refused > 200


@pytest.mark.parametrize(
    'part',
    [
        f'a {BOLD[0]}b {BOLD[1]}',
        f'{LINK[0] * 40}a {LINK[1] * 40}',
        '  a<text:s/>',
        'a<text:note/> ',
        f'a<draw:frame/><text:bookmark-start text:name="x"/>{BOLD[0]}{BOLD[1]}',
    ],
)
def test_a_long_paragraph_takes_no_long_time(part):
    def make(size):
        return open_document(f'<text:p>{part * (size // part.count("<"))}</text:p>')

    assert is_linear(lambda data: translated(OpenDocument(data), with_gaps), make, 3_000)
