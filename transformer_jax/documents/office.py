"""What documents of word processors have in common."""

import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from transformer_jax.documents.archive import Archive
from transformer_jax.documents.marked_text import MarkedText, Piece
from transformer_jax.errors import UserError
from transformer_jax.inference.outputs import Translation

# How files begin that have a password or the format of old versions.
_COMPOUND_FILE = b'\xd0\xcf\x11\xe0'
_NOT_XML = re.compile('[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]')


class Paragraph(Protocol):
    """A paragraph of a part of a document.

    Attributes:
      texts: what to translate in it.
    """

    texts: list[str]

    def translate(self, outputs: Mapping[str, Translation]) -> None:
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
        paragraphs = self._paragraphs(self._archive.roots(self._names))
        # Word writes a text box twice. Its texts need one translation.
        self.texts = list(dict.fromkeys(text for x in paragraphs for text in x.texts))

    def translated(self, outputs: Sequence[Translation]) -> bytes:
        """Return the file with a translation, with alignment, in the place of each text."""
        clean = [x._replace(text=_NOT_XML.sub('', x.text)) for x in outputs]
        by_text = dict(zip(self.texts, clean, strict=True))
        roots = self._archive.roots(self._names)
        # All are found before any changes, since there are paragraphs within paragraphs.
        for paragraph in [x for x in self._paragraphs(roots) if x.texts]:
            paragraph.translate(by_text)
        return self._archive.replaced(roots)

    @abstractmethod
    def _parts(self, archive: Archive) -> list[str]:
        """Return the names of the parts with text, none if it is a file of another kind."""

    @abstractmethod
    def _paragraphs(self, roots: Mapping[str, Any]) -> Iterable[Paragraph]:
        """Return the paragraphs of the parts with text."""

    def _wrong_kind(self) -> UserError:
        return UserError(f'the file is no {self.kind} file: save it as {self.kind}.')


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


class DividedText:
    """A paragraph, which some of its points divide into texts.

    Attributes:
      texts: those with a letter.
    """

    def __init__(self, pieces: Iterable[Piece]):
        """Take pieces with a `Point`, or none."""
        self._parts: list[Piece | MarkedText] = []
        part: list[Piece] = []
        for piece in pieces:
            if piece.point is not None and piece.point.divides:
                self._parts += [MarkedText(part), piece]
                part = []
            else:
                part.append(piece)
        self._parts.append(MarkedText(part))
        self.texts = [x.text for x in self._parts if isinstance(x, MarkedText) and has_letter(x)]

    def translated(self, outputs: Mapping[str, Translation]) -> list[Piece]:
        """Return the pieces of the paragraph with the translation of each text."""
        found = list[Piece]()
        for part in self._parts:
            if isinstance(part, Piece):
                found.append(part)
            elif has_letter(part):
                output = outputs[part.text]
                found += part.translated(output.text, output.alignment or ())
            else:
                found += part.pieces
        # A format or link that has lost its words is empty, and shows nothing.
        found = [piece for piece in found if piece.text or piece.point is not None]
        _order_ranges(found)
        return found


def has_letter(text: MarkedText) -> bool:
    """Return whether there is something to translate."""
    return any(map(str.isalpha, text.text))


def _order_ranges(pieces: list[Piece]) -> None:
    """Exchange the two points of a range that ends before it begins."""
    ends = dict[Hashable, int]()
    for k, piece in enumerate(pieces):
        if piece.point is None:
            continue
        if piece.point.ends is not None:
            ends[piece.point.ends] = k
        elif piece.point.begins in ends:
            other = ends.pop(piece.point.begins)
            pieces[k], pieces[other] = pieces[other], pieces[k]
