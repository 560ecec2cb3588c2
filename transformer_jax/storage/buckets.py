"""Files and folders in buckets (gs://, s3://), through fsspec.

Copies of single files are kept in the cache. A folder of many files is complete when its last file
is there, because a bucket renames nothing.
"""

import contextlib
import errno
import importlib.util
import logging
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from transformer_jax.errors import (
    CANNOT_WRITE,
    UserError,
    first_line,
    in_bucket,
    is_utf8,
    user_path,
)
from transformer_jax.storage.cache import cache_folder, content_digest, make_folder
from transformer_jax.storage.files import partial_path, remove, remove_leftovers

# By scheme: the package that fsspec needs, and the extra that brings it.
_PACKAGES = {'gs': ('gcsfs', 'gcs'), 's3': ('s3fs', 's3')}
# Whatever version of a file a bucket's listing names.
_VERSION = ('size', 'generation', 'etag', 'ETag', 'LastModified')
# Errors of writing a copy, which `failures_to_cache` explains.
_OF_THIS_MACHINE = (*CANNOT_WRITE, errno.ENAMETOOLONG)
_MAGIC = re.compile(r'[*?\[]')


def check_url(url: str, field: str) -> None:
    """Raise UserError if a URL names nothing in a bucket, or a package is missing.

    Args:
      url: what the user gave.
      field: the name of its flag or config field, for messages.
    """
    scheme, _, path = url.partition('://')
    bucket, *parts = path.rstrip('/').split('/')
    if not bucket:
        raise UserError(f'{field}={url!r} names no bucket: give {scheme}://BUCKET/FOLDER.')
    # Orbax and fsspec understand these differently.
    if {'', '.', '..'}.intersection(parts) or '\0' in url or not is_utf8(url):
        raise UserError(
            f'{field}={url!r} has an empty part, a dot for a part, or a character that no name can '
            f'have: give {scheme}://BUCKET/FOLDER.'
        )
    package, extra = _PACKAGES[scheme]
    if importlib.util.find_spec(package) is None:
        raise UserError(f"{field}={url!r} needs a package: pip install 'transformer_jax[{extra}]'.")


def file_system(url: str, field: str) -> Any:
    """Return the fsspec file system of a URL, which asks for credentials.

    Args:
      url: what the user gave.
      field: the name of its flag or config field, for messages.

    Raises:
      UserError: as `check_url`, or if there are no credentials.
    """
    check_url(url, field)
    # Otherwise gcsfs asks for the kind of a bucket at each call, which needs more permissions.
    os.environ.setdefault('GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT', 'false')
    import fsspec

    logging.getLogger('gcsfs').setLevel(logging.CRITICAL)  # it logs traces of what it raises
    # Another process may write there, and a remembered listing would not show it.
    with failures_to_reach(url, field):
        return fsspec.filesystem(url.partition(':')[0], use_listings_cache=False)


