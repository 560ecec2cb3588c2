"""Progress and messages on stderr: a bar at a terminal, a plain line now and then in a log file."""

import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from tqdm import tqdm

from transformer_jax.runtime import processes


class _Stderr:
    """stderr, of which nothing is expected: that nobody takes its messages is to end no run.

    Where there was none from the start (`2>&-`), Python has None in its place.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)

    def write(self, text: str) -> None:
        """Writes `text`, if that can be done."""
        if sys.stderr is not None:
            self._attempt(lambda: sys.stderr.write(text))

    def flush(self) -> None:
        """Flushes, if that can be done."""
        if sys.stderr is not None:
            self._attempt(sys.stderr.flush)

    def _attempt(self, write: Callable[[], object]) -> None:
        try:
            write()
        except BrokenPipeError:
            # Its reader is gone: `2>&1 | head`. What is written from here on goes nowhere.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stderr.fileno())
            os.close(nowhere)
        except OSError:
            pass  # a full disk, say, which may have room again later


STDERR = _Stderr()


def progress_bar(
    what: str,
    *,
    total: int | None = None,
    initial: int = 0,
    unit: str = ' it',
    shown: bool = True,
) -> tqdm:
    """A tqdm bar on stderr; in a log file it is a new line every ten seconds.

    Of many processes the first alone shows one.
    """
    terminal = sys.stderr is not None and sys.stderr.isatty()
    times = '[{elapsed}<{remaining}{postfix}]'
    count = '{n_fmt}' if total is None else '{n_fmt}/{total_fmt}'
    return tqdm(
        desc=what,
        disable=not (shown and processes.is_first()),
        total=total,
        initial=initial,
        unit=unit,
        mininterval=0.2 if terminal else 10.0,
        # A step may take longer than that: then each one is shown, without a guess at how many fit.
        miniters=1,
        dynamic_ncols=terminal,
        file=STDERR,
        # Without a terminal nothing overwrites a line, so each refresh begins a new one.
        bar_format=None if terminal else f'{{desc}}: {count} {times}\n',
    )


class _Handler(logging.Handler):
    """Prints above a bar, not into it."""

    def emit(self, record: logging.LogRecord) -> None:
        tqdm.write(self.format(record), file=STDERR)


def show_messages() -> None:
    """Has the package's messages appear on stderr, each a plain line."""
    logger = logging.getLogger('transformer_jax')
    logger.setLevel(logging.INFO)
    logger.handlers = [_Handler()]
    logger.propagate = False
    # Orbax and others log there what only their developers need; what fails is raised as well.
    logging.getLogger('absl').setLevel(logging.CRITICAL)
