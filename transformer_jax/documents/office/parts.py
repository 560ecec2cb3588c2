"""What documents of word processors have in common."""

import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple, Protocol

from transformer_jax.documents.document import go_on, language_tag
from transformer_jax.documents.office.archive import Archive, etree
from transformer_jax.documents.ranges import RangedText, divided
from transformer_jax.errors import UserError
from transformer_jax.translating.outputs import Translation
from transformer_jax.translating.placeholders.marked_text import Marks, Piece, common
from transformer_jax.translating.placeholders.paired_marks import MARKS, Side, side

# How files begin that have a password or the format of old versions.
_COMPOUND_FILE = b'\xd0\xcf\x11\xe0'
_NOT_XML = re.compile('[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]')


class Paragraph(Protocol):
    """A paragraph of a part of a document.

    Attributes:
      texts: what to translate in it.
    """

    texts: list[str]

    def translate(self, outputs: Mapping[str, Translation], copies: 'Copies') -> None:
        """Put the translation of each text into its place."""


class OfficeDocument(ABC):
    """A document of a word processor.

    Attributes:
      kind: its ending.
      texts: those of its paragraphs, each text once.
      needs_alignment: True, see `Document`.
    """

    kind: str
    needs_alignment = True

    def __init__(self, data: bytes):
        """Take the bytes of the file.

        Raises:
          UserError: if it is no such file, encrypted, damaged or too large.
        """
        if data.startswith(_COMPOUND_FILE):
            raise UserError(
                'the file has a password, or the format of an old version: save it as '
                f'{self.kind} without a password.'
            )
        if not data.startswith(b'PK'):
            raise self._wrong_kind()
        self._archive = Archive(data)
        self._names = self._parts(self._archive)
        if not self._names:
            raise self._wrong_kind()
        roots = self._archive.roots(self._names)
        texts = (text for _, x in self._paragraphs(roots) for text in x.texts)
        # Word writes a text box twice. Its texts need one translation.
        self.texts = list(dict.fromkeys(texts))

    def translated(self, outputs: Sequence[Translation], language: str = '') -> bytes:
        """Return the file with a translation, with alignment, in the place of each text.

        Raises:
          UserError: if formats and links that are repeated would make it too large.
        """
        clean = [x._replace(text=_NOT_XML.sub(_allowed, x.text)) for x in outputs]
        by_text = dict(zip(self.texts, clean, strict=True))
        roots, copies = self._archive.roots(self._names), Copies()
        # All are found before any changes, since there are paragraphs within paragraphs.
        changed = [(name, x) for name, x in self._paragraphs(roots) if x.texts]
        for _, paragraph in changed:
            paragraph.translate(by_text, copies)
        names = {name for name, _ in changed}
        if changed and (tag := language_tag(language)):
            names |= {name for name, root in roots.items() if self._set_language(root, tag)}
        return self._archive.replaced({name: roots[name] for name in names})

    @abstractmethod
    def _parts(self, archive: Archive) -> list[str]:
        """Return the names of the parts that are read, none if it is a file of another kind."""

    @abstractmethod
    def _paragraphs(self, roots: Mapping[str, Any]) -> Iterable[tuple[str, Paragraph]]:
        """Return the paragraphs of all parts that are no code, each with the name of its part."""

    @abstractmethod
    def _set_language(self, root: Any, language: str) -> bool:
        """Let the marks of languages in a part name this one, and return whether there are any."""

    def _wrong_kind(self) -> UserError:
        return UserError(f'the file is no {self.kind} file: save it as {self.kind}.')


def _allowed(character: re.Match[str]) -> str:
    """Return what takes the place of a character, so that alignments still count the words."""
    return ' ' if character[0].isspace() else '\ufffd'


class Point(NamedTuple):
    """What has a place in a paragraph, but no text to translate.

    Attributes:
      content: what it is.
      divides: whether it divides the paragraph into two texts, as a tab does.
      begins: the name of the range of words that begins here, such as a bookmark.
      ends: the name of the range that ends here.
    """

    content: Any
    divides: bool = False
    begins: Hashable = None
    ends: Hashable = None


