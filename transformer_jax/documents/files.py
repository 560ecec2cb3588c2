"""Files whose texts are translated, by the ending of their names."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from transformer_jax.documents.document import Document, PlainText, faults_of_files
from transformer_jax.documents.html import HtmlDocument
from transformer_jax.documents.subtitles import Subtitles
from transformer_jax.errors import UserError, shown
from transformer_jax.translating.outputs import Translation

_PACKED = ('.gz', '.xz')
_UNKNOWN = (
    '.vtt .ass .ssa .sbv .sub .pdf .doc .rtf .epub .pptx .xlsx .ods .odp .xhtml .tmx .po .csv .ini '
    '.json .md .properties .rst .strings .tex .toml .ts .xlf .xliff .xml .yaml .yml'
).split()
_BOM = b'\xef\xbb\xbf'
# Those of https://encoding.spec.whatwg.org that Python has. It has others that are no encodings.
_ENCODINGS = re.compile(
    r'utf-?8|(iso-8859|windows|cp)-?\d+|koi8-[ru]|gbk|gb2312|gb18030|big5|euc-(jp|kr)|shift_jis'
    r'|iso-2022-jp|macintosh'
)
_CHARSET = re.compile(rb'<meta[^>]{0,200}charset\s*=\s*["\']?([\w-]{1,40})', re.IGNORECASE)


class FileDocument:
    """A file as a document; `translated` returns the bytes of a file of the same kind."""

    def __init__(self, document: Document, encode: Callable[[Any], bytes]):
        """Take what a file contains, and how what `translated` returns becomes a file."""
        self.texts, self.needs_alignment = document.texts, document.needs_alignment
        self._document, self._encode = document, encode

    def translated(self, outputs: Sequence[Translation], language: str = '') -> bytes:
        """Return the file with a translation in the place of each text, see `Document`."""
        with faults_of_files():
            return self._encode(self._document.translated(outputs, language))


def check_name(name: str) -> None:
    """Raise a UserError if a file's name says that it holds no lines of text, but no known kind."""
    ending = name.lower().rpartition('/')[2]
    for kind in (*KINDS, *_UNKNOWN):
        packed = [x for x in _PACKED if ending.endswith(kind + x) and kind != '.txt']
        if packed:
            raise UserError(f'{shown(name)} is compressed: unpack it first.')
        if ending.endswith(kind) and kind in _UNKNOWN:
            raise UserError(
                f'{shown(name)} is of a kind that is not read: convert it to {" or ".join(KINDS)}.'
            )


def kind_of(name: str) -> str:
    """Return the ending of a file's name that says its kind, '' if it is none of `KINDS`."""
    return next((kind for kind in KINDS if name.lower().endswith(kind)), '')


def read_document(name: str, data: bytes) -> Document:
    """Return what a file contains.

    Args:
      name: of the file; one of `KINDS` ends it.
      data: the file.

    Raises:
      UserError: if the file is of no such kind, or damaged.
    """
    kind = kind_of(name)
    if not kind:
        raise UserError(f'{shown(name)} is no file to translate: send {" or ".join(KINDS)}.')
    try:
        with faults_of_files():
            return KINDS[kind](data)
    except UserError as error:
        raise UserError(f'{shown(name)}: {error}') from error


def _plain(data: bytes) -> Document:
    return _text_file(data, PlainText)


def _subtitles(data: bytes) -> Document:
    return _text_file(data, Subtitles)


def _html(data: bytes) -> Document:
    charset = _CHARSET.search(data[:2048])
    encoding = 'utf-8' if charset is None else charset[1].decode().lower()
    if encoding.startswith('utf-16'):  # no page that says so in ASCII is
        encoding = 'utf-8'
    elif encoding in ('iso-8859-1', 'latin1', 'us-ascii', 'ascii'):
        encoding = 'windows-1252'  # as browsers read them
    if not _ENCODINGS.fullmatch(encoding):
        raise UserError(f'charset={shown(encoding)} is not known: save the page as utf-8.')
    # The file that comes out has the same encoding, so that what it says of it stays true.
    return _text_file(data, HtmlDocument, encoding, 'xmlcharrefreplace')


def _word(data: bytes) -> Document:
    from transformer_jax.documents.office.word import WordDocument

    return FileDocument(WordDocument(data), bytes)


def _open_document(data: bytes) -> Document:
    from transformer_jax.documents.office.opendocument import OpenDocument

    return FileDocument(OpenDocument(data), bytes)


KINDS: Mapping[str, Callable[[bytes], Document]] = {
    '.txt': _plain,
    '.srt': _subtitles,
    '.html': _html,
    '.htm': _html,
    '.docx': _word,
    '.odt': _open_document,
}


def _text_file(
    data: bytes,
    read: Callable[[str], Document],
    encoding: str = 'utf-8',
    errors: str = 'strict',
) -> Document:
    bom = _BOM if data.startswith(_BOM) else b''
    try:
        document = read(data[len(bom) :].decode('utf-8' if bom else encoding))
    except (UnicodeError, LookupError):
        raise UserError(f'the file is not text in {encoding}: convert it to UTF-8.') from None
    out = 'utf-8' if bom else encoding
    return FileDocument(document, lambda text: bom + text.encode(out, errors))
