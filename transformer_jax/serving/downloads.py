"""Translated files that wait to be fetched, in memory."""

import collections
import secrets
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

_SECONDS = 600
_MOST_BYTES = 64 << 20
_OVERHEAD = 1000  # bytes that even an empty file takes


class Download(NamedTuple):
    """A file.

    Attributes:
      name: its name.
      data: its bytes.
      until: when it is forgotten.
    """

    name: str
    data: bytes
    until: float

    @property
    def size(self) -> int:
        """Bytes of memory."""
        return len(self.data) + 4 * len(self.name) + _OVERHEAD


class Downloads:
    """Keeps files for ten minutes, or until 64 MiB of later files need their place."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        """Keep nothing yet.

        Args:
          clock: returns the time in seconds.
        """
        self._clock = clock
        self._files: collections.OrderedDict[str, Download] = collections.OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def keep(self, name: str, data: bytes) -> str:
        """Return the token with which a file can be fetched; nobody can guess it."""
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._files[token] = file = Download(name, data, self._clock() + _SECONDS)
            self._bytes += file.size
            self._forget()
        return token

    def get(self, token: str) -> Download | None:
        """Return a file, None if it is not kept."""
        with self._lock:
            self._forget()
            return self._files.get(token)

    def _forget(self) -> None:
        now = self._clock()
        while self._files:
            token, oldest = next(iter(self._files.items()))
            if oldest.until > now and self._bytes <= _MOST_BYTES:
                return
            del self._files[token]
            self._bytes -= oldest.size
