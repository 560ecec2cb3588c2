"""A work directory in a bucket, for hosts whose disks do not last, such as those of TPU pods.

Orbax writes checkpoints to the bucket itself. All other files are written to a temporary folder and
copied to the bucket before each checkpoint, so that none is older than the checkpoint. The folder
on another machine begins as a copy of them.
"""

import contextlib
import functools
import glob
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformer_jax.errors import UserError, first_line, in_bucket
from transformer_jax.storage.bucket_lock import BucketLock
from transformer_jax.storage.buckets import check_url, failures_to_reach, file_system, local_folder
from transformer_jax.storage.files import temporary_folder
from transformer_jax.storage.workdir import UNWRITABLE, WRITTEN, Workdir

# By it Orbax knows a complete checkpoint in a bucket.
COMMITTED = 'commit_success.txt'
_WEIGHTS = 'model.safetensors'
# Files that reading a folder needs; it may be the top of a bucket, with anything in it.
_COPIED = (*WRITTEN, 'conversion.json')
_NOT_COPIED = ('lock', 'wandb')  # folders are not copied either, but for what is written here
# Written after what they speak of.
_LAST = ('config.json', 'results.json')
# Packages of the clients whose errors mean that a bucket cannot be reached.
_CLIENTS = ('gcsfs', 'google', 'aiohttp', 'requests', 'urllib3', 'fsspec')


def open_workdir(path: str | os.PathLike[str], field: str = 'workdir') -> Workdir:
    """Return the work directory at a path or at the URL of a bucket.

    Raises:
      UserError: if the path is not valid.
    """
    return BucketWorkdir(os.fspath(path), field) if in_bucket(path) else Workdir(path, field)


class BucketWorkdir(Workdir):
    """A work directory in a bucket; `path` is a local copy of its small files.

    Attributes:
      url: of the folder, without a slash at its end.
    """

    def __init__(self, url: str, field: str):
        check_url(url, field)
        self.url = url.rstrip('/')
        self.field = field
        self._lock: BucketLock | None = None
        self._published: dict[Path, tuple[int, int]] = {}

    @functools.cached_property
    def _files(self) -> Any:
        return file_system(self.url, self.field)

    @property
    def place(self) -> str:
        """Return the URL."""
        return self.url

    @functools.cached_property
    def path(self) -> Path:
        """Return a folder with copies of the small files.

        Raises:
          UserError: if the bucket cannot be reached.
        """
        names = self._names()
        if _WEIGHTS in names:  # a release, which does not change
            return local_folder(self.url, self.field)
        folder = temporary_folder()
        self._fill(folder, names)
        return folder

    def _names(self) -> set[str]:
        """Return the names of the files, without those in folders."""
        with failures_to_reach(self.url, self.field):
            try:
                listed = self._files.ls(self.url, detail=True)
            except FileNotFoundError:
                return set()
        return {info['name'].rpartition('/')[2] for info in listed if info['type'] == 'file'}

    def _fill(self, folder: Path, names: set[str]) -> None:
        with failures_to_reach(self.url, self.field):
            for name in names.intersection(_COPIED).difference(_NOT_COPIED):
                copy = folder / name
                self._files.get_file(f'{self.url}/{name}', str(copy))
                self._published[copy] = _signature(copy)

    @property
    def checkpoints(self) -> Any:
        """Return the folder of the checkpoints, an etils.epath.Path.

        Raises:
          UserError: if the bucket cannot hold checkpoints.
        """
        self.check_path(writing=True)
        # Not through TensorFlow, whose client has fewer credentials and no emulator.
        os.environ.setdefault('EPATH_USE_TF', '0')
        import fsspec
        from etils import epath

        from transformer_jax.storage import epath_private

        # It has decided at its first use, which may have been of a folder on disk.
        epath_private.decide_again()
        fsspec.config.conf.setdefault('gcs', {})['use_listings_cache'] = False
        return epath.Path(self.url) / 'checkpoints'

    def has_checkpoints(self) -> bool:
        """Return whether there is a checkpoint, readable or not."""
        with failures_to_reach(self.url, self.field):
            # One that is being written has the same name, but no such file yet.
            found = bool(self._files.glob(f'{glob.escape(self.url)}/checkpoints/*/{COMMITTED}'))
        self.check_path(writing=found)
        return found

    def has_checkpoint_folder(self) -> bool:
        """Return whether there is a checkpoint: a bucket has no empty folders."""
        return self.has_checkpoints()

    def check_path(self, writing: bool = False) -> None:
        """Raise UserError if checkpoints have to be kept here and cannot be."""
        if writing and (odd := re.search(UNWRITABLE, self.url)):
            raise UserError(
                f'{self} has the character {odd[0]}, with which checkpoints cannot be kept: choose '
                'a path without any of [ ] * ? and backslash.'
            )
        if writing and not self.url.startswith('gs://'):
            raise UserError(
                f'{self} cannot hold checkpoints, because Orbax reads and writes none in s3://: '
                'use a folder on disk and copy it (aws s3 cp --recursive), or gs://; a release '
                'folder (convert --to=release) may lie in s3://.'
            )

    def check_writable(self) -> None:
        """Raise UserError if checkpoints cannot be kept here; `locked` is the first to write."""
        self.check_path(writing=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """A context in which no other process trains here.

        Raises:
          UserError: if another process trains here, or the bucket cannot be written.
        """
        with failures_to_reach(self.url, self.field):
            lock = BucketLock(f'{self.url}/lock', str(self))
            lock.acquire()
            self._lock = lock
        try:
            # The run that held the lock before may have written meanwhile.
            self._fill(self.path, self._names())
            yield
        finally:
            self._lock = None
            lock.release()

    def publish(self) -> None:
        """Copy what has been written here to the bucket, if this process holds the lock.

        Raises:
          UserError: if another process has taken the lock.
        """
        if self._lock is None:
            return
        self._lock.check()
        paths = [path for path in self.path.rglob('*') if path.is_file()]
        for path in sorted(paths, key=lambda path: (path.name in _LAST, path)):
            name = path.relative_to(self.path)
            signature = _signature(path)
            if name.parts[0] in WRITTEN and name.parts[0] not in _NOT_COPIED:
                if self._published.get(path) != signature:
                    self._files.put_file(str(path), f'{self.url}/{name.as_posix()}')
                self._published[path] = signature

    def _why_not_written(self, error: Exception) -> str | None:
        """Return the reason if the disk or the bucket cannot be written, otherwise None."""
        bucket = self.url.partition('://')[2].partition('/')[0] + '/'
        packages = {one.__module__.partition('.')[0] for one in type(error).__mro__}
        if packages.isdisjoint(_CLIENTS) and bucket not in str(error):
            return super()._why_not_written(error)
        return f'{type(error).__name__}: {first_line(error)}'


def _signature(path: Path) -> tuple[int, int]:
    info = path.stat()
    return info.st_mtime_ns, info.st_size
