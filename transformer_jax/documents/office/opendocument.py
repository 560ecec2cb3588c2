"""OpenDocument texts, .odt (ISO/IEC 26300), the format of LibreOffice."""

import itertools
import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any

from transformer_jax.documents.office.archive import Archive, etree
from transformer_jax.documents.office.parts import (
    Copies,
    DividedText,
    OfficeDocument,
    OpenMarks,
    Point,
    Wrapper,
)
from transformer_jax.documents.office.styles import NONE, Style, code_styles, decoded, script_of
from transformer_jax.errors import UserError
from transformer_jax.translating.outputs import Translation
from transformer_jax.translating.placeholders.marked_text import Marks, Piece

_MANIFEST = 'META-INF/manifest.xml'
_TYPES = frozenset(
    f'application/vnd.oasis.opendocument.text{x}' for x in ('', '-template', '-master', '-web')
)
_PARTS = ('content.xml', 'styles.xml')
_OFFICE, _TEXT, _STYLE, _FILES, _FO = (
    f'{{urn:oasis:names:tc:opendocument:xmlns:{x}:1.0}}'
    for x in ('office', 'text', 'style', 'manifest', 'xsl-fo-compatible')
)
# Paragraphs in these are comments, or were deleted.
_SKIPPED = (f'{_OFFICE}annotation', f'{_TEXT}tracked-changes')
_WRAPPERS = frozenset(['span', 'a', 'meta'])
_DIVIDERS = frozenset(['tab', 'line-break'])
# The names of attributes that do not change how a text looks.
_NOT_FORMAT = frozenset(['rsid', 'paragraph-rsid', 'language', 'country'])
_LANGUAGE_NAMES = {
    '': (f'{_FO}language', f'{_FO}country', f'{_FO}script'),
    **{
        script: tuple(f'{_STYLE}{x}-{script}' for x in ('language', 'country', 'script'))
        for script in ('asian', 'complex')
    },
}
# A few bytes can say that there are hundreds of blanks.
_MOST_BLANKS = 1_000_000
# Further elements within one another keep their place with all that is in them.
_MOST_OPEN = 32


class OpenDocument(OfficeDocument):
    """An OpenDocument text: its body, headers, footers and notes, see `OfficeDocument`."""

    kind = '.odt'

    def _parts(self, archive: Archive) -> list[str]:
        if _MANIFEST not in archive.names:
            return []
        types = {}
        for entry in archive.roots([_MANIFEST])[_MANIFEST]:
            if entry.find(f'{_FILES}encryption-data') is not None:
                raise UserError('the file has a password: save it without one.')
            types[entry.get(f'{_FILES}full-path')] = entry.get(f'{_FILES}media-type')
        if types.get('/') not in _TYPES:
            return []
        return [name for name in _PARTS if name in archive.names]

    def _paragraphs(self, roots: Mapping[str, Any]) -> Iterator[tuple[str, '_Paragraph']]:
        counts = (_blanks(x) for root in roots.values() for x in root.iter(f'{_TEXT}s'))
        if sum(counts) > _MOST_BLANKS:
            raise UserError(
                f'the text has more than {_MOST_BLANKS:,} blanks in a row: divide the file into '
                'several.'
            )
        common = [x for root in roots.values() for x in root.iterfind(f'{_OFFICE}styles')]
        for name, root in roots.items():
            code = _code([*common, *root.iterfind(f'{_OFFICE}automatic-styles')])
            styles = _styles(root)
            for element in root.iter(f'{_TEXT}p', f'{_TEXT}h'):
                if ('paragraph', element.get(f'{_TEXT}style-name')) in code:
                    continue
                if next(element.iterancestors(*_SKIPPED), None) is None:
                    yield name, _Paragraph(element, styles, code)

    def _set_language(self, root: Any, language: str) -> bool:
        names = _LANGUAGE_NAMES[script_of(language)]
        code, *others = language.split('-')
        region = next((x for x in others if len(x) == 2), 'none')
        script = next((x for x in others if len(x) == 4), None)
        found = False
        for element in root.iter(f'{_STYLE}text-properties'):
            if NONE.issuperset(element.get(x, 'none') for x in (names[0], f'{_FO}language')):
                continue
            values = code.lower(), region, script
            for name, value in zip(names, values, strict=True):
                if value is not None:
                    element.set(name, value)
                elif name in element.attrib:
                    del element.attrib[name]
            found = True
        return found


