"""How much of the host's memory this process may still take."""

import contextlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath


def free_memory(root: Path = Path('/')) -> int | None:
    """Bytes that can still be taken here before Linux kills for want of memory.

    What the machine has available or, where a container, a pod or a batch job may have less, what
    is left of that: a control group's limit less its use, of which the file cache that Linux gives
    back on demand does not count. See https://docs.kernel.org/admin-guide/cgroup-v2.html and
    https://docs.kernel.org/admin-guide/cgroup-v1/memory.html.

    Args:
      root: the folder that holds proc/ and sys/.

    Returns:
      Bytes; None where Linux does not say.
    """
    rooms = list(_rooms_of_groups(root))
    with contextlib.suppress(OSError, KeyError, ValueError):
        rooms.append(_table(root / 'proc/meminfo')['MemAvailable:'] * 1024)
    return min(rooms, default=None)


def _rooms_of_groups(root: Path) -> Iterator[int]:
    """Bytes left in the control group of this process and in each that holds it."""
    mount = root / 'sys/fs/cgroup'
    try:
        lines = (root / 'proc/self/cgroup').read_text(encoding='utf-8').splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(':', 2)
        if controllers == '':  # version 2
            top, limit, use, cache = mount, 'memory.max', 'memory.current', 'inactive_file'
        elif 'memory' in controllers.split(','):
            top = mount / 'memory'
            limit, use = 'memory.limit_in_bytes', 'memory.usage_in_bytes'
            cache = 'total_inactive_file'
        else:
            continue
        # A container may see its own group as the top, under the path that the host knows it by.
        inner = PurePosixPath(path.lstrip('/'))
        for folder in dict.fromkeys(top / part for part in (inner, *inner.parents)):
            # No such file: a group without a limit, or one that is not to be seen from here;
            # no number: 'max'.
            with contextlib.suppress(OSError, KeyError, ValueError):
                used = int((folder / use).read_text(encoding='ascii'))
                used -= _table(folder / 'memory.stat')[cache]
                yield max(0, int((folder / limit).read_text(encoding='ascii')) - used)


def _table(path: Path) -> dict[str, int]:
    """The first two words of each line."""
    words = (line.split()[:2] for line in path.read_text(encoding='ascii').splitlines())
    return {name: int(number) for name, number in words}
