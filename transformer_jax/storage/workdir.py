"""The work directory of a run. It is self-contained: it can be moved and still translates.

config.json         the config, and a fingerprint of the data
vocabulary.model    the SentencePiece model; or source_vocabulary.model and target_vocabulary.model,
                    with .json files beside them if tables give pieces their ids
checkpoints/        Orbax checkpoints
metrics.jsonl       one JSON object a line
tensorboard/        the same metrics for TensorBoard
tracker.json        the ids of the run at Weights & Biases and MLflow
results.json        the scores of the finished run
average.json        for averaged weights: the run and the steps that they come from
kernels.json        with train.tune: the kernels that XLA has chosen by trying them
lock                locked by the process that trains here
"""

import contextlib
import dataclasses
import errno
import fcntl
import json
import logging
import os
import re
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformer_jax.config import Config
from transformer_jax.errors import CANNOT_WRITE, UserError, first_line, user_path
from transformer_jax.storage.files import atomic_write, check_shape, finite, read_json

_logger = logging.getLogger('transformer_jax')

# Errors of file systems without locks.
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)
# The shape of each JSON file; see `parse_json`.
_RUN = {'config': {str: {str: (str, float, bool)}}, 'data_fingerprint': str}
_RUN_SINCE = {'split_fingerprints': {str: str}, 'vocabulary_digest': (str, None)}
_AVERAGE = {'workdir': str, 'steps': [int]}
_KERNELS = {'device': str, 'programs': str, 'results': str}
_RESULTS = {
    'finished': {'steps': int, 'patience': int, 'decode': dict},
    'step': int,
    'averaged_checkpoints': [int],
    'test': {
        'sentences': int,
        'tokens': int,
        **dict.fromkeys(('loss', 'perplexity'), (float, None)),
        **dict.fromkeys(('bleu', 'chrf'), float),
        **dict.fromkeys(('bleu_signature', 'chrf_signature'), str),
    },
    'best_dev': (None, {'step': int, 'bleu': float}),
    'examples': [dict.fromkeys(('source', 'reference', 'translation'), str)],
}
SHARED_VOCABULARY = 'vocabulary.model'
SIDE_VOCABULARIES = ('source_vocabulary.model', 'target_vocabulary.model')
# The files and folders that a run writes.
WRITTEN = (
    'config.json',
    SHARED_VOCABULARY,
    *SIDE_VOCABULARIES,
    'source_vocabulary.json',
    'target_vocabulary.json',
    'checkpoints',
    'checkpoints.damaged',
    'metrics.jsonl',
    'metrics.jsonl.damaged',
    'tensorboard',
    'tracker.json',
    'wandb',
    'results.json',
    'average.json',
    'kernels.json',
    'lock',
)
_FOLDERS = ('checkpoints', 'checkpoints.damaged', 'tensorboard')
# Characters in a path from which checkpoints cannot be read, because TensorStore takes a backslash
# for a slash, and to which they cannot be saved, because Orbax takes the path for a pattern.
_UNREADABLE, UNWRITABLE = r'\\', r'[][*?\\]'


@dataclasses.dataclass(frozen=True)
class SavedRun:
    """The content of config.json.

    Attributes:
      config: the run's config.
      data_fingerprint: fingerprint of all its data and its vocabulary.
      split_fingerprints: fingerprints of 'dev' and 'test'; a run from before they were saved has
        none.
      vocabulary_digest: digest of its vocabulary; None for a run from before it was saved.
    """

    config: Config
    data_fingerprint: str
    split_fingerprints: dict[str, str]
    vocabulary_digest: str | None


