"""Progress and messages on stderr: a bar at a terminal, lines in a log file."""

import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from tqdm import tqdm

from transformer_jax.runtime import processes


class _Stderr:
    """A stderr whose write errors are ignored: a closed pipe or a full disk must not stop a run.

    If stderr is closed when the process starts (`2>&-`), sys.stderr is None.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)

    def write(self, text: str) -> None:
        """Write `text` if that is possible."""
        if sys.stderr is not None:
            self._attempt(lambda: sys.stderr.write(text))

    def flush(self) -> None:
        """Flush if that is possible."""
        if sys.stderr is not None:
            self._attempt(sys.stderr.flush)

    def _attempt(self, write: Callable[[], object]) -> None:
        try:
            write()
        except BrokenPipeError:
            # The reader is gone (`2>&1 | head`). Libraries write to sys.stderr themselves, so that
            # the descriptor must accept what they write.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stderr.fileno())
            os.close(nowhere)
        except OSError:
            pass  # for example a full disk, which may have space again later


STDERR = _Stderr()


def progress_bar(
    what: str,
    *,
    total: int | None = None,
    initial: int = 0,
    unit: str = ' it',
    shown: bool = True,
) -> tqdm:
    """Return a tqdm bar on stderr; in a log file it is a new line every ten seconds.

    If there are several processes, only process 0 shows a bar.
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
        # Because a step may take longer than the interval, tqdm must not guess how many fit in it.
        miniters=1,
        dynamic_ncols=terminal,
        file=STDERR,
        # Without a terminal nothing overwrites a line, so each refresh begins a new one.
        bar_format=None if terminal else f'{{desc}}: {count} {times}\n',
    )


class _Handler(logging.Handler):
    """Prints messages above a progress bar, not into it."""

    def emit(self, record: logging.LogRecord) -> None:
        tqdm.write(self.format(record), file=STDERR)


def show_messages() -> None:
    """Show the package's messages on stderr, a plain line for each."""
    logger = logging.getLogger('transformer_jax')
    logger.setLevel(logging.INFO)
    logger.handlers = [_Handler()]
    logger.propagate = False
    # Orbax and others log here for their developers. They raise an exception for every failure.
    logging.getLogger('absl').setLevel(logging.CRITICAL)