class _Paragraph:
    """A paragraph or heading, see `Paragraph`."""

    def __init__(self, element: Any, styles: Mapping[str, str | None], code: Collection[Hashable]):
        self._element, self._styles, self._code = element, styles, code
        self._pieces: list[Piece] = []
        self._wrappers: dict[Hashable, Wrapper] = {}
        # Blanks after another, and at the beginning, are no text.
        self._after_blank = True
        self._walk(element, ())
        self._divided = DividedText(self._pieces)
        self.texts = self._divided.texts

    def translate(self, outputs: Mapping[str, Translation], copies: Copies) -> None:
        """Put the translation of each text into its place."""
        pieces = self._divided.translated(outputs)
        del self._element[:]
        self._element.text = None
        opened = OpenMarks(self._element, copies)
        self._after_blank = True
        for (marks, is_text), group in itertools.groupby(
            pieces, key=lambda piece: (piece.marks, piece.point is None)
        ):
            parent = opened.change(marks)
            if is_text:
                self._append(parent, ''.join(piece.text for piece in group))
            else:
                for piece in group:
                    piece.point.content.tail = None
                    parent.append(piece.point.content)
                self._after_blank = False

    def _append(self, parent: Any, text: str) -> None:
        """Add a text, in which blanks that would be none are elements."""
        for k, part in enumerate(re.split('(^ +| {2,})' if self._after_blank else '( {2,})', text)):
            if k % 2:
                etree.SubElement(parent, f'{_TEXT}s', {f'{_TEXT}c': str(len(part))})
            # `len(parent)` would count all elements, again for each text.
            elif (last := next(parent.iterchildren(reversed=True), None)) is not None:
                last.tail = (last.tail or '') + part
            else:
                parent.text = (parent.text or '') + part
            self._after_blank = part.endswith(' ') and not k % 2

    def _walk(self, element: Any, marks: Marks) -> None:
        """Add the pieces of what is in an element."""
        self._add_text(element.text, marks)
        for child in element:
            namespace, _, name = child.tag.rpartition('}')
            is_text = f'{namespace}}}' == _TEXT
            if is_text and name in _WRAPPERS and len(marks) < _MOST_OPEN:
                self._add_wrapper(child, marks)
            elif is_text and name == 's':
                self._pieces.append(Piece(' ' * _blanks(child), marks))
                self._after_blank = False
            elif not is_text or name != 'soft-page-break':
                divides = is_text and name in _DIVIDERS
                self._pieces.append(Piece('', marks, Point(child, divides, *_range(child, name))))
                self._after_blank = False
            self._add_text(child.tail, marks)

    def _add_wrapper(self, element: Any, marks: Marks) -> None:
        number = len(self._pieces)
        style = element.get(f'{_TEXT}style-name')
        if ('text', style) in self._code:
            self._pieces.append(Piece('', marks, Point(element)))
            self._after_blank = False
            return
        style = self._styles.get(style, style)
        if element.tag == f'{_TEXT}span' and style is None:
            self._walk(element, marks)
            return
        attributes = {**element.attrib, f'{_TEXT}style-name': style}
        key = element.tag, *sorted(attributes.items())
        self._walk(element, (*marks, self._wrappers.setdefault(key, Wrapper(element))))
        if len(self._pieces) == number:
            self._pieces.append(Piece('', marks, Point(element)))
            self._after_blank = False

    def _add_text(self, text: str | None, marks: Marks) -> None:
        text = re.sub('[ \t\r\n]+', ' ', text or '')
        if self._after_blank:
            text = text.removeprefix(' ')
        if text:
            self._pieces.append(Piece(text, marks))
            self._after_blank = text.endswith(' ')


def _range(element: Any, name: str) -> tuple[Hashable, Hashable]:
    """Return the range of words that begins at an element, and the one that ends there."""
    stem, _, side = name.rpartition('-')
    if side not in ('start', 'end'):
        return None, None
    names = [value for key, value in element.attrib.items() if key.endswith(('}name', 'id'))]
    key = stem, *names
    return (key, None) if side == 'start' else (None, key)


def _blanks(element: Any) -> int:
    """Return the number of blanks for which an element stands."""
    count = element.get(f'{_TEXT}c', '1')
    return int(count) if re.fullmatch('[0-9]{1,3}', count) else 1


def _code(groups: Iterable[Any]) -> set[Hashable]:
    """Return the families and names of the styles that mark code."""
    styles = dict[Hashable, Style]()
    for style in itertools.chain.from_iterable(x.iterfind(f'{_STYLE}style') for x in groups):
        family, name = style.get(f'{_STYLE}family'), style.get(f'{_STYLE}name', '')
        parent = family, style.get(f'{_STYLE}parent-style-name')
        styles[family, name] = Style(style.get(f'{_STYLE}display-name') or decoded(name), parent)
    return code_styles(styles)


def _styles(root: Any) -> dict[str, str | None]:
    """Return for each style of words the first one that looks the same, None for no difference.

    LibreOffice makes styles that say only when something was written.
    """
    found, first = dict[str, str | None](), dict[Hashable, str]()
    for style in root.iterfind(f'{_OFFICE}automatic-styles/{_STYLE}style'):
        if style.get(f'{_STYLE}family') != 'text':
            continue
        parent = style.get(f'{_STYLE}parent-style-name')
        looks = [
            (x.tag, len(x), *((k, v) for k, v in sorted(x.attrib.items()) if not _is_note(k)))
            for x in style.iter()
            if x is not style
        ]
        name = style.get(f'{_STYLE}name')
        if parent is None and all(len(look) == 2 for look in looks):
            found[name] = None
        else:
            found[name] = first.setdefault((parent, *looks), name)
    return found


def _is_note(attribute: str) -> bool:
    """Whether an attribute does not change how a text looks."""
    return attribute.rpartition('}')[2] in _NOT_FORMAT
