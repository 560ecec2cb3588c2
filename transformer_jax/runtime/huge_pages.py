"""Large arrays on huge pages: on CPUs a training step is a quarter to a third faster.

XLA asks the C library for the memory of each step anew, and on pages of 4 kB the kernel hands over
40,000 of them for one matrix of logits. The library asks for pages of 2 MB instead only if an
environment variable says so when the process starts.
"""

import os
import sys
from pathlib import Path

_POLICY = Path('/sys/kernel/mm/transparent_hugepage/enabled')
_TUNABLES = 'GLIBC_TUNABLES'


def restart_with_huge_pages() -> None:
    """Starts this command again with huge pages, where they have to be asked for; else returns.

    To be called first of all by a process started as a command. Whoever sets GLIBC_TUNABLES has
    decided otherwise.
    """
    try:
        to_be_asked_for = '[madvise]' in _POLICY.read_text(encoding='ascii')
        library = os.confstr('CS_GNU_LIBC_VERSION') or ''
    except (OSError, ValueError):  # no Linux, or another C library
        return
    if to_be_asked_for and library.startswith('glibc') and _TUNABLES not in os.environ:
        environment = os.environ | {_TUNABLES: 'glibc.malloc.hugetlb=1'}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