class Workdir:
    """Names and reads the parts of a work directory.

    Attributes:
      path: the folder.
      field: the name of the path's flag or config field, for errors.

    Raises:
      UserError: if the path is not valid.
    """

    def __init__(self, path: str | os.PathLike[str], field: str = 'workdir'):
        self.path = user_path(path, field)
        self.field = field

    def __str__(self) -> str:
        return f'{self.field}={self.place!r}'

    @property
    def place(self) -> str:
        """Return the path or URL that names the folder."""
        return str(self.path)

    @property
    def checkpoints(self) -> Path:
        """Return the folder of the checkpoints."""
        return self.path / 'checkpoints'

    @property
    def vocabulary(self) -> Path:
        """Return the path of the SentencePiece model, of the source if each side has its own."""
        source = self.path / SIDE_VOCABULARIES[0]
        return source if os.path.lexists(source) else self.path / SHARED_VOCABULARY

    @property
    def metrics(self) -> Path:
        """Return the path of the metrics, in JSON lines."""
        return self.path / 'metrics.jsonl'

    def has_checkpoints(self) -> bool:
        """Return whether there is a checkpoint, readable or not.

        Raises:
          UserError: if the folder of the checkpoints cannot be read.
        """
        try:
            return any(name.isdigit() for name in os.listdir(self.checkpoints))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise UserError(
                f'{self} has checkpoints that may not be read ({error.strerror}): change their '
                'permissions, or choose another folder.'
            ) from error

    def has_checkpoint_folder(self) -> bool:
        """Return whether a run has begun to keep checkpoints here."""
        return self.has_checkpoints() or os.path.isdir(self.checkpoints)

    def check_path(self, writing: bool = False) -> None:
        """Raise UserError if the path has characters with which checkpoints cannot be read.

        Args:
          writing: whether checkpoints must be saved here too.
        """
        odd = re.search(UNWRITABLE if writing else _UNREADABLE, str(self.path.absolute()))
        if odd:
            raise UserError(
                f'{self} has the character {odd[0]} in its full path, where checkpoints cannot be '
                'kept: choose a path without any of [ ] * ? and backslash.'
            )

    def check_writable(self) -> None:
        """Raise UserError unless this folder exists or can be created, and can be written.

        A run writes only to this folder: nothing that it writes may be a link out of the folder.
        """
        self.check_path(writing=True)
        nearest = self.path
        while not os.path.lexists(nearest) and nearest != nearest.parent:
            nearest = nearest.parent
        if not os.path.isdir(nearest):
            what = 'a file' if os.path.exists(nearest) else 'a link to nothing'
            raise UserError(
                f'{self} cannot be a folder, because {nearest} is {what}: choose another.'
            )
        for folder in (nearest, self.checkpoints):
            if os.path.exists(folder) and not os.access(folder, os.W_OK | os.X_OK):
                raise UserError(
                    f'{self} is not writable ({folder}): choose another or change its permissions.'
                )
        self._check_contained()

    def _check_contained(self) -> None:
        """Raise UserError if a file that a run writes is a link out of the folder, or a device.

        A folder from another user may hold such links, and a run would write to their targets.
        """
        top = os.path.realpath(self.path)
        for path in (os.path.join(top, name) for name in WRITTEN):
            self._check_part(top, path)  # first, so that a link to / is not walked
            if os.path.isdir(path) and os.path.basename(path) not in _FOLDERS:
                raise UserError(
                    f'{self} holds a folder {os.path.basename(path)!r}, where a run writes a file: '
                    'remove it, or choose another folder.'
                )
            for parent, folders, files in os.walk(path):
                for name in (*folders, *files):
                    self._check_part(top, os.path.join(parent, name))

    def _check_part(self, top: str, path: str) -> None:
        try:
            mode = os.lstat(path).st_mode
        except OSError:  # it does not exist, or cannot be written either
            return
        name = os.path.relpath(path, top)
        target = os.path.realpath(path) if stat.S_ISLNK(mode) else path
        if os.path.commonpath([top, target]) != top:
            raise UserError(
                f'{self} has a link that leads out of it ({name!r} to {target!r}): put a copy in '
                'its place or remove it, or choose another folder.'
            )
        if stat.S_ISLNK(mode) and not os.path.exists(path):
            raise UserError(
                f'{self} has a link that leads nowhere ({name!r}): remove it, or choose another '
                'folder.'
            )
        if not (stat.S_ISLNK(mode) or stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise UserError(
                f'{self} holds {name!r}, which is neither a file nor a folder: remove it, or '
                'choose another folder.'
            )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """A context in which no other process trains here. The end of the process ends it too.

        Raises:
          UserError: if another process trains here, or the folder cannot be created or locked.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            opened = os.fdopen(_open_lock(self.path / 'lock'), 'a+', encoding='utf-8')
        except OSError as error:
            raise UserError(
                f'{self} cannot be locked ({error.filename}: '
                f'{error.strerror}): choose another --workdir or change its permissions.'
            ) from error
        with opened as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.seek(0)
                raise UserError(
                    f'{self} is in use by another run ({file.read().strip()}): '
                    'wait for it, stop it, or choose another --workdir.'
                ) from error
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                _logger.warning(
                    '%s cannot be locked (%s): make sure that no second run uses it.',
                    self.path,
                    error.strerror,
                )
            file.truncate(0)
            file.write(f'process {os.getpid()} on {socket.gethostname()}\n')
            file.flush()
            yield

    def publish(self) -> None:
        """Copy what has been written to where it is kept, if that is not this folder."""

    @contextlib.contextmanager
    def failures_to_write(
        self, kept: str = '; it resumes from the last checkpoint, and all checkpoints are kept'
    ) -> Iterator[None]:
        """A context that raises UserError if a disk is full or has become read-only.

        Args:
          kept: the end of the message, about what is not lost.
        """
        try:
            yield
        except UserError:
            raise
        except Exception as error:
            reason = self._why_not_written(error)
            if reason is None:
                raise
            raise UserError(
                f'{self} cannot be written any more ({reason}): free space or '
                f'restore access, then run the same command again{kept}.'
            ) from error

    def _why_not_written(self, error: Exception) -> str | None:
        """Return the reason if an error means that nothing can be written, otherwise None."""
        # Libraries put the text of the system's error into errors of their own.
        reasons = map(os.strerror, CANNOT_WRITE)
        return next((reason for reason in reasons if reason in str(error)), None)

    def read_run(self) -> SavedRun | None:
        """Return the content of config.json, or None if no run has begun.

        Raises:
          UserError: if config.json exists but cannot be read.
        """
        path = self.path / 'config.json'
        try:
            saved = read_json(path, _RUN)
            # Without these sections, defaults would take the place of what was trained.
            check_shape(saved['config'], {'model': {}, 'data': {}})
            known = {name: shape for name, shape in _RUN_SINCE.items() if name in saved}
            check_shape(saved, known)
            return SavedRun(
                Config.from_mapping(saved['config']),
                saved['data_fingerprint'],
                saved.get('split_fingerprints', {}),
                saved.get('vocabulary_digest'),
            )
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            reason = getattr(error, 'strerror', None) or first_line(error)
            raise UserError(
                f'{self} has a config.json that cannot be read ({reason}): '
                'restore the file or choose another --workdir.'
            ) from error

    def write_run(self, run: SavedRun) -> None:
        """Write config.json in one step."""
        self._write_json('config.json', dataclasses.asdict(run))

    def read_average(self) -> dict[str, Any] | None:
        """Return which checkpoints the weights are the mean of, or None for a training run.

        Raises:
          UserError: if average.json exists but cannot be read.
        """
        remedy = 'average again (python -m transformer_jax.average), or choose another --workdir.'
        return self._read_intact('average.json', _AVERAGE, remedy)

    def write_average(self, average: dict[str, Any]) -> None:
        """Write average.json in one step."""
        self._write_json('average.json', average)

    def read_results(self) -> dict[str, Any] | None:
        """Return the scores of the finished run, or None if it is unfinished or unreadable."""
        return self._read_json('results.json', _RESULTS)

    def write_results(self, results: dict[str, Any]) -> None:
        """Write results.json in one step."""
        self._write_json('results.json', results)

    def read_kernels(self) -> dict[str, str] | None:
        """Return the kernels that XLA has chosen for the run, or None if it has chosen none.

        Raises:
          UserError: if kernels.json exists but cannot be read.
        """
        remedy = 'restore the file, or remove it, and XLA chooses kernels anew.'
        return self._read_intact('kernels.json', _KERNELS, remedy)

    def write_kernels(self, kernels: dict[str, str]) -> None:
        """Write kernels.json in one step."""
        self._write_json('kernels.json', kernels)

    def _read_intact(self, name: str, shape: dict[str, Any], remedy: str) -> dict[str, Any] | None:
        """Return a file's content, or None if there is no such file; a damaged one is a mistake."""
        content = self._read_json(name, shape)
        if content is None and os.path.lexists(self.path / name):
            article = 'an' if name.startswith('a') else 'a'
            raise UserError(f'{self} has {article} {name} that cannot be read: {remedy}')
        return content

    def _read_json(self, name: str, shape: dict[str, Any]) -> dict[str, Any] | None:
        """Return a file's content, or None if there is none of this shape."""
        try:
            return read_json(self.path / name, shape)
        except (OSError, ValueError):
            return None

    def _write_json(self, name: str, value: Any) -> None:
        with atomic_write(self.path / name) as file:
            file.write(json.dumps(finite(value), indent=2, ensure_ascii=False) + '\n')


def _open_lock(path: Path) -> int:
    """Open a file to append; raise OSError if it is a link or has another name."""
    with contextlib.suppress(FileNotFoundError):
        info = os.lstat(path)
        is_own = stat.S_ISREG(info.st_mode) and info.st_nlink == 1
        if not is_own and not stat.S_ISDIR(info.st_mode):
            raise OSError(errno.EINVAL, 'not a file of its own, so remove it', path)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.open(path, flags, 0o666)
