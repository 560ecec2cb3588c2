"""UserError, the exception for mistakes that the user can correct, and parts of its messages."""

import difflib
import errno
import math
import os
import re
from collections.abc import Iterable
from pathlib import Path

# Reasons for a failed write that the user has to remove.
CANNOT_WRITE = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.ESTALE,
)


_MAX_LENGTH = 900  # characters of a message


class UserError(ValueError):
    """A mistake of the user, in one sentence with the field, its value and the remedy.

    Commands print the sentence without a trace and exit with code 2.
    """

    def __str__(self) -> str:
        """Return the sentence as one line, without the middle of a very long value in it."""
        text = super().__str__()
        # Values may have characters that turn text around or clear a terminal.
        if not text.isprintable():
            text = ''.join(x if x.isprintable() else ascii(x)[1:-1] for x in text)
        return text if len(text) <= _MAX_LENGTH else f'{text[:500]} ... {text[-300:]}'


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ': did you mean X?' if a known name is near `name`, otherwise a full stop."""
    near = difflib.get_close_matches(name, known, n=1)
    return f': did you mean {near[0]!r}?' if near else '.'


def listing(names: Iterable[str]) -> str:
    """Return names for a message; long names and long lists are shortened."""
    names = [repr(name if len(name) <= 60 else f'{name[:57]}...') for name in names]
    more = f' and {len(names) - 20} more' if len(names) > 20 else ''
    return (', '.join(names[:20]) + more) or 'none'


def shown(value: object) -> str:
    """Return a value for a message; a long value is shortened."""
    try:
        text = repr(value)
    except Exception:  # a number with thousands of digits, or an object of a config file
        return f'a value of type {type(value).__name__} that cannot be printed'
    return text if len(text) <= 200 else f'{text[:150]} ... {text[-30:]}'


def figure(value: float | None, form: str) -> str:
    """Return a number for people, in a form such as '.2f'; '-' if it is undefined or infinite."""
    return '-' if value is None or not math.isfinite(value) else format(value, form)


def first_line(error: BaseException) -> str:
    """Return the first line of another library's error, short enough for a message."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200].rstrip('.')


def is_utf8(text: str) -> bool:
    """Whether a text can be encoded; file names with bytes that are not UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def in_bucket(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is the URL of something in a bucket."""
    return re.match('(gs|s3)://', os.fspath(path)) is not None


def user_path(path: str | os.PathLike[str], field: str) -> Path:
    """Return a path given by the user, with '~' expanded.

    Args:
      path: the path as it was given.
      field: name of the path's field in messages.

    Raises:
      UserError: if the path is empty, '-', a URL, not UTF-8, or in the home of an unknown user.
    """
    name = os.fspath(path)
    if not name:
        raise UserError(f'{field} is empty: give a path.')
    if name == '-':
        raise UserError(
            f"{field}='-' means stdin or stdout, which cannot stand here: give a path, ./- for one "
            'of this name.'
        )
    if not in_bucket(name) and in_bucket(name.lower()):
        raise UserError(f'{field}={name!r} has a scheme in upper case: write gs:// or s3://.')
    if re.match(r'[A-Za-z][A-Za-z0-9+.-]*://', name):
        raise UserError(f'{field}={name!r} is a URL: give a path in a mounted file system.')
    if '\0' in name:
        raise UserError(f'{field}={name!r} has a NUL character: leave it out.')
    if not is_utf8(name):
        raise UserError(f'{field}={name!r} is not UTF-8: rename it.')
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise UserError(
            f'{field}={str(path)!r} names a user without a home directory: give a full path.'
        ) from error