@contextlib.contextmanager
def failures_to_reach(url: str, field: str) -> Iterator[None]:
    """A context for calls of a bucket's client, which raises UserError for its many errors."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # of gcsfs, google, botocore, aiohttp
        if isinstance(error, OSError) and error.errno in _OF_THIS_MACHINE:
            raise
        raise UserError(
            f'{field}={url!r} cannot be reached ({type(error).__name__}: {first_line(error)}): '
            'check its name, the network and your credentials, then run the same command again.'
        ) from error


def local_path(path: str | os.PathLike[str], field: str) -> Path:
    """Return the path of a file, or of a copy of it in the cache if it lies in a bucket.

    A pattern of many files stays a pattern. A file that has changed in the bucket is copied again.

    Args:
      path: a path or URL as the user gave it.
      field: the name of its flag or config field.

    Raises:
      UserError: if the path is not valid, or the bucket has no such file or cannot be reached.
    """
    if not in_bucket(path):
        return user_path(path, field)
    url = os.fspath(path)
    files = file_system(url, field)
    if '**' in url:
        raise UserError(f'{field}={url!r} has **, which is no pattern here: use * for each folder.')
    with failures_to_reach(url, field):
        try:
            info = files.info(url)
            found = {info['name']: info}
        except FileNotFoundError:
            found = files.glob(url, detail=True) if _MAGIC.search(url) else {}
    return _copied(files, found, url, field) / url.partition('://')[2]


def local_folder(url: str, field: str) -> Path:
    """Return a folder with copies of the files of a folder in a bucket, without those in folders.

    Raises:
      UserError: if the bucket has no such folder or cannot be reached.
    """
    files = file_system(url, field)
    with failures_to_reach(url, field):
        found = {info['name']: info for info in files.ls(url, detail=True)}
    return _copied(files, found, url, field) / url.partition('://')[2]


def _copied(files: Any, found: Mapping[str, Mapping[str, Any]], url: str, field: str) -> Path:
    """Return a folder of the cache with copies of files, under their names in the bucket.

    Args:
      files: the file system.
      found: what it says about each name.
      url: what the user gave.
      field: the name of its flag or config field.
    """
    found = {name: info for name, info in found.items() if info['type'] == 'file'}
    if not found:
        raise UserError(f'{field}={url!r} names no file in the bucket: check it.')
    versions = [f'{name} {[info.get(key) for key in _VERSION]}' for name, info in found.items()]
    folder = cache_folder() / 'buckets' / content_digest(sorted(versions))
    if not folder.exists():
        make_folder(folder.parent)
        with _complete(folder) as partial:
            for name in found:
                copy = _below(partial, name)
                copy.parent.mkdir(parents=True, exist_ok=True)
                with failures_to_reach(url, field):
                    files.get_file(name, str(copy))
    return folder


@contextlib.contextmanager
def _complete(path: Path) -> Iterator[Path]:
    """A context with the path of a file or folder that gets its name at the end."""
    remove_leftovers(path)
    partial = partial_path(path)
    try:
        yield partial
        try:
            os.rename(partial, path)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # another process was faster
                raise
    finally:
        remove(partial)


def exists(path: str | os.PathLike[str], field: str) -> bool:
    """Return whether there is a file, here or in a bucket."""
    if not in_bucket(path):
        return os.path.exists(user_path(path, field))
    url = os.fspath(path)
    files = file_system(url, field)
    with failures_to_reach(url, field):
        return files.exists(url)


def upload_folder(folder: Path, url: str, last: str, field: str) -> None:
    """Copy all files of a folder to a bucket.

    Args:
      folder: the folder.
      url: of the folder in the bucket.
      last: the file that makes the copy complete, so it is copied last.
      field: the name of the flag or config field that names the URL.
    """
    files = file_system(url, field)
    paths = sorted(path for path in folder.rglob('*') if path.is_file())
    with failures_to_reach(url, field):
        for path in sorted(paths, key=lambda path: path == folder / last):
            files.put_file(str(path), f'{url}/{path.relative_to(folder).as_posix()}')


def remove_folder(url: str, field: str) -> None:
    """Remove a folder of a bucket as far as possible."""
    with contextlib.suppress(UserError):
        files = file_system(url, field)
        with failures_to_reach(url, field):
            files.rm(url, recursive=True)


def move_folder(folder: os.PathLike[str], to: os.PathLike[str]) -> None:
    """Move a folder of a work directory to another place in it, here or in its bucket."""
    if not in_bucket(folder):
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.move(folder, to)
        return
    file_system(os.fspath(folder), 'workdir').mv(os.fspath(folder), os.fspath(to), recursive=True)


def json_files_in_bucket(folder: os.PathLike[str]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files below a folder of a bucket that look like JSON."""
    url = os.fspath(folder)
    files = file_system(url, 'workdir')
    top = url.partition('://')[2].rstrip('/')
    for name in files.find(url):
        if files.cat_file(name, end=1) in (b'{', b'['):
            yield name.removeprefix(f'{top}/'), files.cat_file(name)


@contextlib.contextmanager
def shared_entry(shared: str, path: Path, last: str = '') -> Iterator[None]:
    """A context that makes a file or folder of the cache, unless a shared cache has it already.

    Args:
      shared: the URL of the shared cache; another path does nothing.
      path: the file or folder in the cache of this machine.
      last: for a folder, the file that makes it complete.
    """
    if not in_bucket(shared):
        yield
        return
    field = 'data.cache_dir'
    files, url = file_system(shared, field), f'{shared.rstrip("/")}/{path.name}'
    with failures_to_reach(url, field):
        is_there = files.exists(f'{url}/{last}' if last else url)
    if is_there and not path.exists():
        with _complete(path) as partial, failures_to_reach(url, field):
            top = url.partition('://')[2]
            for name in files.find(url) if last else [top]:
                copy = _below(partial, name.removeprefix(f'{top}/')) if last else partial
                copy.parent.mkdir(parents=True, exist_ok=True)
                files.get_file(name, str(copy))
    before = _signature(path)
    yield
    if is_there and _signature(path) == before:
        return
    if last:
        upload_folder(path, url, last, field)
    else:
        with failures_to_reach(url, field):
            files.put_file(str(path), url)


def _signature(path: Path) -> tuple[int, int] | None:
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_ino, info.st_mtime_ns


def _below(folder: Path, name: str) -> Path:
    """Return the path of a copy; raise UserError for a name that would lead out of the folder."""
    parts = name.split('/')
    if '..' in parts or '' in parts or '\0' in name:
        raise UserError(f'{name!r} in the bucket cannot be the name of a file here: rename it.')
    return folder.joinpath(*parts)
