"""Word documents, .docx (ECMA-376, Office Open XML).

The text of a paragraph is divided into runs, each with its format. After translation, the words
have the formats and links of the words that they translate.
"""

import itertools
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from transformer_jax.documents.office.archive import Archive, etree
from transformer_jax.documents.office.parts import (
    Copies,
    DividedText,
    OfficeDocument,
    OpenMarks,
    Point,
    Wrapper,
)
from transformer_jax.documents.office.styles import NONE, Style, code_styles, script_of
from transformer_jax.translating.outputs import Translation
from transformer_jax.translating.placeholders.marked_text import Marks, Piece

_NAMESPACES = frozenset(
    [
        'http://schemas.openxmlformats.org/wordprocessingml/2006/main',
        'http://purl.oclc.org/ooxml/wordprocessingml/main',
    ]
)
_CONTENT_TYPES = '[Content_Types].xml'
_MAIN_TYPE = '.wordprocessingml.document.main+xml'
_TYPES = (
    _MAIN_TYPE,
    *(
        f'.wordprocessingml.{x}+xml'
        for x in ('header', 'footer', 'footnotes', 'endnotes', 'styles')
    ),
)
_SPACE = '{http://www.w3.org/XML/1998/namespace}space'

_WRAPPERS = frozenset('hyperlink ins moveTo smartTag customXml sdt dir bdo'.split())
_DIVIDERS = frozenset('tab ptab br cr fldChar instrText'.split())
# They say where errors are, where pages end and where words may be divided, in the source only.
_DROPPED = frozenset('proofErr lastRenderedPageBreak softHyphen'.split())
_NOT_FORMAT = frozenset('lang noProof'.split())
# Further elements within one another keep their place with all that is in them.
_MOST_OPEN = 32


class WordDocument(OfficeDocument):
    """A Word document: its body, headers, footers and notes, see `OfficeDocument`."""

    kind = '.docx'

    def _parts(self, archive: Archive) -> list[str]:
        if _CONTENT_TYPES not in archive.names:
            return []
        types = {}
        for part in archive.roots([_CONTENT_TYPES])[_CONTENT_TYPES]:
            name = part.get('PartName') or f'*.{part.get("Extension")}'
            types[name.lower()] = part.get('ContentType', '')
        found = {}
        for name in archive.names:
            lower = f'/{name}'.lower()
            found[name] = types.get(lower) or types.get(f'*.{lower.rpartition(".")[2]}', '')
        if not any(x.endswith(_MAIN_TYPE) for x in found.values()):
            return []
        return [name for name, x in found.items() if x.endswith(_TYPES)]

    def _paragraphs(self, roots: Mapping[str, Any]) -> Iterator[tuple[str, '_Paragraph']]:
        code = _code(x for root in roots.values() for x in root.iterfind('{*}style'))
        controls = set[Any]()
        for name, root in roots.items():
            for element in root.iter('{*}p'):
                if _name(element) == 'p' and _style(element.find('{*}pPr'), 'pStyle') not in code:
                    yield name, _Paragraph(element, code, controls)

    def _set_language(self, root: Any, language: str) -> bool:
        names = 'val', {'asian': 'eastAsia', 'complex': 'bidi', '': 'val'}[script_of(language)]
        found = False
        for element in root.iter('{*}lang'):
            if _name(element) and not NONE.issuperset(_attribute(element, x) or '' for x in names):
                element.set(f'{element.tag.partition("}")[0]}}}{names[1]}', language)
                found = True
        return found


class _Atom(NamedTuple):
    """What is in a paragraph, or in a run of it.

    Attributes:
      element: the element.
      run: the run, if it is in one.
      properties: those of the run, if it has any.
    """

    element: Any
    run: Any = None
    properties: Any = None


class _Wrapper(Wrapper):
    """A mark: an element around runs."""

    def __init__(self, element: Any):
        super().__init__(element)
        self._content = _content(element)
        self._properties = [x for x in self._content if _name(x).endswith('Pr')]
        self._around = [] if self._content is element else list(element)
        self._dropped = {'dataBinding'}

    def open(self, parent: Any, copies: Copies) -> Any:
        content = shell = super().open(parent, copies)
        for child in self._around:
            if child is self._content:
                content = copies.shell(shell, child)
            else:
                shell.append(copies(child))
        content.extend(map(copies, self._properties))
        _drop_properties(shell, self._dropped)
        self._dropped = {'dataBinding', 'id'}  # two copies with one id would not be valid
        return content


