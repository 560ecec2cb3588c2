"""Small files of word processors, and outputs for their texts."""

import io
import zipfile

from transformer_jax.inference.outputs import Translation

_WORD = 'http://schemas.openxmlformats.org/wordprocessingml/2006/main'
_NAMESPACES = (
    f'xmlns:w="{_WORD}" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)
_TYPE = 'application/vnd.openxmlformats-officedocument.wordprocessingml'
_ROOTS = {'header1': 'hdr', 'footer1': 'ftr', 'footnotes': 'footnotes', 'endnotes': 'endnotes'}


def word_file(body, declaration='', **parts):
    """Return a .docx file.

    Args:
      body: XML of its body.
      declaration: what comes before the root element of the body.
      **parts: XML of header1, footer1, footnotes, endnotes.
    """
    files = {'document': f'{declaration}<w:document {_NAMESPACES}><w:body>{body}</w:body>'}
    files['document'] += '</w:document>'
    for name, content in parts.items():
        files[name] = f'<w:{_ROOTS[name]} {_NAMESPACES}>{content}</w:{_ROOTS[name]}>'
    types = ''.join(
        f'<Override PartName="/word/{name}.xml" ContentType="{_TYPE}.{kind}+xml"/>'
        for name in files
        for kind in ['document.main' if name == 'document' else name.rstrip('1')]
    )
    types = f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{types}'
    out = io.BytesIO()
    with zipfile.ZipFile(out, 'w', zipfile.ZIP_DEFLATED) as archive:
        archive.writestr('[Content_Types].xml', f'{types}</Types>')
        archive.writestr('word/media/picture.png', bytes(range(256)), zipfile.ZIP_STORED)
        for name, content in files.items():
            archive.writestr(f'word/{name}.xml', content)
        archive.writestr('word/styles.xml', '<!-- styles -->\n<x a = "b" />')
    return out.getvalue()


def part_of(data, name='word/document.xml'):
    """Return a part of a file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.read(name).decode()


def body_of(data):
    """Return the XML of the body of a .docx file."""
    text = part_of(data)
    return text[text.index('<w:body>') + 8 : text.index('</w:body>')]


def same(text):
    """Return a translation: the words."""
    return _ordered(text, range(len(text.split())))


def reversed_words(text):
    """Return a translation: the words in upper case, the last one first."""
    return _ordered(text.upper(), range(len(text.split()))[::-1])


def _ordered(text, order):
    words = text.split()
    alignment = tuple((source, target) for target, source in enumerate(order))
    return Translation(' '.join(words[k] for k in order), 0.0, (), alignment=alignment)


def translated(document, translate=reversed_words):
    """Return the translated file of a document."""
    return document.translated([translate(text) for text in document.texts])
