"""Fixtures. Every test sees eight CPU devices, strict shapes and its own cache folder."""

import fcntl
import functools
import logging
import os
import resource
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault('JAX_PLATFORMS', 'cpu')  # before jax chooses a backend
# Optimizing programs that run for milliseconds takes longer than running them unoptimized.
os.environ['XLA_FLAGS'] = os.environ.get('XLA_FLAGS', '') + ' --xla_backend_optimization_level=0'
if version('jaxlib').startswith('0.10.'):
    # Its newer code generator is slower. Later versions of XLA do not know the flag.
    os.environ['XLA_FLAGS'] += ' --xla_cpu_use_fusion_emitters=false'

import jax
import pytest

jax.config.update('jax_num_cpu_devices', 8)
# Otherwise a [D] added to a [B, D] would hide a transposed axis.
jax.config.update('jax_numpy_rank_promotion', 'raise')


def pytest_collection_modifyitems(items):
    """Put files with slow tests first, so that no worker starts a long file at the end."""
    slow = {item.path for item in items if item.get_closest_marker('slow')}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope='session')
def shared_folder(tmp_path_factory):
    """An empty folder that all test workers share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if 'PYTEST_XDIST_WORKER' in os.environ else folder


@pytest.fixture(scope='session', autouse=True)
def _own_cache(shared_folder):
    """Separate the cache of the tests from the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('TRANSFORMER_JAX_CACHE', str(shared_folder / 'cache'))
        yield


@pytest.fixture(scope='module')
def no_jax_cache():
    """Switch JAX's own cache of compiled programs off, as commands do."""
    from jax.experimental.compilation_cache.compilation_cache import reset_cache

    jax.config.update('jax_enable_compilation_cache', False)
    reset_cache()  # JAX reads the option once
    # Programs that it has loaded before stay in memory, and XLA cannot serialise them completely.
    jax.clear_caches()
    yield
    jax.config.update('jax_enable_compilation_cache', True)
    reset_cache()


@pytest.fixture(scope='module')
def programs_kept(shared_folder, no_jax_cache):
    """Let the runs of a module share a program cache, as commands do."""
    from transformer_jax.runtime import program_cache

    with program_cache.use(program_cache.ProgramCache(shared_folder / 'programs', 'tests')):
        yield


@pytest.fixture(autouse=True)
def _logging_as_before():
    """Restore the loggers, which a command run in this process sets up for itself."""
    loggers = [logging.getLogger(name) for name in ('transformer_jax', 'absl')]
    before = [(x, x.handlers[:], x.level, x.propagate) for x in loggers]
    yield
    for logger, handlers, level, propagate in before:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


@pytest.fixture
def small_disk():
    """Call it to let no file grow beyond 4 kB, as on a full disk; it returns how to undo that."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    restore = functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, limits)

    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        return restore

    yield fill
    restore()


@pytest.fixture(scope='session')
def run_of(shared_folder):
    """Call it with a name and a config for the folder of a run that all workers share.

    A test that writes to the folder or holds its lock makes a copy first.
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
    """The folder of a run that has learned enough for its outputs to differ from text to text."""
    from tiny_run import trained

    return run_of('trained', trained())


@pytest.fixture(scope='module')
def uninterrupted(run_of, tmp_path_factory):
    """The folder, the module's own copy, of a run of `tiny` that was never stopped."""
    from tiny_run import tiny

    folder = tmp_path_factory.mktemp('uninterrupted')
    return shutil.copytree(run_of('tiny', tiny()), folder, dirs_exist_ok=True)


@pytest.fixture(scope='session')
def release():
    """A release folder that the first version wrote. A test that changes it makes a copy."""
    return Path(__file__).parent / 'conversion' / 'fixtures' / 'release_1'


@pytest.fixture(scope='session')
def translator(workdir):
    """The translator of the run in `workdir`."""
    from transformer_jax.translator import Translator

    return Translator.load(workdir)


@pytest.fixture(scope='session')
def polyglot(translator):
    """The model of `translator`, with language codes in the places of bytes that no text has."""
    from transformer_jax.data.vocabulary.table_vocabulary import TableVocabulary
    from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
    from transformer_jax.translator import Translator

    plain = translator.vocabulary.source
    pieces = ['<pad>', '</s>', '<unk>', *plain.pieces(range(3, plain.size))]
    pieces[3:5] = '>>fra<<', '>>cmn_Hans<<'
    sides = (TableVocabulary(plain.model, pieces, is_source=x) for x in (True, False))
    return Translator(translator.config, VocabularyPair(*sides), translator.network.params[0])


@pytest.fixture
def run_command(monkeypatch, capsys, tmp_path_factory):
    """Call it to run a command in this process; returns its exit code, stdout and stderr."""
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
