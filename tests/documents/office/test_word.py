import io
import random
import zipfile

import pytest
from growth import is_linear
from office_files import (
    body_of,
    part_of,
    reversed_words,
    same,
    translated,
    with_gaps,
    word_file,
    zip_of,
)

from transformer_jax.documents.office.word import WordDocument
from transformer_jax.errors import UserError
from transformer_jax.translating.outputs import Translation

BOLD = '<w:b/>'
LINK = ('<w:hyperlink r:id="r1">', '</w:hyperlink>')


def run(text, properties=''):
    """Return a run as `WordDocument` writes it."""
    properties = properties and f'<w:rPr>{properties}</w:rPr>'
    return f'<w:r>{properties}<w:t xml:space="preserve">{text}</w:t></w:r>'


def holding(element, properties=''):
    """Return a run that has no text."""
    properties = properties and f'<w:rPr>{properties}</w:rPr>'
    return f'<w:r>{properties}{element}</w:r>'


def field(code, result):
    """Return a field."""
    begin, separate, end = (
        holding(f'<w:fldChar w:fldCharType="{x}"/>') for x in ('begin', 'separate', 'end')
    )
    return f'{begin}{holding(f"<w:instrText>{code}</w:instrText>")}{separate}{result}{end}'


def paragraph(*content):
    return f'<w:p>{"".join(content)}</w:p>'


@pytest.mark.parametrize(
    'content',
    [
        [run('a')],
        ['<w:pPr><w:pStyle w:val="Heading1"/></w:pPr>', run('a b')],
        [run('a '), run('b c', BOLD), run(', d '), run('e', '<w:i/><w:sz w:val="30"/>')],
        [run('a '), LINK[0], run('b', '<w:u w:val="single"/>'), LINK[1], run(' c')],
        [LINK[0], run('a '), run('b', BOLD), LINK[1]],
        [run('a'), holding('<w:footnoteReference w:id="2"/>', '<w:vertAlign/>'), run(' b')],
        [run('a '), holding('<w:drawing><x/></w:drawing>'), run(' b')],
        [run('a', BOLD), holding('<w:tab/>', BOLD), run('b'), holding('<w:br/>'), run('c')],
        [run('a '), field(' PAGE ', run('1')), run(' b')],
        [run('a '), field(' HYPERLINK "x" ', run('b', BOLD)), run(' c')],
        [run('a '), '<w:fldSimple w:instr="DATE">', run('today'), '</w:fldSimple>', run(' b')],
        ['<w:bookmarkStart w:id="0" w:name="n"/>', run('a'), '<w:bookmarkEnd w:id="0"/>'],
        [run('a '), '<w:del w:id="1">', holding('<w:delText>x</w:delText>'), '</w:del>', run('b')],
        ['<w:ins w:id="1" w:author="x">', run('a'), '</w:ins>', run(' b')],
        [run('a '), '<m:oMath><m:r><m:t>x</m:t></m:r></m:oMath>', run(' b')],
        ['<w:sdt><w:sdtPr/><w:sdtContent>', run('a'), '</w:sdtContent></w:sdt>'],
        [run('a '), holding('<w:sym w:font="Wingdings" w:char="F04A"/>'), run(' b')],
        [run('a &lt;b&gt; &amp; c')],
        [run('see '), LINK[0], run('https://a.org/b_(c)', '<w:u/>'), LINK[1], run(' or t@a.org.')],
    ],
)
def test_formats_stay_where_words_stay(content):
    source = paragraph(*content)
    assert body_of(translated(WordDocument(word_file(source)), same)) == source


@pytest.mark.parametrize(
    ('source', 'expected'),
    [
        ([run('a '), run('b', BOLD)], [run('B', BOLD), run(' A')]),
        ([run('a b '), run('c d', BOLD)], [run('D C', BOLD), run(' B A')]),
        (
            [run('a '), LINK[0], run('b', BOLD), LINK[1], run('!')],
            [LINK[0], run('B', BOLD), LINK[1], run('! A')],
        ),
        (
            [run('a '), field('HYPERLINK "x"', run('b')), run(' c')],
            [run('C '), field('HYPERLINK "x"', run('B')), run(' A')],
        ),
        (
            [run('a '), holding('<w:drawing/>'), run('b')],
            [holding('<w:drawing/>'), run('B A')],
        ),
        (
            [run('a b'), holding('<w:footnoteReference/>'), run(' c')],
            [run('C B'), holding('<w:footnoteReference/>'), run(' A')],
        ),
        (
            [run('a b'), holding('<w:tab/>', BOLD), run('c d')],
            [run('B A'), holding('<w:tab/>', BOLD), run('D C')],
        ),
        ([run('a www.a.org b'), run(' {x}', BOLD)], [run('{x}', BOLD), run(' B www.a.org A')]),
        ([run('a '), field('PAGE', run('1')), run('b')], [field('PAGE', run('1')), run('B A')]),
    ],
)
def test_formats_follow_their_words(source, expected):
    found = translated(WordDocument(word_file(paragraph(*source))))
    assert body_of(found) == paragraph(*expected)


