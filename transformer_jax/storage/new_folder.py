"""A folder that a command makes: it is complete or absent."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from transformer_jax.errors import UserError
from transformer_jax.storage.files import partial_path, remove, remove_leftovers
from transformer_jax.storage.workdir import Workdir


class NewFolder:
    """A folder to make. Its checks come before the work, and `writing` after it.

    Attributes:
      path: the folder.

    Raises:
      UserError: if the folder exists already, or cannot be made.
    """

    def __init__(self, path: str | os.PathLike[str], field: str = '--output'):
        """Check that the folder can be made.

        Args:
          path: the folder.
          field: the name of its flag in messages.
        """
        self._workdir = Workdir(path, field)
        self.path = self._workdir.path
        if os.path.lexists(self.path):
            raise UserError(f'{self._workdir} exists already: name a new folder.')
        self._workdir.check_writable()

    def _name(self, partial: Path, path: Path) -> None:
        try:
            os.rename(partial, path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            raise UserError(
                f'{self._workdir} has been made by another program meanwhile: name a new folder.'
            ) from error

    @contextlib.contextmanager
    def writing(self) -> Iterator[Path]:
        """A context with an empty folder that gets its name at the end; an error removes it.

        Raises:
          UserError: if the folder cannot be made or written.
        """
        # Trailing dots and slashes would give the partial folder another parent.
        path = Path(os.path.abspath(self.path))
        remove_leftovers(path)
        partial = partial_path(path)
        try:
            try:
                partial.mkdir(parents=True)
            except OSError as error:
                raise UserError(
                    f'{self._workdir} cannot be made ({error.strerror}): choose another place.'
                ) from error
            with self._workdir.failures_to_write(kept=''):
                yield partial
                self._name(partial, path)
        finally:
            remove(partial)
