"""The one exception that means: the person who runs this can put it right; and words for it."""

import difflib
import errno
import os
import re
from collections.abc import Iterable
from pathlib import Path

# Why the system does not write: what a person has to mend.
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


class UserError(ValueError):
    """A mistake of the user's, said in one sentence that names the field, its value and the remedy.

    The commands print it without a trace and exit with code 2.
    """


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence: ': did you mean X?' where something is near `name`, or a full stop."""
    near = difflib.get_close_matches(name, known, n=1)
    return f': did you mean {near[0]!r}?' if near else '.'


def listing(names: Iterable[str]) -> str:
    """Names for a message, cut where they would fill the screen."""
    names = [repr(name if len(name) <= 60 else f'{name[:57]}...') for name in names]
    more = f' and {len(names) - 20} more' if len(names) > 20 else ''
    return (', '.join(names[:20]) + more) or 'none'


def shown(value: object) -> str:
    """A value for a message, cut where it would fill the screen."""
    try:
        text = repr(value)
    except Exception:  # a number of thousands of digits, or an object of a config file's own
        return f'a value of type {type(value).__name__} that cannot be shown'
    return text if len(text) <= 200 else f'{text[:150]} ... {text[-30:]}'


def first_line(error: BaseException) -> str:
    """What an exception of somebody else's says, short enough for a sentence."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200].rstrip('.')


def is_utf8(text: str) -> bool:
    """Whether a text can be written; of names that the system has in other bytes it cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def user_path(path: str | os.PathLike[str], field: str) -> Path:
    """A path as a user gives it, '~' understood; `field` is what the message calls it.

    Raises:
      UserError: if it is empty, a URL, not UTF-8, or of somebody who has no home.
    """
    name = os.fspath(path)
    if not name:
        raise UserError(f'{field} is empty: give a path.')
    if re.match(r'[A-Za-z][A-Za-z0-9+.-]*://', name):
        raise UserError(f'{field}={name!r} is a URL: name a place in a file system mounted here.')
    if '\0' in name:
        raise UserError(f'{field}={name!r} holds a NUL character: leave it out.')
    if not is_utf8(name):
        raise UserError(f'{field}={name!r} is not UTF-8: rename it.')
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise UserError(
            f'{field}={str(path)!r} is of somebody who has no home here: give a full path.'
        ) from error
