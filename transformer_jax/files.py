"""Files and folders that are there whole or not at all, whatever ends their writing."""

import contextlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

_DAY = 24 * 60 * 60  # seconds


def partial_path(path: Path) -> Path:
    """A name beside `path` for what is renamed to it once it is whole, and of this caller alone.

    Process numbers would not do: containers that share a folder tend to have the same.
    """
    return path.with_name(f'{path.name}.partial-{uuid.uuid4().hex}')


@contextlib.contextmanager
def written_whole(path: Path, mode: str = 'w') -> Iterator[IO[Any]]:
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
        partial.unlink(missing_ok=True)


def remove_leftovers(path: Path) -> None:
    """Removes what processes that were killed have left of writing the file or folder `path`.

    What was written to within a day is left, since another process may be at it.
    """
    leftover = re.compile(re.escape(path.name) + r'\.partial-[0-9a-f]{32}')
    with contextlib.suppress(OSError):  # no such folder yet, or another process was faster
        for partial in path.parent.iterdir():
            if leftover.fullmatch(partial.name) and _last_written(partial) < time.time() - _DAY:
                shutil.rmtree(partial) if partial.is_dir() else partial.unlink()


def _last_written(path: Path) -> float:
    """Seconds since the epoch, of a file, or of a folder and all that is in it."""
    return max(p.stat().st_mtime for p in (path, *path.rglob('*')))
