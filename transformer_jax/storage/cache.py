"""The cache folder, for what can be made again: vocabularies, token stores, compiled programs.

Compiled programs are code: a user who can write them can run code as the user who reads them.
"""

import contextlib
import errno
import grp
import hashlib
import os
import pwd
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from transformer_jax.errors import CANNOT_WRITE, UserError, in_bucket, user_path

# A file or folder of another kind has the name of an entry.
_IN_THE_WAY = (errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ELOOP)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
PRIVATE = 0o700  # mode of a folder with compiled programs


def cache_folder(configured: str = '') -> Path:
    """Return `configured`, or $TRANSFORMER_JAX_CACHE, or ~/.cache/transformer_jax.

    A cache in a bucket is shared through that of this machine; see `buckets.shared_entry`.
    """
    if configured and not in_bucket(configured):
        return user_path(configured, 'data.cache_dir')
    named = os.environ.get('TRANSFORMER_JAX_CACHE') or '~/.cache/transformer_jax'
    return user_path(named, '$TRANSFORMER_JAX_CACHE')


@contextlib.contextmanager
def failures_to_cache(folder: Path) -> Iterator[None]:
    """A context that writes to the cache only and raises UserError if that is impossible."""
    try:
        yield
    except OSError as error:
        name = error.filename
        of_cache = (
            error.errno in CANNOT_WRITE
            if name is None
            # Files in the cache, and the folders above it.
            else str(name).startswith(str(folder)) or Path(name) in folder.parents
        )
        if not of_cache:
            raise
        if error.errno in _IN_THE_WAY:
            entry = error.filename2 or name or folder
            raise UserError(
                f'{str(entry)!r} in the cache cannot be replaced ({error.strerror}): remove it, or '
                'name another folder with data.cache_dir or $TRANSFORMER_JAX_CACHE.'
            ) from error
        remedy = 'free space' if error.errno in _FULL else 'restore access'
        raise UserError(
            f'the cache {str(folder)!r} cannot be written ({error.strerror}): {remedy}, or name '
            'another folder with data.cache_dir or $TRANSFORMER_JAX_CACHE.'
        ) from error


def make_folder(folder: Path, mode: int = 0o755) -> None:
    """Create `folder` and its parents unless they exist.

    `Path.mkdir(parents=True)` would give the parents the mode that the umask leaves.

    Args:
      folder: the folder.
      mode: the mode of `folder`, from which the umask removes bits. Parents get 0755.
    """
    try:
        folder.mkdir(mode, exist_ok=True)
    except FileNotFoundError:
        make_folder(folder.parent)
        folder.mkdir(mode, exist_ok=True)


def is_private(folder: Path) -> bool:
    """Return whether no other user can put a file into a folder, or replace the folder.

    Args:
      folder: an absolute path; the folder need not exist.
    """
    try:
        return not _threat_to_folder(folder)
    except OSError:
        return False


def threat_to_programs(folder: Path) -> str:
    """Return how another user could make this process run a program, and the remedy.

    Args:
      folder: the cache folder.

    Returns:
      The middle of a sentence; '' if no other user can.
    """
    compiled, programs = folder / 'compiled', folder / 'programs'
    try:
        # Check first, so that root creates no folder in the cache of another user.
        if threat := _threat_to_folder(compiled) or _threat_to_folder(programs):
            return threat
        make_folder(compiled, PRIVATE)
        # JAX opens the files in `compiled` itself; `read_own` checks those in `programs`.
        return _threat_to_folder(compiled) or _threat_to_content(compiled)
    except OSError as error:
        return f'{error.filename!r} cannot be used ({error.strerror}): restore access'


def read_own(path: Path) -> bytes:
    """Return the content of a file that only this user can have written.

    Raises:
      OSError: if the file cannot be read, is a link, or another user owns it or can write it.
    """
    # Without O_NONBLOCK, opening a pipe waits for a writer.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(path, flags), 'rb') as file:
        # Check the open file, because another file may take its name a moment later.
        threat = _threat_to_file(file.fileno(), os.fstat(file.fileno()))
        if threat:
            raise PermissionError(threat)
        return file.read()


