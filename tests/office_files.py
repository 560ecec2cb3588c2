"""Small files of word processors, and outputs for their texts."""

import io
import zipfile

from fake_translator import upper

from transformer_jax.translating.outputs import Translation

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


def open_document(body, styles='', declarations='', media_type='text'):
    """Return an .odt file.

    Args:
      body: XML of its text.
      styles: XML of the master styles in styles.xml.
      declarations: XML of the automatic styles.
      media_type: the part of the file's type that says that it is a text.
    """
    media_type = f'application/vnd.oasis.opendocument.{media_type}'
    ns = ' '.join(
        f'xmlns:{x}="urn:oasis:names:tc:opendocument:xmlns:{y}:1.0"'
        for x, y in [(x, x) for x in ('office', 'text', 'style', 'table', 'manifest')]
        + [('draw', 'drawing'), ('fo', 'xsl-fo-compatible')]
    )
    ns += ' xmlns:xlink="http://www.w3.org/1999/xlink"'
    parts = {
        'mimetype': media_type,
        'content.xml': f'<office:document-content {ns}><office:automatic-styles>{declarations}'
        f'</office:automatic-styles><office:body><office:text>{body}</office:text></office:body>'
        '</office:document-content>',
        'styles.xml': f'<office:document-styles {ns}><office:master-styles>{styles}'
        '</office:master-styles></office:document-styles>',
        'META-INF/manifest.xml': f'<manifest:manifest {ns}><manifest:file-entry '
        f'manifest:full-path="/" manifest:media-type="{media_type}"/></manifest:manifest>',
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, 'w', zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            kind = zipfile.ZIP_STORED if name == 'mimetype' else zipfile.ZIP_DEFLATED
            archive.writestr(name, content, kind)
    return out.getvalue()


def zip_of(method=zipfile.ZIP_DEFLATED, **files):
    """Return a zip file with these files, compressed by a method of zipfile."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, 'w', method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def part_of(data, name='word/document.xml'):
    """Return a part of a file."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.read(name).decode()


def body_of(data):
    """Return the XML of the body of a .docx file."""
    return part_of(data).partition('<w:body>')[2].rpartition('</w:body>')[0]


def text_of(data):
    """Return the XML of the text of an .odt file."""
    text = part_of(data, 'content.xml')
    return text.partition('<office:text>')[2].rpartition('</office:text>')[0]


def same(text):
    """Return a translation: the words."""
    return _ordered(text, range(len(text.split())))


def reversed_words(text):
    """Return a translation: the words in upper case, the last one first."""
    return _ordered(upper(text), range(len(text.split()))[::-1])


def with_gaps(text):
    """Return `reversed_words` without the alignment of each third word, and of the first half."""
    output = reversed_words(text)
    half = len(output.alignment) // 2
    pairs = tuple(pair for pair in output.alignment if pair[1] % 3 and pair[1] > half)
    return output._replace(alignment=pairs)


def _ordered(text, order):
    words = text.split()
    alignment = tuple((source, target) for target, source in enumerate(order))
    return Translation(' '.join(words[k] for k in order), 0.0, (), alignment=alignment)


def translated(document, translate=reversed_words):
    """Return the translated file of a document."""
    return document.translated([translate(text) for text in document.texts])
