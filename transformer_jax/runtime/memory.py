"""How much memory there is, and how much a program takes."""

import contextlib
import ctypes
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import jax

from transformer_jax.errors import UserError

_GIB = 2**30
# Tokens from which on a line's memory, which grows with their square, is to be looked into first.
CHECK_FROM_TOKENS = 4096


def device_memory(device: jax.Device, held: Any = ()) -> int | None:
    """Bytes that a device still lets this process have; None where that cannot be known.

    The CPU devices of a process share what is free of the host's.

    Args:
      device: one of this process.
      held: arrays that are there already, and are counted as well.
    """
    if device.platform == 'cpu':
        all_free = free_memory()
        free = None if all_free is None else all_free // jax.local_device_count()
    else:
        stats = device.memory_stats() or {}
        limit = stats.get('bytes_limit')
        free = None if limit is None else limit - stats.get('bytes_in_use', 0)
    if free is None:
        return None
    shards = (shard for x in jax.tree.leaves(held) for shard in x.addressable_shards)
    own = sum(shard.data.nbytes for shard in shards if shard.device == device)
    return free + own


def needed_memory(program: jax.stages.Compiled) -> int:
    """Bytes that a device needs to run `program`, its arguments and results included."""
    memory = program.memory_analysis()
    # What goes in and out under one name, donated, is there once.
    return (
        memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        - memory.alias_size_in_bytes
        + memory.temp_size_in_bytes
        + memory.generated_code_size_in_bytes
    )


def format_bytes(count: int) -> str:
    """'1.50 GiB' for 1,610,612,736 bytes."""
    return f'{count / _GIB:.2f} GiB' if count >= _GIB else f'{count / 2**20:.2f} MiB'


def is_out_of_memory(error: Exception) -> bool:
    """Whether `error` is XLA's for a program that no memory of the device can hold."""
    return isinstance(error, jax.errors.JaxRuntimeError) and 'RESOURCE_EXHAUSTED' in str(error)


def check_memory(program: jax.stages.Lowered, device: jax.Device, name: str, remedy: str) -> None:
    """A UserError if `device` has too little memory to run `program`.

    Args:
      program: what is to be run.
      device: one of those that are to run it.
      name: of the text that is its input, for the message.
      remedy: what to do about it, likewise.
    """
    limit, needed = device_memory(device), None
    try:
        needed = needed_memory(program.compile())
    except jax.errors.JaxRuntimeError as error:
        if not is_out_of_memory(error):
            raise
    if needed is None or (limit is not None and needed > limit):
        takes = 'more memory' if needed is None else format_bytes(needed)
        has = '' if limit is None else f' of {format_bytes(limit)}'
        raise UserError(f'{name} needs {takes} on a device{has}: {remedy}')


class MemoryCheck:
    """Looks, once for each shape, whether a device has the memory that long lines take.

    Callers check lines of `CHECK_FROM_TOKENS` tokens or more, and those that need much memory for
    other reasons.
    """

    def __init__(self, device: jax.Device):
        self._device = device
        self._fitting: set[tuple[int, ...]] = set()

    def check(
        self,
        shape: tuple[int, ...],
        programs: Callable[[], Iterable[jax.stages.Lowered]],
        name: str,
        remedy: str,
    ) -> None:
        """A UserError if there is too little memory for the lines.

        Args:
          shape: what the programs are compiled for.
          programs: makes what is to be run, one after the other.
          name: of the lines, for the message.
          remedy: what to do about them, likewise.
        """
        if shape not in self._fitting:
            for program in programs():
                check_memory(program, self._device, name, remedy)
            self._fitting.add(shape)


def trim_heap() -> None:
    """Has glibc return to the kernel what was freed, about a hundred MB a program compiled.

    Other C libraries are left to themselves.
    """
    with contextlib.suppress(OSError, TypeError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


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
