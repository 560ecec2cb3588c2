"""Compiled programs that are found again without tracing."""

import os
import pickle
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from transformer_jax.runtime import program_cache
from transformer_jax.storage.cache import keep_compiled_programs


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where this process, as if it were a command, keeps programs."""
    least = 'jax_persistent_cache_min_compile_time_secs'
    before = {x: getattr(jax.config, x) for x in ('jax_compilation_cache_dir', least)}
    keep_compiled_programs(tmp_path)
    # What takes the compiler long, JAX would keep, and the next test would find it there.
    jax.config.update(least, 1e9)
    monkeypatch.setattr(program_cache, '_keeping', True)
    monkeypatch.setattr(program_cache, '_begun', time.time() + 1e6)
    program_cache._code.cache_clear()
    yield tmp_path / 'programs'
    for name, value in before.items():
        jax.config.update(name, value)
    monkeypatch.undo()
    program_cache._code.cache_clear()


class Processes:
    """Each run is as one of a process of its own; `traced` has the exponents traced for."""

    def __init__(self):
        self.traced = []

    def run(self, exponent=3, x=2.0):
        def power(x, *, exponent):
            self.traced.append(exponent)
            return jnp.sum(x**exponent)

        result = program_cache.CachedJit(power, ['exponent'])(jnp.asarray(x), exponent=exponent)
        return float(result)


@pytest.fixture
def processes():
    return Processes()


def test_a_kept_program_is_not_traced_again(folder, processes):
    assert [processes.run(), processes.run()] == [8.0, 8.0]
    assert processes.traced == [3]


def test_another_static_argument_is_another_program(folder, processes):
    assert [processes.run(), processes.run(exponent=2)] == [8.0, 4.0]
    assert processes.traced == [3, 2]


@pytest.mark.parametrize('some', [slice(0, 8), slice(0, 4), slice(4, 8)])
def test_a_program_runs_on_the_devices_it_was_made_for(folder, processes, some):
    mesh = jax.make_mesh((len(jax.devices()[some]),), ('data',), devices=jax.devices()[some])
    x = jax.device_put(np.arange(8.0, dtype=np.float32), NamedSharding(mesh, PartitionSpec('data')))
    for _ in ('made', 'found'):
        assert processes.run(exponent=2, x=x) == 140.0
    assert processes.traced == [2]


def test_changed_code_is_traced_but_not_compiled_again(folder, processes, monkeypatch):
    processes.run()
    monkeypatch.setattr(program_cache, '_code', lambda: 'other code')
    monkeypatch.setattr(jax.stages.Lowered, 'compile', lambda *_: pytest.fail('compiled'))
    assert processes.run() == 8.0
    assert processes.traced == [3, 3]


def test_programs_that_leave_out_other_arguments_are_kept_apart(folder, monkeypatch):
    def run(number):
        def chosen(a, b):
            return (a, b)[number] + 1

        return float(program_cache.CachedJit(chosen, [])(jnp.float32(1), jnp.float32(5)))

    assert run(0) == 2.0
    monkeypatch.setattr(program_cache, '_code', lambda: 'other code')
    assert run(1) == 6.0


def test_programs_that_differ_only_in_the_shape_of_an_unused_argument_are_kept_apart(folder):
    def run(size):
        def first(a, b):
            return a + 1

        return float(program_cache.CachedJit(first, [])(jnp.float32(1), jnp.zeros(size)))

    for size in (3, 4, 3, 4):
        assert run(size) == 2.0


def test_a_kept_program_for_other_arguments_is_made_anew_and_said(folder, processes, caplog):
    assert processes.run(x=2.0) == 8.0
    (other,) = (file for file in folder.iterdir() if file.stat().st_size < 100)
    program = other.read_bytes()
    assert processes.run(x=[2.0, 2.0]) == 16.0
    for file in folder.iterdir():
        if file.stat().st_size < 100:
            file.write_bytes(program)  # as if both were known by the same name
    assert processes.run(x=[2.0, 2.0]) == 16.0
    assert 'it is for other arguments' in caplog.text


def test_code_changed_since_the_process_began_keeps_nothing(folder, monkeypatch):
    monkeypatch.setattr(program_cache, '_begun', 0.0)
    assert program_cache.place('power') is None


def test_what_only_its_address_tells_apart_is_not_kept(folder):
    assert program_cache.place('power', object()) is None
    assert program_cache.place('power', 'words') is not None


def test_a_damaged_program_is_made_anew_and_said(folder, processes, caplog):
    processes.run()
    for file in folder.iterdir():
        if file.stat().st_size > 100:
            file.write_bytes(b'nothing of use')
    assert processes.run() == 8.0
    assert processes.traced == [3, 3]
    assert caplog.text.count('cannot be read') == 1
    assert processes.run() == 8.0
    assert caplog.text.count('cannot be read') == 1


class Harmful:
    """Reading it back by pickle runs code."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return open, (str(self.trace), 'w')


