"""Stopping on request: SIGTERM and Ctrl-C end a run after the step at hand, with all saved."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from transformer_jax import processes

# EX_TEMPFAIL of sysexits.h: nothing is wrong, start again.
RESTART_EXIT_CODE = 75
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stopped(BaseException):
    """The run was asked to stop, and has; the same command goes on where it stopped.

    No Exception, as KeyboardInterrupt is none: nobody is to take it for a failure and carry on.
    """


def stop_at_once_on_sigterm() -> None:
    """Until a run takes SIGTERM over, it ends this process with `RESTART_EXIT_CODE`.

    Not by an exception: in the middle of an import, which takes seconds, that may get lost.
    """

    def stop(*_: object) -> None:
        _say(b'Stopped by SIGTERM.\n')
        os._exit(RESTART_EXIT_CODE)

    signal.signal(signal.SIGTERM, stop)


def _say(text: bytes) -> None:
    """Writes to stderr; sys.stderr itself may be in the middle of a write of its own."""
    with contextlib.suppress(OSError):  # nobody may be there to read it
        os.write(2, text)


class StopSignals:
    """While entered, SIGTERM and SIGINT ask for a stop; a second SIGINT ends the process at once.

    Outside of `deferred`, where there is nothing to save, the first raises `Stopped` at once. In a
    thread other than the main one, which gets no signals, nothing is caught.
    """

    def __init__(self):
        self._asked: signal.Signals | None = None
        self._deferred = False
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> 'StopSignals':
        if threading.current_thread() is threading.main_thread():
            # Among many processes JAX has its own handler for SIGTERM, with which they agree on the
            # step to stop after.
            many = processes.count() > 1
            handlers = (
                {signal.SIGINT: self._pass_on} if many else dict.fromkeys(_SIGNALS, self._ask)
            )
            self._before = {s: signal.signal(s, handler) for s, handler in handlers.items()}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """A context that asks `requested` itself, after each step."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False

    def requested(self, step: int) -> str | None:
        """Why to stop after `step`, which all processes have to ask after; None to go on."""
        if processes.count() > 1:
            from jax.experimental import multihost_utils

            return 'SIGTERM' if multihost_utils.reached_preemption_sync_point(step) else None
        return None if self._asked is None else self._asked.name

    def came(self) -> str | None:
        """A signal that came after the last time that `requested` was asked; None if none did.

        Many processes, which would have to agree on it, go on.
        """
        return None if self._asked is None or processes.count() > 1 else self._asked.name

    def _ask(self, number: int, _: FrameType | None) -> None:
        if self._asked is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._asked = signal.Signals(number)
        if not self._deferred:
            raise Stopped(f'Stopped by {self._asked.name}.')
        _say(b'\nStopping after this step; Ctrl-C again stops at once, without saving.\n')

    def _pass_on(self, number: int, _: FrameType | None) -> None:
        if self._asked is not None:
            raise KeyboardInterrupt
        self._asked = signal.Signals(number)
        os.kill(os.getpid(), signal.SIGTERM)
