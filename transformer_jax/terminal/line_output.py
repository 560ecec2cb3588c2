"""Where results are written: a stream, or a file that a stopped command resumes."""

import contextlib
import errno
import fcntl
import hashlib
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol, TextIO

from transformer_jax.data.corpora.text_files import TextFile
from transformer_jax.errors import UserError, in_bucket, user_path
from transformer_jax.runtime.progress import STDERR
from transformer_jax.storage.files import atomic_write, read_json

_STATE = {'settings': str, 'input': str, 'output': str, 'lines': int, 'bytes': int, 'cut': int}
_SKIP_CHUNK = 4096  # lines
_BLOCK = 1 << 20  # bytes


class Lines(Protocol):
    """What is read, in chunks."""

    def take(self, most: int) -> list[str]:
        """Return the next lines, at most `most`; none at the end."""


def check_output(
    output: str | None, inputs: Mapping[str, str | None], workdirs: Sequence[str]
) -> None:
    """Raise a UserError if the output would replace an input, or a file of a run.

    Args:
      output: value of --output; None is stdout.
      inputs: the flags of inputs, and their values.
      workdirs: values of --workdir.
    """
    if output is None:
        return
    place = os.path.realpath(user_path(output, '--output'))
    here = (workdir for workdir in workdirs if not in_bucket(workdir))
    runs = [os.path.realpath(user_path(workdir, '--workdir')) for workdir in here]
    if any(place.startswith(os.path.join(run, '')) for run in runs):
        raise UserError(
            f'--output={output!r} is in the work directory, which holds files of the run only: '
            'choose another place.'
        )
    for flag, path in inputs.items():
        is_file = path is not None and os.path.isfile(path)
        if is_file and place == os.path.realpath(user_path(path, flag)):
            raise UserError(f'--output={output!r} is also {flag}: choose another name.')


def open_output(path: str | None, stack: contextlib.ExitStack) -> 'StreamOutput | ResumableOutput':
    """Open stdout, or a file that `stack` closes.

    Args:
      path: value of --output; None is stdout.
      stack: closes the file.

    Raises:
      UserError: if nothing can be written there.
    """
    if path is None:
        if sys.stdout is None:
            raise UserError('there is no stdout to write to: name a file with --output.')
        return StreamOutput('stdout', sys.stdout)
    name = f'--output={path!r}'
    place = user_path(path, '--output')
    if os.path.isdir(place):
        raise UserError(f'{name} is a folder: name a file.')
    text_file = TextFile('--output', place)
    text_file.check_writing()
    with _failures(name):
        if not os.path.exists(place) or os.path.isfile(place):
            return ResumableOutput(name, text_file, stack)
        # A new file would replace a pipe or a device, so these take lines as they come.
        file = stack.enter_context(place.open('wb'))
        compressing = stack.enter_context(text_file.compressing(file))
        text = io.TextIOWrapper(compressing, encoding='utf-8', newline='\n')
        return StreamOutput(name, stack.enter_context(text))


@contextlib.contextmanager
def _failures(name: str, file: IO[Any] | None = None) -> Iterator[None]:
    """A context in which an output that cannot be written becomes a UserError."""
    try:
        yield
    except OSError as error:
        if isinstance(error, BrokenPipeError) and name == 'stdout':
            raise  # all commands end without an error when the reader of stdout is gone
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()  # otherwise its buffer would fail once more at exit
        # The finished part of a file stays beside it, so the same command can resume.
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT) and name.startswith('--output')
        remedy = 'free some space and run the same command again, or ' if is_full else ''
        raise UserError(
            f'{name} cannot be written ({error.strerror}): {remedy}choose another place.'
        ) from error


def _one_line(text: str) -> str:
    return re.sub('[\r\n]', ' ', text) + '\n'


class StreamOutput:
    """Stdout, a pipe or a device: outputs are written as they come."""

    def __init__(self, name: str, file: TextIO):
        self._name, self._file = name, file

    def begin(self, lines: Lines, settings: str) -> tuple[int, int]:
        """Return (0, 0), because nothing was written before; see `ResumableOutput.begin`."""
        del lines, settings
        return 0, 0

    def write(self, chunk: Sequence[str], outputs: Sequence[str], cut: int) -> None:
        """Write the outputs of the next lines; see `ResumableOutput.write`."""
        del chunk, cut
        with _failures(self._name, self._file):
            self._file.writelines(map(_one_line, outputs))
            self._file.flush()

    def kept(self) -> str:
        """Return '', because a stream cannot be resumed; see `ResumableOutput.kept`."""
        return ''

    def commit(self) -> None:
        """Close the output, unless it is stdout, which the process may still write to."""
        if self._name != 'stdout':
            with _failures(self._name, self._file):
                self._file.close()