class _Field:
    """A mark: a field whose result is text, from its begin to its separator, and its end."""

    def __init__(self, begin: Sequence[_Atom], end: _Atom):
        self._begin, self._end = begin, end

    def open(self, parent: Any, copies: Copies) -> Any:
        """Add copies of what begins the field, and return where its content goes."""
        _append(parent, [x._replace(element=copies(x.element)) for x in self._begin], copies)
        return parent

    def close(self, parent: Any, copies: Copies) -> None:
        """Add a copy of what ends the field."""
        _append(parent, [self._end._replace(element=copies(self._end.element))], copies)


class _Format:
    """A mark: how runs look.

    Attributes:
      properties: the elements that say it.
    """

    def __init__(self, properties: Sequence[Any]):
        self.properties = properties


class _Paragraph:
    """A paragraph, see `Paragraph`."""

    def __init__(self, element: Any, code: Collection[Hashable], controls: set[Any]):
        """Take a paragraph.

        Args:
          element: the paragraph.
          code: ids of the styles that mark code.
          controls: the controls around paragraphs that are no longer bound to data.
        """
        self._element, self._code, self._controls = element, code, controls
        self._prefix = element.tag[:-1]
        # The formats of runs by their elements, and by how they look.
        self._formats: dict[Any, _Format] = {}
        self._by_look: dict[Hashable, _Format] = {}
        self._pieces: list[Piece] = []
        self._walk([*_atoms(element)], ())
        self._base = _most_common_format(self._pieces)
        # The usual format is no mark, because words without alignment have no marks.
        self._divided = DividedText(
            piece._replace(marks=piece.marks[:-1])
            if piece.marks and piece.marks[-1] == self._base
            else piece
            for piece in self._pieces
        )
        self.texts = self._divided.texts

    def translate(self, outputs: Mapping[str, Translation], copies: Copies) -> None:
        """Put the translation of each text into its place."""
        pieces = self._divided.translated(outputs)
        for child in list(self._element):
            if _name(child) != 'pPr':
                self._element.remove(child)
        opened = OpenMarks(self._element, copies)
        for (marks, is_text), group in itertools.groupby(
            pieces, key=lambda piece: (piece.marks, piece.point is None)
        ):
            is_base = not marks or not isinstance(marks[-1], _Format)
            parent = opened.change(marks if is_base else marks[:-1])
            if is_text:
                text = ''.join(piece.text for piece in group)
                run = etree.SubElement(parent, f'{self._prefix}r')
                if properties := (self._base if is_base else marks[-1]).properties:
                    rest = etree.SubElement(run, f'{self._prefix}rPr')
                    rest.extend(map(copies, properties))
                content = etree.SubElement(run, f'{self._prefix}t', {_SPACE: 'preserve'})
                content.text = text
            else:
                _append(parent, [atom for x in group for atom in x.point.content], copies)
        opened.change(())
        for control in self._element.iterancestors(f'{self._prefix}sdt'):
            if control in self._controls:
                break
            self._controls.add(control)
            _drop_properties(control, {'dataBinding'})

    def _walk(self, atoms: Sequence[_Atom], marks: Marks) -> None:
        """Add the pieces of what is in an element."""
        ends = _field_ends(atoms)
        k = 0
        while k < len(atoms):
            end = ends.get(k, k) + 1
            if end > k + 1:
                self._add_field(atoms[k:end], marks)
            else:
                self._add(atoms[k], marks)
            k = end

    def _add(self, atom: _Atom, marks: Marks) -> None:
        element, run, properties = atom
        name = _name(element)
        if run is not None and name == 't' and _style(properties, 'rStyle') in self._code:
            self._pieces.append(Piece('', marks, Point([atom])))
        elif run is not None and name in ('t', 'noBreakHyphen'):
            # Models know the usual hyphen.
            text = (element.text or '') if name == 't' else '-'
            if name == 't' and element.get(_SPACE) != 'preserve':
                text = text.strip(' \t\r\n')
            if text:
                self._pieces.append(Piece(text, (*marks, self._format(properties))))
        elif name in _WRAPPERS and len(marks) < _MOST_OPEN and not _is_symbol(element):
            number = len(self._pieces)
            self._walk([*_atoms(_content(element))], (*marks, _Wrapper(element)))
            if len(self._pieces) == number:
                self._pieces.append(Piece('', marks, Point([atom])))
        elif name not in _DROPPED:
            begins = ends = None
            if name.endswith(('Start', 'End')):
                key = name.removesuffix('Start').removesuffix('End'), _attribute(element, 'id')
                begins, ends = (key, None) if name.endswith('Start') else (None, key)
            divides = run is not None and name in _DIVIDERS
            self._pieces.append(Piece('', marks, Point([atom], divides, begins, ends)))

    def _add_field(self, atoms: Sequence[_Atom], marks: Marks) -> None:
        """Add a field, as a mark if it is a link with a text, as a point otherwise."""
        separator, depth, code = None, 0, ''
        for k, atom in enumerate(atoms):
            name = _name(atom.element)
            kind = _field_character(atom)
            depth += (kind == 'begin') - (kind == 'end')
            if depth == 1 and kind == 'separate':
                separator = k
                break
            if name == 'instrText':
                code += atom.element.text or ''
        number = len(self._pieces)
        if separator and code.split()[:1] == ['HYPERLINK'] and len(marks) < _MOST_OPEN:
            mark = _Field(atoms[: separator + 1], atoms[-1])
            self._walk(atoms[separator + 1 : -1], (*marks, mark))
        if len(self._pieces) == number:
            self._pieces.append(Piece('', marks, Point(atoms)))

    def _format(self, properties: Any) -> _Format:
        found = self._formats.get(properties)
        if found is None:
            elements = [] if properties is None else properties
            elements = [x for x in elements if _name(x) not in _NOT_FORMAT]
            look = tuple(
                (x.tag, len(x), tuple(sorted(x.attrib.items())))
                for element in elements
                for x in element.iter()
            )
            found = self._by_look.setdefault(look, _Format(elements))
            self._formats[properties] = found
        return found