@pytest.mark.parametrize('kind', ['writable', 'link'])
def test_a_program_that_others_may_have_written_is_not_run(folder, processes, tmp_path, kind):
    processes.run()
    for file in folder.iterdir():
        if file.stat().st_size > 100:
            file.unlink()
            harmful = file if kind == 'writable' else tmp_path / 'elsewhere'
            harmful.write_bytes(pickle.dumps(Harmful(tmp_path / 'trace')))
            harmful.chmod(0o666 if kind == 'writable' else 0o600)
            if kind == 'link':
                file.symlink_to(harmful)
    assert processes.run() == 8.0
    assert processes.traced == [3, 3]
    assert not (tmp_path / 'trace').exists()


def test_programs_are_private_whatever_the_umask(folder, processes):
    before = os.umask(0)
    processes.run()
    os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}


def test_where_nothing_can_be_written_programs_run_all_the_same(folder, processes, caplog):
    folder.write_text('a file in the way')
    assert processes.run() == 8.0
    assert 'are not kept for the next start' in caplog.text


def test_only_commands_keep_programs(folder, processes, monkeypatch):
    monkeypatch.setattr(program_cache, '_keeping', False)
    assert [processes.run(), processes.run()] == [8.0, 8.0]
    assert processes.traced == [3, 3]
    assert not folder.exists()


_FROM_THE_CACHE_OF_JAX = """
import sys, time
from pathlib import Path
import jax
from transformer_jax.runtime import program_cache
from transformer_jax.storage.cache import keep_compiled_programs
keep_compiled_programs(Path(sys.argv[1]))
jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)
program_cache.keep()
program_cache._begun = time.time() + 1e6
path = program_cache.place('sum')
x = jax.ShapeDtypeStruct((64, 64), 'float32')
kept = program_cache.load(path, x) is not None
lowered = jax.jit(lambda x: (x**3.1 @ x).sum()).lower(x)
value = float(program_cache.compiled(path, lowered)(jax.numpy.ones((64, 64))))
print(kept, path.exists(), value)
"""


def test_what_jax_has_read_from_its_own_cache_is_not_kept(tmp_path):
    """XLA writes such programs without their kernels: they would fail when they run."""
    environment = os.environ | {'JAX_PLATFORMS': 'cpu', 'XLA_FLAGS': ''}

    def start():
        command = [sys.executable, '-c', _FROM_THE_CACHE_OF_JAX, str(tmp_path)]
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True
        ).stdout.split()

    assert start() == ['False', 'True', '262144.0']
    assert start() == ['True', 'True', '262144.0']
    for file in (tmp_path / 'programs').iterdir():
        file.unlink()
    assert start() == ['False', 'False', '262144.0']


def test_a_config_that_brings_jax_keeps_nothing(monkeypatch):
    monkeypatch.setattr(program_cache, '_keeping', True)
    program_cache.not_with_jax()  # JAX is there in the tests
    assert not program_cache._keeping