@pytest.mark.parametrize(
    'content',
    [
        run('1,234') + holding('<w:tab/>') + run('+', BOLD),
        holding('<w:drawing/>') + '<w:proofErr w:type="spellStart"/>',
        field('PAGE', run('one')),
        '<w:moveFrom w:id="1">' + run('a') + '</w:moveFrom>',
    ],
)
def test_a_paragraph_without_letters_stays(content):
    source = paragraph('<w:r w:rsidR="00A1"><w:t>2.</w:t></w:r>', content)
    found = WordDocument(word_file(source))
    assert found.texts == []
    assert body_of(found.translated([])) == source


@pytest.mark.parametrize(
    'difference',
    ['<w:b w:val="1"/><w:lang w:val="fr-FR"/>', '<w:noProof/><w:b w:val="1" xmlns:x="y"/>'],
)
def test_runs_of_one_format_become_one(difference):
    first = '<w:b w:val="1"/>'
    source = f'{run("a ", first)}<w:proofErr w:type="spellStart"/>{run("b", difference)}'
    found = translated(WordDocument(word_file(paragraph(source))))
    assert body_of(found) == paragraph(run('B A', first))


def test_a_blank_at_an_edge_without_preserve_is_none():
    source = paragraph('<w:r><w:t>\n un </w:t><w:t>believable</w:t></w:r>')
    assert WordDocument(word_file(source)).texts == ['unbelievable']


def test_models_see_usual_hyphens_only():
    source = '<w:t>e</w:t><w:noBreakHyphen/><w:t>mail</w:t><w:softHyphen/><w:t>er</w:t>'
    assert WordDocument(word_file(paragraph(holding(source)))).texts == ['e-mailer']


def test_paragraphs_are_found_wherever_they_are():
    cell, control, note = (paragraph(run(x)) for x in ('cell', 'control', 'note'))
    source = (
        f'<w:tbl><w:tr><w:tc>{cell}</w:tc></w:tr></w:tbl>'
        f'<w:sdt><w:sdtContent>{control}</w:sdtContent></w:sdt>'
    )
    parts = {x: paragraph(run(x)) for x in ('header1', 'footer1', 'endnotes')}
    parts['footnotes'] = f'<w:footnote w:id="1">{note}</w:footnote>'
    data = word_file(source, **parts)
    found = WordDocument(data)
    assert found.texts == ['cell', 'control', 'header1', 'footer1', 'endnotes', 'note']
    assert '>NOTE<' in part_of(translated(found), 'word/footnotes.xml')


def test_the_two_copies_of_a_text_box_have_one_translation():
    box = paragraph(run('in the '), run('box', BOLD))
    copies = ''.join(
        f'<mc:{x}><w:txbxContent>{box}</w:txbxContent></mc:{x}>' for x in ('Choice', 'Fallback')
    )
    alternatives = f'<mc:AlternateContent>{copies}</mc:AlternateContent>'
    source = paragraph(run('a '), holding(alternatives), run('b'))
    found = WordDocument(word_file(source))
    assert found.texts == ['a b', 'in the box']
    expected = alternatives.replace(box, paragraph(run('BOX', BOLD), run(' THE IN')))
    assert body_of(translated(found)) == paragraph(holding(expected), run('B A'))


def test_a_field_of_several_paragraphs_stays_around_them():
    begin, end = (holding(f'<w:fldChar w:fldCharType="{x}"/>') for x in ('begin', 'end'))
    code = holding('<w:instrText>TOC</w:instrText>')
    source = paragraph(begin, code, run('a b')) + paragraph(run('c d'), end)
    expected = paragraph(begin, code, run('B A')) + paragraph(run('D C'), end)
    assert body_of(translated(WordDocument(word_file(source)))) == expected


def test_a_bookmark_begins_before_it_ends():
    begin, end = '<w:bookmarkStart w:id="0"/>', '<w:bookmarkEnd w:id="0"/>'
    found = body_of(
        translated(WordDocument(word_file(paragraph(run('a '), begin, run('b'), end, run(' c')))))
    )
    assert found.index(begin) < found.index(end)


def test_a_control_bound_to_data_shows_its_translation():
    properties = '<w:sdtPr><w:id w:val="7"/>{}</w:sdtPr>'
    control = '<w:sdt>' + properties + '<w:sdtContent>{}</w:sdtContent></w:sdt>'
    bound = '<w:dataBinding w:xpath="x"/><r:dataBinding/>'
    source = control.format(bound, paragraph(control.format(bound, run('a'))))
    expected = control.format('', paragraph(control.format('', run('A'))))
    assert body_of(translated(WordDocument(word_file(source)))) == expected


