import sys

import pytest
from office_files import body_of, word_file

from transformer_jax.documents.files import KINDS, kind_of, read_document
from transformer_jax.errors import UserError
from transformer_jax.translating.outputs import Translation


def upper(name, data):
    document = read_document(name, data)
    return document.translated(
        [
            Translation(x.upper(), 0.0, (), alignment=tuple((k, k) for k in range(len(x.split()))))
            for x in document.texts
        ]
    )


@pytest.mark.parametrize(
    ('name', 'data', 'expected'),
    [
        ('a.txt', 'é\n b\r\n', 'É\n B\r\n'.encode()),
        ('a.b.TXT', '\ufeffa', '\ufeffA'.encode()),
        ('a.html', '<p>a <b>é</b>', '<p>A <b>É</b>'.encode()),
        ('a.HTM', '\ufeffa', '\ufeffA'.encode()),
        (
            'a.srt',
            '\ufeff1\n00:00:00,000 --> 00:00:01,000\na\n\n',
            '\ufeff1\n00:00:00,000 --> 00:00:01,000\nA\n\n'.encode(),
        ),
    ],
)
def test_a_file_is_read_by_its_ending(name, data, expected):
    assert upper(name, data.encode()) == expected


def test_a_word_file_is_read():
    data = word_file('<w:p><w:r><w:t>a</w:t></w:r></w:p>')
    assert '>A<' in body_of(upper('a.docx', data))


def test_a_missing_package_is_named(monkeypatch):
    for name in ('archive', 'parts', 'word'):
        monkeypatch.delitem(sys.modules, f'transformer_jax.documents.office.{name}', raising=False)
    monkeypatch.setitem(sys.modules, 'lxml', None)
    with pytest.raises(UserError, match=r"pip install 'transformer_jax\[documents\]'"):
        read_document('a.docx', b'')


def test_html_that_calls_itself_utf_16_is_read_as_utf_8():
    # As https://encoding.spec.whatwg.org says: ASCII could not be read otherwise.
    assert upper('a.html', b'<meta charset=utf-16>\xc3\xa9') == b'<meta charset=utf-16>\xc3\x89'


def test_latin_1_means_windows_1252_as_in_browsers():
    assert (
        upper('a.html', b'<meta charset=iso-8859-1>it\x92s') == b'<meta charset=iso-8859-1>IT\x92S'
    )


def test_html_keeps_its_encoding():
    page = '<meta charset="iso-8859-2"><p>é \u20ac</p>'
    data = page.replace('\u20ac', '&euro;').encode('iso-8859-2')
    assert upper('a.html', data) == page.replace('é', 'É').encode('iso-8859-2', 'xmlcharrefreplace')


@pytest.mark.parametrize(
    ('name', 'data', 'problem'),
    [
        ('a.txt', b'\xff', "'a.txt': the file is not text in utf-8: convert it to UTF-8."),
        ('a.html', b'<meta charset=odd>a', "charset='odd' is not known: save the page as utf-8."),
        ('a.html', b'<meta charset=base64>a', "charset='base64' is not known"),
        ('a.docx', b'a', "'a.docx': the file is no .docx file: save it as .docx."),
        ('a.html', b'<meta charset=idna>a', "charset='idna' is not known"),
        ('a.html', b'<meta charset=utf-8>\xff', 'the file is not text in utf-8'),
        ('a.srt', b'a', "'a.srt': these are no subtitles"),
        ('a.srt', b'WEBVTT\n\n00:01.000', r"SubRip \(line 1: 'WEBVTT"),
        ('a.pdf', b'a', "'a.pdf' is no file to translate: send .txt or .srt"),
        ('txt', b'a', 'no file to translate'),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(name, data, problem):
    with pytest.raises(UserError, match=problem):
        read_document(name, data)


def test_the_kind_is_the_ending():
    assert [kind_of(f'x{kind.upper()}') for kind in KINDS] == [*KINDS]
    assert kind_of('.srt.pdf') == kind_of('') == ''
