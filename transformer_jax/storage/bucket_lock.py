"""The lock of a work directory in a bucket: an object that its holder writes again and again.

Google Cloud Storage writes an object only if it has the generation that the writer names. So of two
writers one fails. No clock is compared: a lock is left over if nobody has written it for a while.
"""

import logging
import os
import socket
import threading
import time
import uuid
from typing import Any

from transformer_jax.errors import UserError

_logger = logging.getLogger('transformer_jax')
BEAT = 15.0  # seconds between two writes of the holder
LEFT_OVER = 60.0  # seconds without a write after which another process takes the lock


class BucketLock:
    """A lock that is held from `acquire` to `release`, or until this process ends."""

    def __init__(self, url: str, name: str):
        """Name the lock.

        Args:
          url: 'gs://BUCKET/FOLDER/lock'.
          name: of the folder in messages.
        """
        from google.cloud import exceptions, storage

        self._errors = exceptions
        bucket, _, path = url.removeprefix('gs://').partition('/')
        # Names a bucket without asking for it, which would need another permission.
        self._blob = storage.Client(project=None).bucket(bucket).blob(path)
        self._name = name
        self._text = f'process {os.getpid()} on {socket.gethostname()}, {uuid.uuid4().hex}\n'
        self._generation = 0
        self._lost = ''
        self._released = threading.Event()
        self._mutex = threading.Lock()
        self._beating = threading.Thread(target=self._beat, daemon=True)

    def acquire(self) -> None:
        """Take the lock.

        Raises:
          UserError: if another process holds it.
        """
        seen, since = 0, time.monotonic()
        while not self._write(seen if time.monotonic() - since > LEFT_OVER else 0):
            generation, owner = self._read()
            if generation not in (0, seen):
                if seen:
                    raise self._in_use(owner)
                seen, since = generation, time.monotonic()
                _logger.info(
                    '%s is locked by another run (%s): waiting up to %.0f s, because it may have '
                    'ended without unlocking.',
                    self._name,
                    _who(owner),
                    LEFT_OVER + BEAT,
                )
            time.sleep(min(BEAT, LEFT_OVER) / 4)
        self._beating.start()

    def check(self) -> None:
        """Raise UserError if another process has taken the lock meanwhile."""
        if not self._lost:
            self._write_again()
        if self._lost:
            raise self._in_use(self._lost)

    def release(self) -> None:
        """Let others take the lock."""
        self._released.set()
        self._beating.join()
        if not self._lost:
            try:
                self._blob.delete(if_generation_match=self._generation)
            except Exception:  # of google, requests: it is left over, then
                _logger.warning('%s could not be unlocked.', self._name)

    def _in_use(self, owner: str) -> UserError:
        return UserError(
            f'{self._name} is in use by another run ({_who(owner)}): '
            'wait for it, stop it, or choose another --workdir.'
        )

    def _beat(self) -> None:
        while not self._released.wait(BEAT):
            try:
                self._write_again()
            except Exception:  # of google, requests: the next beat, or `check`, tries again
                continue
            if self._lost:
                return

    def _write_again(self) -> None:
        with self._mutex:
            if not self._write(self._generation):
                self._lost = self._read()[1] or 'a run that has removed the lock'

    def _write(self, generation: int) -> bool:
        """Write the lock if it has a generation, 0 for none; return whether this process has it."""
        try:
            self._blob.upload_from_string(self._text, if_generation_match=generation)
            self._generation = self._blob.generation
        except self._errors.PreconditionFailed:
            # The answer to a write of ours may have been lost on its way.
            found, owner = self._read()
            if owner != self._text:
                return False
            self._generation = found
        return True

    def _read(self) -> tuple[int, str]:
        """Return the generation of the lock and the text of its owner; 0 and '' without one."""
        blob: Any = self._blob.bucket.blob(self._blob.name)
        try:
            blob.reload()
            text = blob.download_as_bytes(if_generation_match=blob.generation)
        except (self._errors.NotFound, self._errors.PreconditionFailed):  # written again meanwhile
            return 0, ''
        return blob.generation, text.decode(errors='replace')


def _who(owner: str) -> str:
    """Return a lock's text for messages, without the number that makes it unique."""
    return owner.partition(',')[0].strip()
