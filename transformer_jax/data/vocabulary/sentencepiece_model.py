"""Opens SentencePiece models that may be damaged, or made to do harm.

SentencePiece's own code reads the bytes of a model unchecked in two places, where it would end the
process: a model of no bytes is opened without being loaded, and the table of its normalisation is
a trie whose numbers it follows wherever they point.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import sentencepiece

_PIECES, _NORMALIZERS = 1, (3, 5)  # fields of the message ModelProto
_CHARSMAP = 2  # field of NormalizerSpec


def open_model(model: bytes) -> Any:
    """Return the SentencePieceProcessor of the bytes of a model file.

    Raises:
      ValueError: if they are no SentencePiece model; the message says what they are.
    """
    if not model:
        raise ValueError('empty, not a SentencePiece model')
    _check(memoryview(model))
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
        raise ValueError('not a SentencePiece model') from error


def _check(model: memoryview) -> None:
    """Raise ValueError if SentencePiece could not read a model safely."""
    has_pieces = False
    for field, content in _fields(model):
        has_pieces |= field == _PIECES
        if field in _NORMALIZERS:
            for of_normalizer, value in _fields(content):
                if of_normalizer == _CHARSMAP and len(value):
                    _check_trie(value)
    if not has_pieces:
        raise ValueError('not a SentencePiece model: it has no pieces')


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield number and content of each field of a message of protocol buffers that is no number."""
    place, end = 0, len(message)
    while place < end:
        key, place = _varint(message, place)
        kind = key & 7
        if kind == 0:
            _, place = _varint(message, place)
            continue
        size, place = _varint(message, place) if kind == 2 else ({1: 8, 5: 4}.get(kind, end), place)
        if size > end - place:
            raise ValueError('not a SentencePiece model, or not all of it')
        if kind == 2:
            yield key >> 3, message[place : place + size]
        place += size


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    """Return the number at a place, which may have several bytes, and the place behind it."""
    value = 0
    for number, byte in enumerate(message[place : place + 10]):
        value |= (byte & 127) << 7 * number
        if byte < 128:
            return value, place + number + 1
    raise ValueError('not a SentencePiece model, or not all of it')


def _check_trie(charsmap: memoryview) -> None:
    """Raise ValueError if the table of a normalisation points outside itself.

    It is the size of a trie, the trie as a double array (darts-clone), and the replacements, each
    ended by NUL. A unit of the trie is a leaf, which holds the place of a replacement, or it leads
    to the units at its own index ^ its offset ^ the next byte of the text; if it ends a match, the
    first of these is a leaf.
    """
    size = int.from_bytes(charsmap[:4], 'little')
    texts = charsmap[4 + size :]
    if size % 4 or not size or not len(texts) or texts[-1]:
        raise ValueError('a SentencePiece model whose normalisation is damaged')
    units = np.frombuffer(charsmap[4 : 4 + size], '<u4')
    inner = np.flatnonzero(units >> 31 == 0).astype(np.uint32)
    of_inner = units[inner]
    first = inner ^ ((of_inner >> 10) << ((of_inner & 512) >> 6))
    ok = np.all((first | 255) < len(units))
    if ok:
        leaves = units[first[(of_inner >> 8 & 1) == 1]] & 0x7FFFFFFF
        ok = np.all(leaves < len(texts))
    if not ok:
        raise ValueError('a SentencePiece model whose normalisation is damaged')
