"""Arrays in a file of numpy.savez, which comes from others."""

import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from transformer_jax.errors import UserError, first_line, listing
from transformer_jax.storage.files import open_regular

_LONGEST_HEADER = 10_000  # bytes
_RATIO = 20  # of bytes in memory to bytes in the file; weights hardly become smaller


class _Entry(NamedTuple):
    """What the header of an array says."""

    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype


class NpzFile:
    """A file of arrays, such as model.npz. Headers are checked against the size of the file.

    Attributes:
      shapes: shape of each array, by name.
    """

    def __init__(self, path: Path):
        """Open a file and read the headers of its arrays.

        Raises:
          UserError: if it cannot be read.
        """
        self._path = path
        try:
            with open_regular(path):  # opening a pipe would wait for its writer
                pass
            self._zip = zipfile.ZipFile(path)
            infos = {x.filename.removesuffix('.npy'): x for x in self._zip.infolist()}
            total, limit = sum(x.file_size for x in infos.values()), path.stat().st_size * _RATIO
            if total > limit:
                raise ValueError(f'its arrays would be {total:,} bytes, of a much smaller file')
            self._entries = {name: self._entry(info) for name, info in infos.items()}
        except Exception as error:  # zipfile and NumPy raise many kinds
            raise UserError(
                f'{str(path)!r} cannot be read as a file of arrays ({first_line(error)}): get the '
                'model again.'
            ) from error
        self.shapes = {name: entry.shape for name, entry in self._entries.items()}

    def check_types(self, allowed: set[type], ignored: str) -> None:
        """Raise a UserError if an array is of another type than those, unless it is `ignored`."""
        types = {entry.dtype for name, entry in self._entries.items() if name != ignored}
        if types - {np.dtype(one) for one in allowed}:
            raise UserError(
                f'{str(self._path)!r} has arrays of {listing(sorted(map(str, types)))}: import the '
                'model from before it was quantised.'
            )

    def read(self, name: str) -> np.ndarray:
        """Return an array in float32.

        Raises:
          ValueError: if the file is damaged.
        """
        return self.read_raw(name).astype(np.float32, copy=False)

    def read_raw(self, name: str) -> np.ndarray:
        """Return an array in the type of the file.

        Raises:
          ValueError: if the file is damaged.
        """
        entry = self._entries[name]
        try:
            with self._zip.open(f'{name}.npy') as stream:
                _header(stream)
                values = np.frombuffer(stream.read(), entry.dtype)
            return values.reshape(entry.shape, order='F' if entry.is_fortran else 'C')
        except Exception as error:  # as above
            raise ValueError(first_line(error)) from error

    def _entry(self, info: zipfile.ZipInfo) -> _Entry:
        with self._zip.open(info) as stream:
            entry = _header(stream)
            there = info.file_size - stream.tell()
        wanted = entry.dtype.itemsize
        for size in entry.shape:  # Python's numbers, which do not overflow
            wanted *= size
        if entry.dtype.hasobject:
            wanted = there  # its type is refused later
        if min(entry.shape, default=0) < 0 or wanted != there:
            raise ValueError(
                f'{info.filename} is of shape {list(entry.shape)}, which does not fit its size'
            )
        return entry


def _header(stream: Any) -> _Entry:
    """Read the header of an array."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0
    if version != (1, 0):
        read = np.lib.format.read_array_header_2_0
    return _Entry(*read(stream, max_header_size=_LONGEST_HEADER))
