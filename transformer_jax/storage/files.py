"""Files and folders that are complete or absent, even if writing them is interrupted."""

import atexit
import contextlib
import errno
import json
import math
import os
import re
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO

_DAY = 24 * 60 * 60  # seconds
# Bytes of a JSON file; in memory its values may take fifty times as much.
_LARGEST_JSON = 32 << 20
_HALF_CHARACTER = re.compile(rb'\\u[dD][89a-fA-F]')
_unfinished: set[Path] = set()  # partial files and folders of this process


def partial_path(path: Path) -> Path:
    """Return a unique temporary path beside `path`, to be renamed to it when complete.

    It has no process number, because containers that share a folder have equal numbers.
    """
    partial = path.with_name(f'{path.name}.partial-{uuid.uuid4().hex}')
    _unfinished.add(partial)
    return partial


def temporary_folder() -> Path:
    """Return a new folder that is removed when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix='transformer_jax-'))
    _unfinished.add(folder)
    atexit.register(remove, folder)
    return folder


def remove_unfinished() -> None:
    """Remove what this process has not finished writing, before the process ends at once."""
    for partial in list(_unfinished):
        remove(partial)


def remove(path: Path) -> None:
    """Remove a file or a folder as far as possible."""
    with contextlib.suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    _unfinished.discard(path)


@contextlib.contextmanager
def atomic_write(path: Path, mode: str = 'w') -> Iterator[IO[Any]]:
    """A context with a file that replaces `path` at the end; an error leaves `path` unchanged.

    Args:
      path: the file to write.
      mode: 'w' for text in UTF-8, or 'wb'.
    """
    remove_leftovers(path)
    partial = partial_path(path)
    try:
        with partial.open(mode, encoding=None if 'b' in mode else 'utf-8') as file:
            yield file
        os.replace(partial, path)
    finally:
        remove(partial)


@contextlib.contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """A context with a regular file, open for reading.

    Raises:
      OSError: if the file cannot be opened, or is a pipe or a device.
    """
    # Without O_NONBLOCK, opening a pipe waits for a writer.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), 'rb') as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, 'not a regular file', str(path))
        yield file


def read_regular(path: Path, most: int | None = None) -> bytes:
    """Return the content of a regular file; see `open_regular`.

    Args:
      path: the file.
      most: the greatest size in bytes, which is checked before memory is taken; None for any.

    Raises:
      OSError: if there is no such file, or it cannot be read, or is larger.
    """
    with open_regular(path) as file:
        if most is not None and os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f'larger than {most:,} bytes', str(path))
        return file.read()


def read_json(path: Path, shape: Any, most: int = _LARGEST_JSON) -> Any:
    """Return the content of a JSON file of a given shape.

    Args:
      path: the file.
      shape: the expected shape; see `parse_json`.
      most: the greatest size in bytes.

    Raises:
      OSError: if the file does not exist, cannot be read, or is larger.
      ValueError: if the file is not JSON or has another shape; the message says where.
    """
    return parse_json(read_regular(path, most), shape)


def parse_json(text: str | bytes, shape: Any) -> Any:
    """Return the content of a JSON text of a given shape.

    Args:
      text: JSON in UTF-8.
      shape: a type, where float accepts whole numbers; None for null; a tuple of alternative
        shapes; [shape] for a list of such values; {str: shape} for an object of such values;
        {'name': shape, ...} for an object with these members, which may have others.

    Raises:
      ValueError: if the text is not JSON, has half a character, or has another shape; the message
        says where.
    """
    try:
        value = json.loads(text)
        if _HALF_CHARACTER.search(text if isinstance(text, bytes) else text.encode()):
            # An escape such as \ud83d alone is a text that no file could take.
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError('it is nested too deeply') from error
    except UnicodeEncodeError as error:
        raise ValueError('it has half a character (a surrogate)') from error
    check_shape(value, shape)
    return value


def finite(value: Any) -> Any:
    """Return a value for JSON, which has no NaN and no infinity, with null for these numbers."""
    if isinstance(value, Mapping):
        return {name: finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_shape(value: Any, shape: Any, name: str = 'it') -> None:
    """Raise ValueError unless a value from JSON has the shape; see `parse_json`."""
    if isinstance(shape, tuple):
        for one in shape:
            with contextlib.suppress(ValueError):
                return check_shape(value, one, name)
        raise ValueError(f'{name} is {_kind(value)}')
    expected = shape if isinstance(shape, type) or shape is None else type(shape)
    types = {float: (float, int), None: (type(None),)}.get(expected, (expected,))
    if type(value) not in types:
        raise ValueError(f'{name} is {_kind(value)}')
    if isinstance(shape, list):
        for index, item in enumerate(value):
            check_shape(item, shape[0], f'item {index} of {name}')
    elif isinstance(shape, dict) and str in shape:
        for key, item in value.items():
            check_shape(item, shape[str], repr(key))
    elif isinstance(shape, dict):
        for key, of_key in shape.items():
            if key not in value:
                raise ValueError(f'{key!r} is missing')
            check_shape(value[key], of_key, repr(key))
    return None


def _kind(value: Any) -> str:
    """Return the kind of a value for a message, for example 'a list'."""
    kinds = {dict: 'an object', list: 'a list', str: 'a text', bool: 'true or false'}
    return 'null' if value is None else kinds.get(type(value), f'the number {value!r:.40}')


def remove_leftovers(path: Path) -> None:
    """Remove the partial files of `path` that killed processes have left.

    Partial files younger than a day stay, because another process may still write to them.
    """
    leftover = re.compile(re.escape(path.name) + r'\.partial-[0-9a-f]{32}')
    with contextlib.suppress(OSError):  # the folder does not exist, or another process was faster
        for partial in path.parent.iterdir():
            if leftover.fullmatch(partial.name) and _last_written(partial) < time.time() - _DAY:
                remove(partial)


def _last_written(path: Path) -> float:
    """Return the time of the last change to a file or inside a folder, in seconds."""
    return max(p.stat().st_mtime for p in (path, *path.rglob('*')))
