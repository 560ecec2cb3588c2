"""Weights in a safetensors file: https://huggingface.co/docs/safetensors.

The file is data: it holds arrays and their names, and its header is checked against its size.
"""

import errno
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

from transformer_jax.errors import first_line
from transformer_jax.storage.files import open_regular

_DTYPES = {'F32': 'float32', 'BF16': 'bfloat16', 'F16': 'float16', 'F64': 'float64'}


def write_weights(
    path: Path,
    weights: Mapping[str, np.ndarray],
    dtype: str = 'float32',
    metadata: dict[str, str] | None = None,
) -> None:
    """Write arrays, rounded to a dtype.

    Args:
      path: the file.
      weights: arrays by name.
      dtype: 'float32' or 'bfloat16'.
      metadata: texts that the file holds besides.

    Raises:
      OSError: if the file cannot be written.
    """
    of_file = {'float32': np.float32, 'bfloat16': ml_dtypes.bfloat16}[dtype]
    arrays = {name: np.asarray(x, of_file, order='C') for name, x in weights.items()}
    path.touch()
    mode = path.stat().st_mode  # safetensors makes a file that only its owner can read
    try:
        safetensors.numpy.save_file(arrays, path, metadata)
    except safetensors.SafetensorError as error:  # the system's error is in its text only
        raise OSError(errno.EIO, first_line(error), str(path)) from error
    path.chmod(mode)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hex, as the program sha256sum prints it."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()


class WeightsFile:
    """A safetensors file, open for reading. Arrays are read one by one.

    Attributes:
      shapes: shape of each array, by name.
      dtypes: dtype of each array in the file: 'float32', 'bfloat16', 'float16' or 'float64', or
        safetensors' own name of another one.

    Raises:
      OSError: if there is no such file, or it cannot be read.
      ValueError: if it is no safetensors file, or is not complete.
    """

    def __init__(self, path: str | os.PathLike[str]):
        with open_regular(Path(path)):  # opening a pipe would wait for its writer
            pass
        try:
            # With memory mapping, a file that is cut meanwhile would end the process.
            self._file = safetensors.safe_open(path, framework='np', backend='pread')
            slices = {x: self._file.get_slice(x) for x in self._file.keys()}  # noqa: SIM118
        except safetensors.SafetensorError as error:
            raise ValueError(first_line(error)) from error
        self.shapes = {name: tuple(x.get_shape()) for name, x in slices.items()}
        self.dtypes = {
            name: _DTYPES.get(x.get_dtype(), x.get_dtype()) for name, x in slices.items()
        }

    def read(self, name: str) -> np.ndarray:
        """Return an array in float32.

        Raises:
          ValueError: if the file has been cut, or its array is not of real numbers.
        """
        if self.dtypes[name] not in _DTYPES.values():
            raise ValueError(f'{name} is of dtype {self.dtypes[name]}')
        try:
            return self._file.get_tensor(name).astype(np.float32, copy=False)
        except (safetensors.SafetensorError, OSError) as error:
            raise ValueError(first_line(error)) from error
