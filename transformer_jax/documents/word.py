"""Word documents, .docx (ECMA-376, Office Open XML).

The text of a paragraph is divided into runs, each with its format. After translation, the words
have the formats and links of the words that they translate.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from transformer_jax.documents.archive import Archive, etree
from transformer_jax.documents.office import DividedText, OfficeDocument, OpenMarks, Point, Wrapper
from transformer_jax.inference.marked_text import Marks, Piece
from transformer_jax.inference.outputs import Translation

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
    *(f'.wordprocessingml.{x}+xml' for x in ('header', 'footer', 'footnotes', 'endnotes')),
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

    def _paragraphs(self, root: Any) -> Iterator['_Paragraph']:
        return (_Paragraph(x) for x in root.iter('{*}p') if _name(x) == 'p')


class _Atom(NamedTuple):
    """What is in a paragraph, or in a run of it.

    Attributes:
      element: the element.
      run: the run, if it is in one.
    """

    element: Any
    run: Any = None


class _Wrapper(Wrapper):
    """A mark: an element around runs."""

    def open(self, parent: Any) -> Any:
        shell = super().open(parent)
        _drop_properties(self._empty, {'id'})  # two copies with one id would not be valid
        return _content(shell)

    def clear(self, copy: Any) -> None:
        content = _content(copy)
        for child in [x for x in content if not _name(x).endswith('Pr')]:
            content.remove(child)
        _drop_properties(copy, {'dataBinding'})


class _Field:
    """A mark: a field whose result is text, from its begin to its separator, and its end."""

    def __init__(self, begin: Sequence[_Atom], end: _Atom):
        self._begin, self._end = begin, end

    def open(self, parent: Any) -> Any:
        """Add copies of what begins the field, and return where its content goes."""
        for atom in self._begin:
            _append(parent, atom, deepcopy(atom.element))
        return parent

    def close(self, parent: Any) -> None:
        """Add a copy of what ends the field."""
        _append(parent, self._end, deepcopy(self._end.element))


class _Format(NamedTuple):
    """A mark: the properties of a run, as names, numbers of children and attributes."""

    properties: tuple[tuple[str, int, tuple[tuple[str, str], ...]], ...]


class _Paragraph:
    """A paragraph, see `Paragraph`."""

    def __init__(self, element: Any):
        self._element = element
        self._prefix = element.tag[:-1]
        self._elements: dict[_Format, list[Any]] = {}
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

    def translate(self, outputs: Mapping[str, Translation]) -> None:
        """Put the translation of each text into its place."""
        pieces = self._divided.translated(outputs)
        for child in list(self._element):
            if _name(child) != 'pPr':
                self._element.remove(child)
        opened = OpenMarks(self._element)
        for (marks, is_text), group in itertools.groupby(
            pieces, key=lambda piece: (piece.marks, piece.point is None)
        ):
            is_base = not marks or not isinstance(marks[-1], _Format)
            parent = opened.change(marks if is_base else marks[:-1])
            if is_text:
                text = ''.join(piece.text for piece in group)
                self._append_run(parent, self._base if is_base else marks[-1], text)
            else:
                for atom in itertools.chain.from_iterable(x.point.content for x in group):
                    _append(parent, atom, atom.element)
        opened.change(())
        for control in self._element.iterancestors(f'{self._prefix}sdt'):
            _drop_properties(control, {'dataBinding'})

    def _append_run(self, parent: Any, format_: _Format, text: str) -> None:
        run = etree.SubElement(parent, f'{self._prefix}r')
        if elements := self._elements[format_]:
            etree.SubElement(run, f'{self._prefix}rPr').extend(map(deepcopy, elements))
        content = etree.SubElement(run, f'{self._prefix}t', {_SPACE: 'preserve'})
        content.text = text

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
        element, run = atom
        name = _name(element)
        if run is not None and name in ('t', 'noBreakHyphen'):
            # Models know the usual hyphen.
            text = (element.text or '') if name == 't' else '-'
            if name == 't' and element.get(_SPACE) != 'preserve':
                text = text.strip(' \t\r\n')
            if text:
                self._pieces.append(Piece(text, (*marks, self._format(run))))
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

    def _format(self, run: Any) -> _Format:
        properties = run.find(f'{self._prefix}rPr')
        elements = [] if properties is None else properties
        elements = [x for x in elements if _name(x) not in _NOT_FORMAT]
        found = _Format(
            tuple(
                (x.tag, len(x), tuple(sorted(x.attrib.items())))
                for element in elements
                for x in element.iter()
            )
        )
        self._elements.setdefault(found, elements)
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
            yield from (_Atom(x, child) for x in child if _name(x) != 'rPr')
        elif not name.endswith('Pr'):
            yield _Atom(child)


def _append(parent: Any, atom: _Atom, element: Any) -> None:
    """Add an element, in a run of the same format if it is in one."""
    element.tail = None
    if atom.run is not None:
        run = etree.SubElement(parent, atom.run.tag)
        run.extend(deepcopy(x) for x in atom.run if _name(x) == 'rPr')
        parent = run
    parent.append(element)


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
