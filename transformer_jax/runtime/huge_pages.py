"""Huge pages for large arrays, which make a training step on CPUs much faster.

XLA allocates its memory again in every step, and the kernel has to map tens of thousands of 4 kB
pages for one matrix of logits. The C library uses pages of 2 MB if an environment variable says so
when the process starts.
"""

import os
import sys
from pathlib import Path

_POLICY = Path('/sys/kernel/mm/transparent_hugepage/enabled')
_TUNABLES = 'GLIBC_TUNABLES'


def restart_with_huge_pages() -> None:
    """Start this command again with huge pages if the process has to ask for them.

    A command calls this first. A user who has set GLIBC_TUNABLES keeps that setting.
    """
    try:
        must_ask = '[madvise]' in _POLICY.read_text(encoding='ascii')
        library = os.confstr('CS_GNU_LIBC_VERSION') or ''
    except (OSError, ValueError):  # no Linux, or another C library
        return
    if must_ask and library.startswith('glibc') and _TUNABLES not in os.environ:
        environment = os.environ | {_TUNABLES: 'glibc.malloc.hugetlb=1'}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
