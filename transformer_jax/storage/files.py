"""Files and folders that are there whole or not at all, whatever ends their writing."""

import contextlib
import errno
import json
import os
import re
import shutil
import stat
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

_DAY = 24 * 60 * 60  # seconds
_unfinished: set[Path] = set()  # partial files and folders of this process


def partial_path(path: Path) -> Path:
    """Return a unique temporary path beside `path`, to be renamed to it when complete.

    Process numbers would not do: containers that share a folder tend to have the same.
    """
    partial = path.with_name(f'{path.name}.partial-{uuid.uuid4().hex}')
    _unfinished.add(partial)
    return partial


def remove_unfinished() -> None:
    """Remove what this process has begun to write and not completed, before it ends at once."""
    for partial in list(_unfinished):
        remove(partial)


def remove(path: Path) -> None:
    """Remove a file or a folder, as far as that is possible."""
    with contextlib.suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    _unfinished.discard(path)


@contextlib.contextmanager
def atomic_write(path: Path, mode: str = 'w') -> Iterator[IO[Any]]:
    """A context with a file that takes the name `path` at its end; an error leaves `path` as it is.

    Args:
      path: to write.
      mode: 'w' for text, in UTF-8, or 'wb'.
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
    """A context with a regular file, open for reading; a pipe or a device is not waited for.

    Raises:
      OSError: if there is no such file, or it cannot be opened.
    """
    # Without O_NONBLOCK, opening a pipe waits for somebody to write to it.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), 'rb') as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, 'not a regular file', str(path))
        yield file


def read_regular(path: Path) -> bytes:
    """Return the content of a regular file; see `open_regular`.

    Raises:
      OSError: if there is no such file, or it cannot be read.
    """
    with open_regular(path) as file:
        return file.read()


def read_json(path: Path, shape: Any) -> Any:
    """Return what a JSON file holds, if it has the shape that is expected of it.

    Args:
      path: of the file.
      shape: as for `parse_json`.

    Raises:
      OSError: if there is no such file, or it cannot be read.
      ValueError: if it is no JSON, or has another shape; it says where.
    """
    return parse_json(read_regular(path), shape)


def parse_json(text: str | bytes, shape: Any) -> Any:
    """Return what a JSON text holds, if it has the shape that is expected of it.

    Args:
      text: in UTF-8.
      shape: a type, where float takes whole numbers as well; None for null; a tuple of shapes, one
        of which has to fit; [shape] for a list of such values; {str: shape} for an object of such
        values; {'name': shape, ...} for an object that has these members, and may have others.

    Raises:
      ValueError: if it is no JSON, or has another shape; it says where.
    """
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError('it is nested too deeply') from error
    check_shape(value, shape)
    return value


def check_shape(value: Any, shape: Any, name: str = 'it') -> None:
    """Raises a ValueError unless a value of a JSON file has the shape; see `parse_json`."""
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
    """'a list', say, for a message."""
    kinds = {dict: 'an object', list: 'a list', str: 'a text', bool: 'true or false'}
    return 'null' if value is None else kinds.get(type(value), f'the number {value!r:.40}')


def remove_leftovers(path: Path) -> None:
    """Removes what processes that were killed have left of writing the file or folder `path`.

    What was written to within a day is left, since another process may be at it.
    """
    leftover = re.compile(re.escape(path.name) + r'\.partial-[0-9a-f]{32}')
    with contextlib.suppress(OSError):  # no such folder yet, or another process was faster
        for partial in path.parent.iterdir():
            if leftover.fullmatch(partial.name) and _last_written(partial) < time.time() - _DAY:
                remove(partial)


def _last_written(path: Path) -> float:
    """Seconds since the epoch, of a file, or of a folder and all that is in it."""
    return max(p.stat().st_mtime for p in (path, *path.rglob('*')))
