"""The memory that is free, and the memory that a program needs."""

import contextlib
import ctypes
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import jax

from transformer_jax.errors import UserError

_GIB = 2**30
# Lines of this many tokens are checked for memory before decoding, because memory grows with the
# square of their length.
CHECK_FROM_TOKENS = 4096


def device_memory(device: jax.Device, held: Any = ()) -> int | None:
    """Return the bytes that this process can use on a device, or None if that is unknown.

    The CPU devices of a process share the host's free memory.

    Args:
      device: a device of this process.
      held: arrays on the device whose memory counts as usable.
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
    """Return the bytes that a device needs to run `program`, with its arguments and results."""
    memory = program.memory_analysis()
    # A donated argument and the result in its place are counted once.
    return (
        memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        - memory.alias_size_in_bytes
        + memory.temp_size_in_bytes
        + memory.generated_code_size_in_bytes
    )


def format_bytes(count: int) -> str:
    """Return a text such as '1.50 GiB' for a number of bytes."""
    return f'{count / _GIB:.2f} GiB' if count >= _GIB else f'{count / 2**20:.2f} MiB'


def is_out_of_memory(error: Exception) -> bool:
    """Return whether `error` is XLA's error for a program that does not fit on the device."""
    return isinstance(error, jax.errors.JaxRuntimeError) and 'RESOURCE_EXHAUSTED' in str(error)


def check_memory(program: jax.stages.Lowered, device: jax.Device, name: str, remedy: str) -> None:
    """Raise UserError if `device` has too little memory to run `program`.

    Args:
      program: the program.
      device: one of the devices that would run it.
      name: name of the input, for the message.
      remedy: what the user can do, for the message.
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
    """Checks once for each shape whether a device has enough memory for long lines.

    Callers check lines of `CHECK_FROM_TOKENS` tokens or more, and lines that need much memory for
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
        """Raise UserError if there is too little memory for the lines.

        Args:
          shape: the shape that the programs are compiled for.
          programs: returns the programs that would run, one after the other.
          name: name of the lines, for the message.
          remedy: what the user can do, for the message.
        """
        if shape not in self._fitting:
            for program in programs():
                check_memory(program, self._device, name, remedy)
            self._fitting.add(shape)


def trim_heap() -> None:
    """Make glibc return freed memory to the kernel: XLA's compiler leaves much of it behind.

    With another C library, this does nothing.
    """
    with contextlib.suppress(OSError, TypeError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def free_memory(root: Path = Path('/')) -> int | None:
    """Return the bytes that this process can still allocate before Linux kills it, or None.

    The result is the smallest of the machine's available memory and what the control groups of a
    container, a pod or a batch job leave: a group's limit less its use, without the file cache,
    which Linux frees on demand. See https://docs.kernel.org/admin-guide/cgroup-v2.html and
    https://docs.kernel.org/admin-guide/cgroup-v1/memory.html.

    Args:
      root: the folder that holds proc/ and sys/.
    """
    free = list(_free_in_groups(root))
    with contextlib.suppress(OSError, KeyError, ValueError):
        free.append(_table(root / 'proc/meminfo')['MemAvailable:'] * 1024)
    return min(free, default=None)


def _free_in_groups(root: Path) -> Iterator[int]:
    """Yield the bytes left in the control group of this process and in each parent group."""
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
        # A container may see its own group at the top, although `path` is the one of the host.
        inner = PurePosixPath(path.lstrip('/'))
        for folder in dict.fromkeys(top / part for part in (inner, *inner.parents)):
            # Without the file, the group has no limit or is invisible here; 'max' is no number.
            with contextlib.suppress(OSError, KeyError, ValueError):
                used = int((folder / use).read_text(encoding='ascii'))
                used -= _table(folder / 'memory.stat')[cache]
                yield max(0, int((folder / limit).read_text(encoding='ascii')) - used)


def _table(path: Path) -> dict[str, int]:
    """Return the first two words of each line, a name and a number."""
    words = (line.split()[:2] for line in path.read_text(encoding='ascii').splitlines())
    return {name: int(number) for name, number in words}