class Copies:
    """Copies elements, but not so many that a small file becomes a huge one."""

    _MOST = 64 << 20  # characters, about as large as files may be

    def __init__(self):
        """Copy nothing yet."""
        self._left = self._MOST

    def __call__(self, element: Any) -> Any:
        """Return a copy of an element with all that is in it.

        Raises:
          UserError: if all copies are too large.
        """
        for x in element.iter():
            self._take(x)
            self._left -= len(x.text or '')
        return deepcopy(element)

    def shell(self, parent: Any, element: Any) -> Any:
        """Add an element without its content to another one, see `__call__`."""
        self._take(element)
        return etree.SubElement(parent, element.tag, element.attrib)

    def _take(self, element: Any) -> None:
        self._left -= 50 + sum(len(name) + len(x) for name, x in element.attrib.items())
        if self._left < 0:
            raise UserError(
                'the formats and links of the file are too large to be repeated: divide the file '
                'into several.'
            )


class Wrapper:
    """A mark: an element around words."""

    def __init__(self, element: Any):
        """Take the element, which is not changed."""
        self.element = element

    def open(self, parent: Any, copies: Copies) -> Any:
        """Add a copy of the element to another, and return where its content goes."""
        return copies.shell(parent, self.element)

    def close(self, parent: Any, copies: Copies) -> None:
        """Write nothing: no end mark is needed here (unlike Word's marks of fields)."""


class OpenMarks:
    """The marks that are open while the pieces of a paragraph are written."""

    def __init__(self, paragraph: Any, copies: Copies):
        """Take the element of the paragraph, and what copies elements."""
        self._paragraph, self._copies = paragraph, copies
        self._opened: list[tuple[Any, Any]] = []  # marks, and where the content of each goes

    def change(self, marks: Marks) -> Any:
        """Close and open marks, such as a `Wrapper`, and return where their content goes."""
        same = len(common(tuple(mark for mark, _ in self._opened), marks))
        while len(self._opened) > same:
            mark, _ = self._opened.pop()
            mark.close(self._parent(), self._copies)
        for mark in marks[same:]:
            self._opened.append((mark, mark.open(self._parent(), self._copies)))
        return self._parent()

    def _parent(self) -> Any:
        return self._opened[-1][1] if self._opened else self._paragraph


class DividedText:
    """A paragraph, which some of its points divide into texts.

    Attributes:
      texts: those with a letter.
    """

    def __init__(self, pieces: Iterable[Piece]):
        """Take pieces with a `Point`, or none."""
        self._parts: list[Piece | RangedText] = []
        part: list[Piece] = []
        for piece in pieces:
            go_on()
            if piece.point is not None and piece.point.divides:
                self._parts += [*divided(part, _side), piece]
                part = []
            elif piece.point is not None:
                part.append(piece)
            else:
                for k, text in enumerate(MARKS.split(piece.text)):
                    if k % 2:
                        part.append(Piece('', piece.marks, Point(text)))
                    elif text:
                        part.append(piece._replace(text=text))
        self._parts += divided(part, _side)
        self.texts = [x.text for x in self._parts if isinstance(x, RangedText) and x.has_letters]

    def translated(self, outputs: Mapping[str, Translation]) -> list[Piece]:
        """Return the pieces of the paragraph with the translation of each text."""
        found = list[Piece]()
        for part in self._parts:
            go_on()
            if isinstance(part, Piece):
                found.append(part)
            elif part.has_letters:
                output = outputs[part.text]
                found += part.translated(output.text, output.alignment or ())
            else:
                found += part.pieces
        found = [
            Piece(piece.point.content, piece.marks)
            if piece.point is not None and isinstance(piece.point.content, str)
            else piece
            for piece in found
        ]
        # A format or link that has lost its words is empty, and shows nothing.
        return [piece for piece in found if piece.text or piece.point is not None]


def _side(point: Point) -> Side | None:
    """Return what a point is to a range."""
    if point.begins is not None:
        return Side('begin', 'range', point.begins, crosses=True)
    if point.ends is not None:
        return Side('end', 'range', point.ends, crosses=True)
    return side(point.content) if isinstance(point.content, str) else None
