"""Every test sees eight CPU devices, strict shapes, and a cache folder of its own."""

import fcntl
import functools
import logging
import os
import resource
import shutil
import sys
from importlib.metadata import version

os.environ.setdefault('JAX_PLATFORMS', 'cpu')  # before jax chooses a backend
# A third of the tests' time went into optimising programs that run for milliseconds.
os.environ['XLA_FLAGS'] = os.environ.get('XLA_FLAGS', '') + ' --xla_backend_optimization_level=0'
if version('jaxlib').startswith('0.10.'):
    # A third of the rest went into its newer code generator. Later versions end at an unknown flag;
    # README's commands are tested with what users have.
    os.environ['XLA_FLAGS'] += ' --xla_cpu_use_fusion_emitters=false'

import jax
import pytest

jax.config.update('jax_num_cpu_devices', 8)
# A [D] silently added to a [B, D] is how a transposed axis goes unnoticed.
jax.config.update('jax_numpy_rank_promotion', 'raise')


@pytest.fixture(scope='session')
def shared_folder(tmp_path_factory):
    """A folder that all workers of these tests share, and that is empty at first."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if 'PYTEST_XDIST_WORKER' in os.environ else folder


@pytest.fixture(scope='session', autouse=True)
def _own_cache(shared_folder):
    """Keeps the tests out of the user's cache, and the user's cache out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('TRANSFORMER_JAX_CACHE', str(shared_folder / 'cache'))
        yield


@pytest.fixture(scope='module')
def programs_kept():
    """Has a module's runs find one another's programs without tracing them, as commands do."""
    from transformer_jax.runtime import program_cache

    program_cache.keep()
    yield
    program_cache.keep(False)


@pytest.fixture(autouse=True)
def _logging_as_before():
    """A command run in this process sets up its messages: the next test is not to notice."""
    loggers = [logging.getLogger(name) for name in ('transformer_jax', 'absl')]
    before = [(x, x.handlers[:], x.level, x.propagate) for x in loggers]
    yield
    for logger, handlers, level, propagate in before:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


@pytest.fixture
def small_disk():
    """Called, it lets no file grow beyond 4 kB, the nearest to a full disk that needs no disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    restore = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, limits)

    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        return restore

    yield fill
    restore()


@pytest.fixture(scope='session')
def run_of(shared_folder):
    """Called with a name and a config, it returns the folder of their run, which one worker trains.

    The others share it: whoever is to write to it, or to hold its lock, takes a copy.
    """
    from transformer_jax.training import train  # here, since few tests need it

    def once(name, config):
        folder = shared_folder / name
        with (shared_folder / f'{name}.lock').open('w') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            train(config, folder)  # a finished run is left as it is
        return folder

    return once


@pytest.fixture(scope='session')
def workdir(run_of):
    """Folder of a run that has learned enough for its outputs to differ from text to text."""
    from tiny_run import trained

    return run_of('trained', trained())


@pytest.fixture(scope='module')
def uninterrupted(run_of, tmp_path_factory):
    """Folder, the module's own, of a run of `tiny` that was never stopped."""
    from tiny_run import tiny

    folder = tmp_path_factory.mktemp('uninterrupted')
    return shutil.copytree(run_of('tiny', tiny()), folder, dirs_exist_ok=True)


@pytest.fixture(scope='session')
def translator(workdir):
    """The translator that the run in `workdir` has made."""
    from transformer_jax.translator import Translator

    return Translator.load(workdir)


@pytest.fixture
def run_command(monkeypatch, capsys, tmp_path_factory):
    """Runs a command's module in this process; returns its exit code, stdout and stderr."""
    from transformer_jax import command_line

    def run(module, *arguments, stdin=b'', terminal=False):
        monkeypatch.setattr('sys.argv', ['command', *map(str, arguments)])
        file = tmp_path_factory.mktemp('stdin') / 'stdin'
        file.write_bytes(stdin)
        monkeypatch.setattr('sys.stdin', file.open())
        monkeypatch.setattr(sys.stdin, 'isatty', lambda: terminal)
        code = 0
        try:
            command_line.run(module.main)
        except SystemExit as exit_:
            code = exit_.code
        return code, *capsys.readouterr()

    return run
