"""Stopping on request: SIGTERM and Ctrl-C stop the work at the next point where it is safe.

A handler that raises may interrupt an import, a lock or a callback of XLA, and there the exception
is lost. So a signal is only noted, and long work calls `stop_if_requested` between its parts. A
command also has a watcher thread, which ends the process if no part ends soon.
"""

import contextlib
import os
import select
import signal
import termios
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

from transformer_jax.storage.files import remove_unfinished

# EX_TEMPFAIL of sysexits.h: nothing is wrong, start again.
RESTART_EXIT_CODE = 75
INTERRUPTED_EXIT_CODE = 130
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_GRACE = 3.0  # seconds in which work must come to its next `stop_if_requested`
_POLL = 0.05  # seconds
_STDIN = 0


class Stopped(BaseException):
    """Raised when the work stops because it was asked to; the same command resumes it.

    Like KeyboardInterrupt it is not an Exception, so that no `except Exception` catches it.
    """


_asked: signal.Signals | None = None
_deferred: list[str] = []  # what each context says when a stop was asked for
_watched = False
_this_thread = threading.local()
_terminal_modes: list | None = None  # to be restored if the process ends within `input`


def stop_if_requested() -> None:
    """Raise `Stopped` if a stop was asked for. Long work calls this between its parts."""
    if _asked is not None and not getattr(_this_thread, 'is_needed', False):
        raise Stopped(f'Stopped by {_asked.name}.')


@contextlib.contextmanager
def to_the_end() -> Iterator[None]:
    """A context in which `stop_if_requested` of this thread does nothing: others need its work."""
    _this_thread.is_needed = True
    try:
        yield
    finally:
        _this_thread.is_needed = False


def answer_signals() -> None:
    """Make this process answer SIGTERM and Ctrl-C in every phase, until its end.

    The first signal makes the work end at its next `stop_if_requested`. If that does not come
    within seconds, it ends the process with `RESTART_EXIT_CODE`. A second Ctrl-C ends it at once.

    Commands call this first. It is not for notebooks, whose kernel is the process.
    """
    global _watched
    reader, writer = os.pipe()
    os.set_blocking(writer, False)  # as set_wakeup_fd demands
    # Python runs handlers between two of its own instructions, which XLA may keep it from for
    # minutes; the number of a signal is in the pipe at once.
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in _SIGNALS:
        signal.signal(number, _left_to_the_watcher)
    _watched = True
    threading.Thread(target=_watch, args=(reader,), daemon=True).start()


def end_at_once(code: int) -> None:
    """End a process that answers signals without waiting for its threads; otherwise return.

    A thread may import TensorFlow, or compile, which takes many seconds.
    """
    if _watched:
        remove_unfinished()
        os._exit(code)


@contextlib.contextmanager
def interrupting_input() -> Iterator[None]:
    """A context in which a signal raises `Stopped` at once, for a call of `input` at a terminal.

    `input` waits in C code, which only a handler that raises can end. It then restores the modes of
    the terminal. In a process without `answer_signals`, Python's own handlers do this.
    """
    global _terminal_modes
    if not _watched:
        yield
        return
    _terminal_modes = termios.tcgetattr(_STDIN)
    try:
        for number in _SIGNALS:
            signal.signal(number, _raise_stopped)
        stop_if_requested()
        yield
    finally:
        for number in _SIGNALS:
            signal.signal(number, _left_to_the_watcher)
        _terminal_modes = None


def ignore_signals() -> None:
    """Ignore signals from now on in a process that answers them, because its work is done."""
    if _watched:
        for number in _SIGNALS:
            # Because Python restores the default handlers before it ends, a signal that comes late
            # would change the exit code.
            signal.signal(number, signal.SIG_IGN)


def _left_to_the_watcher(*_: object) -> None:
    pass


def _raise_stopped(number: int, _: FrameType | None) -> None:
    raise Stopped(f'Stopped by {signal.Signals(number).name}.')