class ResumableOutput:
    """A file that gets its name when it is complete, so that a failure keeps an old file.

    Until then `NAME.partial` holds the outputs so far. `NAME.partial.json` describes their lines
    and their command, so that the same command resumes there.
    """

    def __init__(self, name: str, text_file: TextFile, stack: contextlib.ExitStack):
        """Open the partial file.

        Args:
          name: the file's name in messages.
          text_file: the file to write.
          stack: closes the partial file, and removes it if no line is done.

        Raises:
          UserError: if another file has the name of the partial file, or another command writes it.
          OSError: if the partial file cannot be opened.
        """
        self._name, self._text_file = name, text_file
        # A link stays a link; its target is written.
        self._place = Path(os.path.realpath(text_file.path))
        self._partial = self._place.with_name(f'{self._place.name}.partial')
        self._state = self._place.with_name(f'{self._partial.name}.json')
        self._lines, self._is_ours = 0, False
        self._input, self._output = (hashlib.blake2b(digest_size=16) for _ in range(2))
        if os.path.lexists(self._partial) and not os.path.isfile(self._state):
            raise UserError(
                f'{name} is written to {str(self._partial)!r} until it is complete, but that file '
                'exists already: move it, or choose another --output.'
            )
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        opened = os.fdopen(os.open(self._partial, flags, 0o666), 'r+b')
        self._file = stack.enter_context(opened)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                f'{name} is being written by another command: wait for it, or choose another '
                '--output.'
            ) from error
        stack.callback(self._remove_if_empty)

    def begin(self, lines: Lines, settings: str) -> tuple[int, int]:
        """Skip the lines whose outputs an earlier command has written.

        Args:
          lines: the lines to translate.
          settings: a digest of everything else that the outputs depend on.

        Returns:
          The number of skipped lines, and how many of their outputs were cut.

        Raises:
          UserError: if the partial file belongs to another command, or was changed.
        """
        self._settings = settings
        done = None
        with contextlib.suppress(OSError, ValueError):
            done = read_json(self._state, _STATE)
        size = os.fstat(self._file.fileno()).st_size
        if done is None and size:
            raise UserError(
                f'{str(self._state)!r}, which describes {self._partial.name!r}, cannot be read: '
                'remove both files to start from the first line, or choose another --output.'
            )
        if done is None or size < done['bytes']:
            if done is not None:
                print(f'{self._partial} was changed: starting from the first line.', file=STDERR)
            self._is_ours = True
            self._file.truncate(0)
            return 0, 0
        if done['settings'] == settings:
            while self._lines < done['lines']:
                chunk = lines.take(min(_SKIP_CHUNK, done['lines'] - self._lines))
                if not chunk:
                    break
                self._count(chunk)
        remedy = (
            f'remove it and {self._state.name!r} to start from the first line, or choose another '
            '--output.'
        )
        if done['input'] != self._input.hexdigest():
            raise UserError(
                f'{str(self._partial)!r} holds outputs of another command (other lines, flags or '
                f'checkpoints): {remedy}'
            )
        for start in range(0, done['bytes'], _BLOCK):
            self._output.update(self._file.read(min(_BLOCK, done['bytes'] - start)))
        if done['output'] != self._output.hexdigest():
            raise UserError(
                f'{str(self._partial)!r} has been changed since it was written: {remedy}'
            )
        self._is_ours = True
        with _failures(self._name, self._file):
            # A killed command may have written more than its state file says.
            self._file.truncate(done['bytes'])
            self._file.seek(0, os.SEEK_END)
        print(f'Resuming after line {self._lines:,} from {self._partial}.', file=STDERR)
        return self._lines, done['cut']

    def _count(self, chunk: Sequence[str]) -> None:
        self._lines += len(chunk)
        for line in chunk:
            self._input.update(line.encode() + b'\n')

    def write(self, chunk: Sequence[str], outputs: Sequence[str], cut: int) -> None:
        """Write the outputs of the next lines, then the state file.

        Args:
          chunk: the lines that were translated.
          outputs: their outputs, each one line.
          cut: how many outputs were cut so far.
        """
        text = ''.join(map(_one_line, outputs)).encode()
        self._output.update(text)
        self._count(chunk)
        with _failures(self._name, self._file):
            self._file.write(text)
            self._file.flush()
            state = {
                'settings': self._settings,
                'input': self._input.hexdigest(),
                'output': self._output.hexdigest(),
                'lines': self._lines,
                'bytes': self._file.tell(),
                'cut': cut,
            }
            with atomic_write(self._state) as file:
                json.dump(state, file)

    def kept(self) -> str:
        """Return how many lines are done and where, to end the message of a stopped command."""
        if not self._lines:
            return ''
        return (
            f': {self._lines:,} lines are done, in {self._partial}; run the same command again to '
            'resume there'
        )

    def commit(self) -> None:
        """Give the complete file its name and remove the state file."""
        with _failures(self._name, self._file):
            self._file.flush()
            if self._text_file.is_compressed:
                self._file.seek(0)
                with (
                    atomic_write(self._place, 'wb') as whole,
                    self._text_file.compressing(whole) as file,
                ):
                    shutil.copyfileobj(self._file, file, _BLOCK)
                self._partial.unlink()
            else:
                os.replace(self._partial, self._place)
            self._state.unlink(missing_ok=True)
            self._is_ours = False

    def _remove_if_empty(self) -> None:
        if self._is_ours and not self._lines:
            self._partial.unlink(missing_ok=True)
