"""A process at a pseudo-terminal, for tests of interactive use."""

import os
import select
import subprocess
import sys
import termios
import time
import tty

_DEADLINE = 60  # seconds
# Only the process itself can make the terminal its controlling one, from which Ctrl-C comes.
_BEGIN = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


class PseudoTerminal:
    """A Python process with a terminal of its own, at which the test types.

    As a context it kills the process at its end.

    Attributes:
      process: the process.
    """

    def __init__(self, *arguments, env=(), **streams):
        """Start Python with `arguments`; `streams` replaces some of its three streams."""
        self._ours, self._theirs = os.openpty()
        names = ('stdin', 'stdout', 'stderr')
        self.process = subprocess.Popen(
            [sys.executable, '-c', _BEGIN, *arguments],
            **dict.fromkeys(names, self._theirs) | streams,
            env=os.environ | {'TERM': 'xterm', 'LC_ALL': 'C.UTF-8'} | dict(env),
            start_new_session=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for descriptor in (self._ours, self._theirs):
            os.close(descriptor)

    def type(self, keys):
        """Type a text, or bytes; '\n' is the key Enter and '\x03' is Ctrl-C."""
        keys = keys.encode() if isinstance(keys, str) else keys
        os.write(self._ours, keys.replace(b'\n', b'\r'))

    def wait_for(self, text):
        """Wait until the terminal shows `text`; return what it has shown since the last call."""
        new, deadline = b'', time.monotonic() + _DEADLINE
        while text not in _as_text(new):
            assert time.monotonic() < deadline, f'{text!r} is not in {_as_text(new)!r}'
            new += self._read()
        return _as_text(new)

    def end(self):
        """Wait for the end of the process; return its exit code and what was shown until then."""
        new, deadline = b'', time.monotonic() + _DEADLINE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f'the process does not end after {_as_text(new)!r}'
            new += self._read()
        while some := self._read():
            new += some
        return self.process.returncode, _as_text(new)

    def echoes_lines(self):
        """Whether the terminal has the modes in which a shell's command begins."""
        modes = termios.tcgetattr(self._theirs)[tty.LFLAG]
        wanted = termios.ECHO | termios.ICANON | termios.ISIG
        return modes & wanted == wanted

    def _read(self):
        ready = select.select([self._ours], [], [], 0.05)[0]
        return os.read(self._ours, 1 << 16) if ready else b''


def _as_text(shown):
    return shown.decode(errors='replace').replace('\r\n', '\n')
