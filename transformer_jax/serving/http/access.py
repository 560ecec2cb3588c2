"""Who may ask, and how often."""

import hashlib
import os
import time
from collections import deque
from collections.abc import Callable, Mapping

from transformer_jax.errors import UserError, user_path
from transformer_jax.storage.files import read_regular

_MINUTE = 60.0
_MOST_CLIENTS = 10_000


def read_keys(path: str | os.PathLike[str]) -> dict[bytes, int | None]:
    """Return the digests of API keys, and how many requests a minute each may make.

    Args:
      path: a file with a line for each key: KEY, or KEY and the number of requests a minute. Empty
        lines and lines that begin with '#' do not count.

    Raises:
      UserError: if the file cannot be read or a line is something else.
    """
    name = f'--api_keys={os.fspath(path)!r}'
    try:
        lines = read_regular(user_path(path, '--api_keys')).decode('utf-8-sig').split('\n')
    except OSError as error:
        raise UserError(f'{name} cannot be read ({error.strerror}): check the path.') from error
    except UnicodeDecodeError as error:
        raise UserError(f'{name} is not UTF-8: write keys of letters and digits.') from error
    keys: dict[bytes, int | None] = {}
    for number, line in enumerate(lines, 1):
        fields = line.split()
        if not fields or line.startswith('#'):
            continue
        if len(fields) > 2 or not (fields[1:] or ['1'])[0].isdecimal():
            raise UserError(
                f'{name}, line {number}, is not KEY, or KEY and a number of requests a minute: '
                'correct it.'
            )
        if _digest(fields[0]) in keys:
            raise UserError(
                f'{name}, line {number}, repeats the key of an earlier line: remove one of the two.'
            )
        keys[_digest(fields[0])] = int(fields[1]) if fields[1:] else None
    if not keys:
        raise UserError(f'{name} has no key: write one on a line, or leave the flag out.')
    return keys


class Access:
    """Decides about each request.

    Attributes:
      keys: digests of keys, see `read_keys`; None lets everybody ask.
    """

    def __init__(
        self,
        keys: Mapping[bytes, int | None] | None = None,
        requests_per_minute: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Nobody has asked yet.

        Args:
          keys: see `read_keys`.
          requests_per_minute: of each key, or of each address without keys; 0 is no limit.
          clock: returns seconds.
        """
        self.keys, self._limit, self._clock = keys, requests_per_minute, clock
        self._times: dict[object, deque[float]] = {}
        self._most_clients = _MOST_CLIENTS

    def is_known(self, key: str) -> bool:
        """Return whether a key may be used, '' being none."""
        # Digests are compared, so that the time says nothing about a key.
        return self.keys is None or _digest(key) in self.keys

    def seconds_to_wait(self, key: str, address: str) -> float:
        """Count a request; return 0, or after how many seconds it may be made again."""
        limit, who = self._limit, address
        if self.keys is not None:
            own = self.keys.get(_digest(key))
            limit, who = (self._limit if own is None else own), _digest(key)
        if not limit:
            return 0.0
        now = self._clock()
        times = self._times.setdefault(who, deque())
        while times and times[0] <= now - _MINUTE:
            times.popleft()
        if len(times) >= limit:
            return times[0] + _MINUTE - now
        times.append(now)
        if len(self._times) > self._most_clients:
            self._forget(now)
        return 0.0

    def _forget(self, now: float) -> None:
        """Forget clients that have made no request within the last minute."""
        self._times = {who: t for who, t in self._times.items() if t and t[-1] > now - _MINUTE}
        # Going through them for every request would take longer than answering it.
        self._most_clients = max(_MOST_CLIENTS, 2 * len(self._times))


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode(errors='replace'), digest_size=16).digest()
