"""A folder that a command makes, here or in a bucket: it is complete or absent."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from transformer_jax.errors import UserError, in_bucket
from transformer_jax.storage.bucket_workdir import COMMITTED, open_workdir
from transformer_jax.storage.buckets import (
    failures_to_reach,
    file_system,
    remove_folder,
    upload_folder,
)
from transformer_jax.storage.files import (
    partial_path,
    remove,
    remove_leftovers,
    temporary_folder,
)


class NewFolder:
    """A folder to make. Its checks come before the work, and `writing` after it.

    Attributes:
      name: the last part of its path.

    Raises:
      UserError: if the folder exists already, or cannot be made.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        field: str = '--output',
        *,
        checkpoints: bool = False,
    ):
        """Check that the folder can be made.

        Args:
          path: the folder, or the URL of one in a bucket.
          field: the name of its flag in messages.
          checkpoints: whether it will hold checkpoints.
        """
        self._field = field
        self._given = os.fspath(path)
        self._workdir = open_workdir(path, field)
        self.name = os.path.basename(self._given.rstrip('/')) or self._given
        if checkpoints:
            self._workdir.check_path(writing=True)
        if self._exists():
            raise UserError(f'{self._workdir} exists already: name a new folder.')
        if not in_bucket(self._given):
            self._workdir.check_writable()

    def __str__(self) -> str:
        return self._given if in_bucket(self._given) else str(self._workdir.path)

    def _exists(self) -> bool:
        if not in_bucket(self._given):
            return os.path.lexists(self._workdir.path)
        files = file_system(self._given, self._field)
        with failures_to_reach(self._given, self._field):
            return files.exists(self._given)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Path]:
        """A context with an empty folder that gets its name at the end; an error removes it.

        Raises:
          UserError: if the folder cannot be made or written.
        """
        with self._workdir.failures_to_write(kept=''):
            if not in_bucket(self._given):
                with self._beside() as partial:
                    yield partial
                return
            folder = temporary_folder()
            yield folder
            for step in folder.glob('checkpoints/*'):
                (step / COMMITTED).touch()
            self._check_still_absent(self._exists())
            try:
                upload_folder(folder, self._given.rstrip('/'), 'config.json', self._field)
            except BaseException:
                remove_folder(self._given, self._field)
                raise
            finally:
                remove(folder)

    @contextlib.contextmanager
    def _beside(self) -> Iterator[Path]:
        """A context with a folder beside the one to make, which is renamed at the end."""
        # Trailing dots and slashes would give the partial folder another parent.
        path = Path(os.path.abspath(self._workdir.path))
        remove_leftovers(path)
        partial = partial_path(path)
        try:
            try:
                partial.mkdir(parents=True)
            except OSError as error:
                raise UserError(
                    f'{self._workdir} cannot be made ({error.strerror}): choose another place.'
                ) from error
            yield partial
            try:
                os.rename(partial, path)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise
                self._check_still_absent(True)
        finally:
            remove(partial)

    def _check_still_absent(self, exists: bool) -> None:
        if exists:
            raise UserError(
                f'{self._workdir} has been made by another program meanwhile: name a new folder.'
            )
