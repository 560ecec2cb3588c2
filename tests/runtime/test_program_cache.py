"""Compiled programs that are found again without tracing."""

import os
import pickle
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from transformer_jax.runtime import program_cache
from transformer_jax.runtime.program_cache import ProgramCache, cached_jit


@pytest.fixture
def folder(tmp_path, no_jax_cache):
    """A folder for programs, in a process that does not use JAX's own cache."""
    return tmp_path / 'programs'


class Processes:
    """Each run stands for a process of its own; `traced` lists the exponents traced for."""

    def __init__(self):
        self.traced = []

    def run(self, folder, exponent=3, x=2.0, code='code'):
        def power(x, *, exponent):
            self.traced.append(exponent)
            return jnp.sum(x**exponent)

        jitted = jax.jit(power, static_argnames='exponent')
        x = jnp.asarray(x)
        return float(ProgramCache(folder, code).run(jitted, [x], {}, {'exponent': exponent}))


@pytest.fixture
def processes():
    return Processes()


def test_a_kept_program_is_not_traced_again(folder, processes):
    assert [processes.run(folder), processes.run(folder)] == [8.0, 8.0]
    assert processes.traced == [3]


def test_threads_that_need_the_same_program_compile_it_once(folder, monkeypatch):
    compiled = []
    compile_ = ProgramCache.compile

    def slow_compile(*args):
        compiled.append(args)
        time.sleep(0.2)
        return compile_(*args)

    monkeypatch.setattr(ProgramCache, 'compile', slow_compile)
    cache, function = ProgramCache(folder, 'code'), jax.jit(lambda x: x + 1)
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(cache.run, function, [jnp.float32(k)], {}, {}) for k in range(4)]
    assert [float(call.result()) for call in calls] == [1.0, 2.0, 3.0, 4.0]
    assert len(compiled) == 1


def test_another_static_argument_is_another_program(folder, processes):
    assert [processes.run(folder), processes.run(folder, exponent=2)] == [8.0, 4.0]
    assert processes.traced == [3, 2]


def test_versions_of_packages_are_part_of_the_key():
    names = {name.removesuffix('.dist-info') for name in program_cache._installed()}
    assert {f'jax-{jax.__version__}', f'numpy-{np.__version__}'} <= names


def test_changed_code_is_another_program(folder, processes):
    assert [processes.run(folder, code=code) for code in ('old', 'new', 'new')] == [8.0] * 3
    assert processes.traced == [3, 3]


@pytest.mark.parametrize('some', [slice(0, 8), slice(0, 4), slice(4, 8)])
def test_a_program_runs_on_the_devices_that_it_was_compiled_for(folder, processes, some):
    mesh = jax.make_mesh((len(jax.devices()[some]),), ('data',), devices=jax.devices()[some])
    x = jax.device_put(np.arange(8.0, dtype=np.float32), NamedSharding(mesh, PartitionSpec('data')))
    for _ in ('compiled', 'loaded'):
        assert processes.run(folder, exponent=2, x=x) == 140.0
    assert processes.traced == [2]


def test_the_shape_of_an_unused_argument_makes_another_program(folder):
    def first(a, b):
        return a + 1

    for size in (3, 4, 3, 4):
        cache = ProgramCache(folder, 'code')
        arguments = [jnp.float32(1), jnp.zeros(size)]
        assert float(cache.run(jax.jit(first), arguments, {}, {})) == 2.0


def test_a_program_for_other_arguments_is_not_used(folder, caplog):
    cache = ProgramCache(folder, 'code')
    key, x = cache.key('double'), jnp.float32(2)
    program = cache.compile(key, jax.jit(lambda x: 2 * x).lower(x))
    assert float(program(x)) == float(cache.load(key, x)(x)) == 4.0
    assert cache.load(key, jnp.zeros(2)) is None
    assert 'it is for other arguments' in caplog.text


def test_a_repr_with_a_memory_address_gives_no_key(folder):
    cache = ProgramCache(folder, 'code')
    assert cache.key('power', object()) is None
    assert cache.key('power', 'words') != cache.key('power', 'other words')


def test_a_damaged_program_is_compiled_again_with_a_warning(folder, processes, caplog):
    processes.run(folder)
    (file,) = folder.iterdir()
    file.write_bytes(b'no program')
    assert [processes.run(folder), processes.run(folder)] == [8.0, 8.0]
    assert processes.traced == [3, 3]
    assert caplog.text.count('is no usable program') == 1