def _threat_to_folder(path: Path) -> str:
    """Return how another user could write into a folder or replace it, and the remedy, or ''.

    This checks every parent folder, and the parents of every link among them. A folder that does
    not exist is no threat.
    """
    here, rest = Path('/'), list(path.parts[1:])
    while True:
        try:
            info = os.lstat(here)
        except FileNotFoundError:
            return ''
        is_link = stat.S_ISLNK(info.st_mode)
        on_the_way = bool(rest) or is_link
        if info.st_uid != os.geteuid() and not (on_the_way and info.st_uid == 0):
            remedy = 'change its owner' if on_the_way else 'remove it'
            return f'{str(here)!r} belongs to {_user(info.st_uid)}: {remedy}'
        if is_link:
            rest = [*Path(os.readlink(here)).parts, *rest]
            here = here.parent
            continue
        # In a folder with the sticky bit, such as /tmp, users can rename only their own files.
        sticky = info.st_mode & stat.S_ISVTX
        if _others_can_write(here, info) and not (on_the_way and sticky):
            remedy = 'remove that permission (chmod go-w)' if on_the_way else 'remove it'
            return f'{str(here)!r} can be written by others: {remedy}'
        if not rest:
            return ''
        part = rest.pop(0)
        here = here.parent if part == '..' else here / part


def _threat_to_content(folder: Path) -> str:
    """Return who else may have written something in a folder, and the remedy, or ''."""
    # JAX gives its files the mode that the umask leaves. In a closed folder nobody reaches them.
    is_closed = not os.stat(folder).st_mode & 0o077
    for parent, folders, files in os.walk(folder):
        for path in (os.path.join(parent, name) for name in (*folders, *files)):
            with contextlib.suppress(FileNotFoundError):  # another process may have removed it
                if threat := _threat_to_file(path, os.lstat(path), is_closed):
                    return f'{path!r} {threat}: remove {str(folder)!r}'
    return ''


def _threat_to_file(file: str | int, info: os.stat_result, is_closed: bool = False) -> str:
    """Return who else may have written a file or folder, or ''.

    Args:
      file: the path, or the descriptor of an open file.
      info: its status.
      is_closed: whether the folder above keeps other users out, whatever the mode of the file.
    """
    if not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)):
        return 'is not a regular file'
    if info.st_uid != os.geteuid():
        return f'belongs to {_user(info.st_uid)}'
    return 'can be written by others' if not is_closed and _others_can_write(file, info) else ''


def _others_can_write(file: str | Path | int, info: os.stat_result) -> bool:
    if info.st_mode & stat.S_IWOTH:
        return True
    return bool(info.st_mode & stat.S_IWGRP) and not _is_private_group(file, info)


def _is_private_group(file: str | Path | int, info: os.stat_result) -> bool:
    """Return whether the group of a file has this user as its only member, as many systems do."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(info.st_gid)
    except KeyError:
        return False
    # With an access control list, the group bits stand for all users and groups in the list.
    with contextlib.suppress(OSError):
        if any('acl' in name for name in os.listxattr(file)):
            return False
    return (user.pw_gid, user.pw_name) == (group.gr_gid, group.gr_name) and (
        {*group.gr_mem} <= {user.pw_name}
    )


def _user(number: int) -> str:
    try:
        return repr(pwd.getpwuid(number).pw_name)
    except KeyError:
        return f'user {number}'


def content_digest(texts: Iterable[str]) -> str:
    """Return a hex digest of texts. It includes their lengths: ['ab', 'c'] is not ['a', 'bc']."""
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        encoded = text.encode()
        digest.update(b'%d:%s' % (len(encoded), encoded))
    return digest.hexdigest()