def _watch(reader: int) -> None:
    deadline = None
    while True:
        if select.select([reader], [], [], None if deadline is None else _POLL)[0]:
            for number in os.read(reader, 64):
                if signal.getsignal(number) not in (_left_to_the_watcher, _raise_stopped):
                    continue
                if _note(signal.Signals(number)):
                    _end(INTERRUPTED_EXIT_CODE)
                deadline = deadline or time.monotonic() + _GRACE
        elif _deferred:
            deadline = time.monotonic() + _GRACE
        elif time.monotonic() > deadline:
            _end(RESTART_EXIT_CODE)


def _end(code: int) -> None:
    """End the process as it is; `finally` clauses are not run."""
    # A process in the background must leave the terminal to the one in the foreground.
    if _terminal_modes is not None and os.tcgetpgrp(_STDIN) == os.getpgrp():
        termios.tcsetattr(_STDIN, termios.TCSANOW, _terminal_modes)
    _say(f'Stopped by {_asked.name}.\n')
    remove_unfinished()
    os._exit(code)


def _note(number: signal.Signals) -> bool:
    """Note the request to stop; return whether it is Ctrl-C after an earlier request."""
    global _asked
    again = _asked is not None
    _asked = _asked or number
    if _deferred and not again:
        _say(f'\n{_deferred[-1]}\n')
    return again and number == signal.SIGINT


def _say(text: str) -> None:
    """Write to stderr directly, because sys.stderr may be in the middle of a write."""
    with contextlib.suppress(OSError):  # the reader may be gone
        os.write(2, text.encode())


class StopSignals:
    """While entered, SIGTERM and SIGINT ask for a stop.

    In a command this adds nothing to `answer_signals`. Elsewhere, as in a notebook, it catches both
    signals, and a second SIGINT raises KeyboardInterrupt. In a thread other than the main one,
    which gets no signals, nothing is caught.
    """

    def __init__(self, agreed: Callable[[int], bool] | None = None):
        """Create the context.

        Args:
          agreed: of several processes, returns whether all stop after a step. None if there is one.
        """
        self._agreed, self._passed_on = agreed, False
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> 'StopSignals':
        if threading.current_thread() is threading.main_thread():
            if self._agreed:
                # JAX has its own handler for SIGTERM, through which the processes agree.
                handlers = {signal.SIGINT: self._pass_on}
            else:
                handlers = {} if _watched else dict.fromkeys(_SIGNALS, self._hear)
            self._before = {s: signal.signal(s, handler) for s, handler in handlers.items()}
        return self

    def __exit__(self, *_: object) -> None:
        global _asked
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if not _watched:
            _asked = None

    @contextlib.contextmanager
    def deferred(
        self, note: str = 'Stopping after this step; Ctrl-C again stops at once, without saving.'
    ) -> Iterator[None]:
        """A context that asks `should_stop` after each step and saves, however long that takes.

        Args:
          note: what the user reads when a stop was asked for.
        """
        _deferred.append(note)
        try:
            yield
        finally:
            _deferred.remove(note)

    def should_stop(self, step: int) -> str | None:
        """Return why to stop after `step`, or None to continue. Every process must call this."""
        if self._agreed:
            return 'SIGTERM' if self._agreed(step) else None
        return None if _asked is None else _asked.name

    def pending(self) -> str | None:
        """Return the signal that came after the last call of `should_stop`, or None.

        Several processes would have to agree, so for them this is always None.
        """
        return None if _asked is None or self._agreed else _asked.name

    def _hear(self, number: int, _: FrameType | None) -> None:
        if _note(signal.Signals(number)):
            raise KeyboardInterrupt

    def _pass_on(self, number: int, _: FrameType | None) -> None:
        if self._passed_on:
            raise KeyboardInterrupt
        self._passed_on = True
        os.kill(os.getpid(), signal.SIGTERM)
