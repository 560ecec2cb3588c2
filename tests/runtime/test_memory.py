"""Free memory, read from files of imitated machines, and programs that do not fit."""

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer_jax.errors import UserError
from transformer_jax.runtime import memory
from transformer_jax.runtime.memory import (
    check_memory,
    device_memory,
    format_bytes,
    free_memory,
    trim_heap,
)


@pytest.fixture
def machine(tmp_path):
    """A function that writes files of proc/ and sys/ and returns the folder that holds both."""

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding='ascii')
        return tmp_path

    write({'proc/meminfo': 'MemTotal: 4000 kB\nMemAvailable: 3000 kB\nHugePages_Total: 0\n'})
    return write


def _group(folder, limit, used, cache, version=2):
    names = {
        1: ('memory/', 'limit_in_bytes', 'usage_in_bytes', 'total_inactive_file'),
        2: ('', 'max', 'current', 'inactive_file'),
    }
    top, limited, use, cached = names[version]
    folder = f'sys/fs/cgroup/{top}{folder}memory'
    return {
        f'{folder}.{limited}': f'{limit}\n',
        f'{folder}.{use}': f'{used}\n',
        f'{folder}.stat': f'anon 5\n{cached} {cache}\n',
    }


def test_without_groups_free_memory_is_what_the_machine_has_available(machine):
    assert free_memory(machine({})) == 3000 * 1024


def test_a_group_leaves_its_limit_less_its_use_without_the_file_cache(machine):
    root = machine({'proc/self/cgroup': '0::/job\n', **_group('job/', 10_000, 7_000, 2_000)})
    assert free_memory(root) == 5_000


def test_a_group_without_a_limit_does_not_count(machine):
    root = machine({'proc/self/cgroup': '0::/job\n', **_group('job/', 'max', 7_000, 2_000)})
    assert free_memory(root) == 3000 * 1024


def test_a_parent_group_limits_its_children(machine):
    groups = _group('job/', 6_000, 4_000, 0) | _group('job/step/', 'max', 500, 0)
    assert free_memory(machine({'proc/self/cgroup': '0::/job/step\n', **groups})) == 2_000


def test_groups_of_version_1_are_read(machine):
    root = machine(
        {
            'proc/self/cgroup': '9:name=systemd:/\n4:cpu,memory:/job\n0::/\n',
            **_group('job/', 10_000, 7_000, 2_000, version=1),
        }
    )
    assert free_memory(root) == 5_000


def test_in_a_container_the_group_at_the_top_is_read(machine):
    root = machine(
        {'proc/self/cgroup': '4:memory:/docker/8a6f\n', **_group('', 9_000, 1_000, 0, version=1)}
    )
    assert free_memory(root) == 8_000


def test_a_group_beyond_its_limit_leaves_nothing(machine):
    root = machine({'proc/self/cgroup': '0::/\n', **_group('', 1_000, 1_200, 0)})
    assert free_memory(root) == 0


def test_without_linux_free_memory_is_unknown(tmp_path):
    assert free_memory(tmp_path) is None


def test_the_memory_of_a_cpu_device_is_its_share_of_free_memory(monkeypatch):
    monkeypatch.setattr(memory, 'free_memory', lambda: 8_000)
    assert device_memory(jax.devices()[0]) == 1_000  # of eight
    held = [jax.device_put(np.zeros(25, np.float32), device) for device in jax.devices()[:2]]
    assert device_memory(jax.devices()[0], held) == 1_100  # of two arrays one is there


class Gpu:
    platform = 'gpu'

    def memory_stats(self):
        return {'bytes_limit': 8_000, 'bytes_in_use': 3_000}


def test_the_memory_of_an_accelerator_is_its_limit_less_its_use():
    assert device_memory(Gpu()) == 5_000


def test_sizes_are_formatted_in_mib_or_gib():
    assert format_bytes(3 << 19) == '1.50 MiB'
    assert format_bytes(3 << 29) == '1.50 GiB'


@pytest.mark.parametrize(('free', 'fits'), [(2**19, False), (2**21, True), (None, True)])
def test_a_program_that_needs_too_much_memory_is_refused(monkeypatch, free, fits):
    program = jax.jit(lambda x: x + 1).lower(jnp.zeros((2, 2**16)))  # 0.5 MiB in, 0.5 MiB out
    monkeypatch.setattr(memory, 'device_memory', lambda device: free)
    if fits:
        check_memory(program, jax.devices()[0], 'line 3', 'split it.')
    else:
        sentence = r'^line 3 needs 1\.00 MiB on a device of 0\.50 MiB: split it\.$'
        with pytest.raises(UserError, match=sentence):
            check_memory(program, jax.devices()[0], 'line 3', 'split it.')


@pytest.mark.skipif(
    'CS_GNU_LIBC_VERSION' not in os.confstr_names, reason='of glibc, which is not here'
)
def test_trim_heap_returns_freed_blocks_between_used_ones():
    def resident():
        return int(Path('/proc/self/statm').read_text().split()[1]) * os.sysconf('SC_PAGE_SIZE')

    blocks = [bytes([1]) * 3000 for _ in range(20_000)]
    last = blocks.pop()  # glibc itself gives back what is above all that is in use
    del blocks
    before = resident()
    trim_heap()
    assert before - resident() > 30_000_000 and last


def test_trim_heap_does_nothing_with_another_c_library(monkeypatch):
    monkeypatch.setattr(memory.ctypes, 'CDLL', lambda name: object())
    trim_heap()