def _name(element: Any) -> str:
    """Return an element's name in the namespace of Word, '' in others."""
    namespace, _, name = element.tag[1:].partition('}')
    return name if namespace in _NAMESPACES else ''


def _attribute(element: Any, name: str) -> str | None:
    return element.get(f'{element.tag.partition("}")[0]}}}{name}')


def _content(element: Any) -> Any:
    """Return the element that has an element's content, None if there is none."""
    return element.find('{*}sdtContent') if _name(element) == 'sdt' else element


def _atoms(element: Any) -> Iterator[_Atom]:
    """Return what is in an element, and in its runs."""
    for child in element if element is not None else ():
        name = _name(child)
        if name == 'r':
            properties = next((x for x in child if _name(x) == 'rPr'), None)
            yield from (_Atom(x, child, properties) for x in child if _name(x) != 'rPr')
        elif not name.endswith('Pr'):
            yield _Atom(child)


def _append(parent: Any, atoms: Iterable[_Atom], copies: Copies) -> None:
    """Add elements, those of a run in a run of the same format."""
    for run, group in itertools.groupby(atoms, key=lambda atom: atom.run):
        place = parent
        if run is not None:
            place = etree.SubElement(parent, run.tag)
        for k, atom in enumerate(group):
            if k == 0 and atom.properties is not None:
                place.append(copies(atom.properties))
            atom.element.tail = None
            place.append(atom.element)


def _field_character(atom: _Atom) -> str | None:
    """Return 'begin', 'separate' or 'end' if it is such a part of a field."""
    if atom.run is not None and _name(atom.element) == 'fldChar':
        return _attribute(atom.element, 'fldCharType')
    return None


def _field_ends(atoms: Sequence[_Atom]) -> dict[int, int]:
    """Return where each field ends that begins and ends here, by where it begins."""
    found, begins = dict[int, int](), list[int]()
    for k, atom in enumerate(atoms):
        kind = _field_character(atom)
        if kind == 'begin':
            begins.append(k)
        elif kind == 'end' and begins:
            found[begins.pop()] = k
    return found


def _most_common_format(pieces: Iterable[Piece]) -> _Format | None:
    """Return the format of most characters; those in links count only if there are no others."""
    counts = Counter[tuple[bool, _Format]]()
    for piece in pieces:
        if piece.text:
            counts[len(piece.marks) == 1, piece.marks[-1]] += len(piece.text)
    return max(counts, key=lambda key: (key[0], counts[key]))[1] if counts else None


def _is_symbol(element: Any) -> bool:
    """Whether it is a control without letters, such as a check box or a picture."""
    return _name(element) == 'sdt' and not any(map(str.isalpha, ''.join(element.itertext())))


def _drop_properties(control: Any, names: Iterable[str]) -> None:
    """Drop properties of a content control; one bound to data would show these as they were."""
    for properties in control.findall('{*}sdtPr'):
        # Newer versions have such properties in other namespaces, too.
        for child in [x for x in properties if x.tag.rpartition('}')[2] in names]:
            properties.remove(child)


def _code(styles: Iterable[Any]) -> set[Hashable]:
    """Return the ids of the styles that mark code."""
    found = dict[Hashable, Style]()
    for style in styles:
        values = {_name(x): _attribute(x, 'val') for x in style}
        found[_attribute(style, 'styleId')] = Style(values.get('name') or '', values.get('basedOn'))
    return code_styles(found)


def _style(properties: Any, name: str) -> str | None:
    """Return the id of the style that properties name in an element of this name."""
    style = None if properties is None else properties.find(f'{{*}}{name}')
    return None if style is None else _attribute(style, 'val')
