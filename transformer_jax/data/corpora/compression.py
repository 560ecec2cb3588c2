"""Compressed files, which hold one or several streams, and zeros between and behind these.

All else is a damaged file, in every format: no bytes at all, an end that is missing, and other
bytes behind the end, which Python's own reader of .xz ignores.
"""

import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

WRITERS: dict[str, Callable[..., Any]] = {'.gz': gzip.open, '.xz': lzma.open}
# What reading a damaged file raises.
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
_BLOCK = 1 << 16  # bytes


def decompressed(file: io.BufferedReader, suffix: str) -> BinaryIO:
    """Return a reader of what a file holds.

    Args:
      file: a compressed file.
      suffix: its format, a key of `WRITERS`.

    Raises:
      EOFError: if the file is empty.
    """
    if not file.peek(1):
        raise EOFError('it is empty')
    raw = _XzStreams(file) if suffix == '.xz' else gzip.GzipFile(fileobj=file)
    # Decompressors read lines slowly, in Python; the buffer does it in C.
    return io.BufferedReader(raw)


class _XzStreams(io.RawIOBase):
    """The content of an .xz file."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self._stream = lzma.LZMADecompressor()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b''
        while not data:
            block = b''
            if self._stream.eof:
                block = self._after(self._stream.unused_data)
                if not block:
                    return 0
                self._stream = lzma.LZMADecompressor()
            elif self._stream.needs_input:
                block = self._file.read(_BLOCK)
                if not block:
                    raise EOFError('it ends within a stream')
            data = self._stream.decompress(block, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _after(self, block: bytes) -> bytes:
        """Return the first bytes after a stream that are not its padding of zeros."""
        while not (block := block.lstrip(b'\0')):
            if not (block := self._file.read(_BLOCK)):
                break
        return block