def test_a_control_that_is_divided_has_its_id_once():
    control = '<w:sdt><w:sdtPr><w:id w:val="7"/></w:sdtPr><w:sdtContent>{}</w:sdtContent></w:sdt>'
    found = WordDocument(word_file(paragraph(control.format(run('a b')), run(' c d'))))
    output = same('A C D B')._replace(alignment=((0, 0), (2, 1), (3, 2), (1, 3)))
    text = body_of(found.translated([output]))
    assert text.count('<w:sdt>') > 1
    assert text.count('<w:id ') == 1


def test_all_other_parts_are_the_same():
    data = word_file(paragraph(run('a')))
    before, after = (zipfile.ZipFile(io.BytesIO(x)) for x in (data, translated(WordDocument(data))))
    assert after.testzip() is None
    assert before.namelist() == after.namelist()
    for first, second in zip(before.infolist(), after.infolist(), strict=True):
        assert first.compress_type == second.compress_type
        if first.filename != 'word/document.xml':
            assert before.read(first) == after.read(second)


def test_outputs_are_valid_xml():
    found = WordDocument(word_file(paragraph(run('a'))))
    output = reversed_words('<w:p>&\0\ud800\uffffb')
    assert body_of(found.translated([output])) == paragraph(
        run('&lt;W:P&gt;&amp;\ufffd\ufffd\ufffdB')
    )


@pytest.mark.parametrize(('text', 'expected'), [('a \x01 b', 'a \ufffd '), ('a\x1cx\x0bb', 'a x ')])
def test_words_keep_their_numbers_if_characters_are_not_valid(text, expected):
    found = WordDocument(word_file(paragraph(run('a '), run('b', BOLD))))
    output = Translation(text, 0.0, (), alignment=((0, 0), (0, 1), (1, 2)))
    assert body_of(found.translated([output])) == paragraph(run(expected), run('b', BOLD))


def test_an_empty_output_keeps_the_structure():
    picture = holding('<w:drawing/>')
    found = WordDocument(word_file(paragraph(run('a '), picture, run(' b', BOLD))))
    assert body_of(found.translated([same('')])) == paragraph(picture)


def test_a_document_is_translated_twice():
    found = WordDocument(word_file(paragraph(run('a '), run('b', BOLD))))
    assert translated(found) == translated(found)


def with_document(content):
    """Return a .docx file with this as its document.xml."""
    types = part_of(word_file(''), '[Content_Types].xml')
    return zip_of(**{'[Content_Types].xml': types, 'word/document.xml': content})


ENTITIES = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><x>&a;</x>'


@pytest.mark.parametrize(
    ('data', 'message'),
    [
        (b'', 'no .docx file'),
        (b'hello', 'no .docx file'),
        (b'\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1', 'without a password'),
        (b'PK\3\4', 'damaged'),
        (zip_of(x='y'), 'no .docx file'),
        (with_document('<w:p'), 'damaged'),
        (with_document(ENTITIES), 'DTD'),
        (with_document('<x>' * 10_000 + '</x>' * 10_000), 'damaged'),
        (with_document(' ' * (33 << 20) + '<x/>'), '32 MiB'),
        (with_document('<x>' + '<y/>' * 2_000_001 + '</x>'), 'tags'),
    ],
)
def test_what_is_no_word_document_is_refused(data, message):
    with pytest.raises(UserError, match=message):
        WordDocument(data)


def test_a_part_with_a_password_is_refused():
    data = bytearray(word_file(paragraph(run('a'))))
    at = -1
    while (at := data.find(b'PK\1\2', at + 1)) >= 0:  # the entries of the zip's directory
        data[at + 8] |= 1
    with pytest.raises(UserError, match='password'):
        WordDocument(bytes(data))


def test_damaged_files_are_refused_or_translated():
    data = word_file(paragraph(run('a '), run('b', BOLD)), header1=paragraph(run('c')))
    draw = random.Random(0)
    refused = 0
    for k in range(500):
        damaged = bytearray(data)
        at = draw.randrange(len(data))
        if k % 5:
            damaged[at] ^= 1 << draw.randrange(8)
        else:
            del damaged[at:]
        try:
            translated(WordDocument(bytes(damaged)))
        except UserError:
            refused += 1
    assert refused > 200


def test_deeply_nested_links_keep_their_place():
    source = paragraph(LINK[0] * 100, run('a b'), LINK[1] * 100, run(' c'))
    assert body_of(translated(WordDocument(word_file(source)))).count(LINK[0]) == 100


@pytest.mark.parametrize(
    'part',
    [
        paragraph(run('a '), run('b', BOLD)),
        run('a '),
        run('a ', BOLD) + run('b '),
        holding('<w:fldChar w:fldCharType="begin"/>'),
        field('HYPERLINK "x"', run('a ')),
        '<w:bookmarkStart w:id="0"/>' + run('a') + '<w:bookmarkEnd w:id="0"/>',
    ],
)
def test_a_long_document_takes_no_long_time(part):
    def make(size):
        source = part * size
        return word_file(source if '<w:p>' in part else paragraph(source))

    assert is_linear(lambda data: translated(WordDocument(data), with_gaps), make, 600)