class Harmful:
    """Runs code when pickle loads it."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return open, (str(self.trace), 'w')


@pytest.mark.parametrize('kind', ['writable', 'link'])
def test_a_program_that_others_may_have_written_is_not_loaded(folder, processes, tmp_path, kind):
    processes.run(folder)
    (file,) = folder.iterdir()
    file.unlink()
    harmful = file if kind == 'writable' else tmp_path / 'elsewhere'
    harmful.write_bytes(pickle.dumps(Harmful(tmp_path / 'trace')))
    harmful.chmod(0o666 if kind == 'writable' else 0o600)
    if kind == 'link':
        file.symlink_to(harmful)
    assert processes.run(folder) == 8.0
    assert processes.traced == [3, 3]
    assert not (tmp_path / 'trace').exists()


def test_programs_are_private_whatever_the_umask(folder, processes):
    before = os.umask(0)
    processes.run(folder)
    os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}


def test_a_folder_that_cannot_be_written_costs_only_time(folder, processes, caplog):
    folder.write_text('a file in the way')
    assert processes.run(folder) == 8.0
    assert 'are not kept for the next start' in caplog.text


def test_a_folder_that_cannot_be_written_is_named_once(folder, monkeypatch, caplog):
    def refuse(path, mode):
        raise OSError(30, 'Read-only file system', str(path))

    monkeypatch.setattr(program_cache, 'atomic_write', refuse)
    cache = ProgramCache(folder)
    for key in ('one', 'two'):
        cache.compile(key, jax.jit(lambda x: x).lower(1.0))
    (record,) = caplog.records
    assert f'({str(folder)!r}: Read-only file system)' in record.getMessage()


def test_nothing_is_kept_while_jax_uses_its_own_cache(folder, processes, tmp_path, caplog):
    """XLA writes programs from JAX's cache without their kernels: they fail when they run."""
    before = jax.config.jax_compilation_cache_dir
    jax.config.update('jax_compilation_cache_dir', str(tmp_path / 'jax'))
    jax.config.update('jax_enable_compilation_cache', True)
    assert processes.run(folder) == 8.0
    jax.config.update('jax_enable_compilation_cache', False)
    jax.config.update('jax_compilation_cache_dir', before)
    assert not folder.exists()
    assert "JAX's own cache is in use" in caplog.text


def test_without_a_folder_functions_run_as_jax_runs_them(processes):
    assert [processes.run(None), processes.run(None)] == [8.0, 8.0]
    assert processes.traced == [3, 3]


def test_a_function_keeps_its_programs_in_the_cache_of_the_process(folder):
    traced = []

    def call():
        @cached_jit(static_argnames=['factor'])
        def times(x, *, factor, by):  # JAX would not trace the same function again
            traced.append(factor)
            return factor * x * by

        return float(times(jnp.float32(2), factor=3, by=jnp.float32(5)))

    for _ in ('compiled', 'loaded'):
        with program_cache.use(ProgramCache(folder, 'code')):
            assert call() == 30.0
    assert traced == [3]
    assert call() == 30.0
    assert traced == [3, 3]


_OPEN = """
import sys
from transformer_jax import command_line
if 'config file imports jax' in sys.argv:
    import jax
with command_line.compiled_programs(sys.argv[1]):
    import jax
    from transformer_jax.runtime import program_cache
    if jax.config.jax_enable_compilation_cache:
        sys.exit(f'{jax.config.jax_compilation_cache_dir}')
    x = jax.numpy.ones((64, 64))
    print(float(program_cache.current().run(jax.jit(lambda x: (x**3.1 @ x).sum()), [x], {}, {})))
"""


def _open(*arguments):
    environment = os.environ | {'JAX_PLATFORMS': 'cpu', 'XLA_FLAGS': ''}
    # A cache of JAX that the user has asked for must not interfere.
    environment |= {'JAX_COMPILATION_CACHE_DIR': str(arguments[0] / 'jax')}
    environment |= {'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0'}
    command = [sys.executable, '-c', _OPEN, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_an_open_cache_keeps_programs_for_the_next_process(tmp_path):
    for _ in ('compiled', 'loaded'):
        process = _open(tmp_path)
        assert (process.stdout, process.stderr) == ('262144.0\n', '')
    (_program,) = (tmp_path / 'programs').iterdir()
    assert not (tmp_path / 'jax').exists()


def test_a_command_whose_config_file_has_imported_jax_uses_the_cache_of_jax(tmp_path):
    assert _open(tmp_path, 'config file imports jax').stderr == f'{tmp_path}/compiled\n'


def test_no_cache_is_opened_in_a_folder_that_others_can_write(tmp_path):
    (tmp_path / 'programs').mkdir()
    (tmp_path / 'programs').chmod(0o777)
    *warning, chosen = _open(tmp_path).stderr.splitlines()
    assert 'can be written by others' in warning[0]
    assert chosen == 'None'
