"""A cache of compiled programs that are found without tracing.

JAX's own cache looks a program up by its traced text, and tracing in Python takes longer than
loading the program. This cache looks it up by everything that tracing depends on: the package's
source files, versions, options, devices, and the parts that the caller names.
"""

import contextlib
import functools
import glob
import logging
import os
import pickle
import platform
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import serialize_executable

from transformer_jax.runtime import jax_private
from transformer_jax.storage.cache import (
    PRIVATE,
    content_digest,
    is_private,
    make_folder,
    read_own,
    threat_to_programs,
)
from transformer_jax.storage.files import atomic_write

_logger = logging.getLogger('transformer_jax')
# Prefixes of packages whose version affects compiled programs.
_PACKAGES = ('jax', 'flax', 'optax', 'numpy', 'nvidia', 'libtpu')
_ENVIRONMENT = ('XLA_FLAGS', 'LIBTPU_INIT_ARGS')
# Names of options in jax.config that contain one of these words do not affect programs.
_OTHER_OPTIONS = ('cache', 'logging', 'traceback', 'dump')


class ProgramCache:
    """Compiled programs in a folder; without a folder, they are compiled in every process.

    A program is loaded by pickle, which can run any code. Therefore only files that no other user
    can have written are read.
    """

    def __init__(self, folder: Path | None = None, code: str = ''):
        """Create a cache. Commands use `open`.

        Args:
          folder: the folder of the programs, which need not exist; None keeps no programs.
          code: digest of the source code that makes the programs.
        """
        self._folder, self._code = folder, code
        self._loaded: dict[tuple, jax.stages.Compiled] = {}
        self._locks: defaultdict[tuple, threading.Lock] = defaultdict(threading.Lock)

    @classmethod
    def open(cls, cache_folder: Path) -> 'ProgramCache | None':
        """Return the cache of this process, and switch JAX's own cache off.

        `command_line.compiled_programs` calls this where the model is not imported yet: in a
        notebook, code in memory may differ from the code in its file.

        Args:
          cache_folder: the folder of all caches.

        Returns:
          None if other users can write programs, or if the source files cannot be read.
        """
        folder = cache_folder.absolute() / 'programs'
        if not is_private(folder) or not (code := _code()):
            return None
        # XLA cannot serialise completely what JAX has loaded from its own cache. JAX reads this
        # option once in a process, so that it cannot be off for single programs.
        jax.config.update('jax_enable_compilation_cache', False)
        return cls(folder, code)

    def key(self, name: str, *parts: object) -> str | None:
        """Return the key of a program, or None if it cannot be kept.

        Args:
          name: the name of the compiled function.
          *parts: everything that its program depends on, apart from code and devices. `repr` must
            tell different parts apart.
        """
        texts = [name, *map(repr, parts)]
        # A repr with an address in memory is not the same in the next process.
        if self._folder is None or any(' at 0x' in text for text in texts):
            return None
        return content_digest([self._code, _machine(), *texts])

    def load(self, key: str | None, *args: Any, **kwargs: Any) -> jax.stages.Compiled | None:
        """Return the program with this key, or None if there is none that can be used.

        Args:
          key: from `key`.
          *args: what the program must accept: arrays, or a `jax.ShapeDtypeStruct` for each.
          **kwargs: the same for named arguments.
        """
        if key is None:
            return None
        path = self._folder / key
        try:
            devices, program = pickle.loads(read_own(path))
            by_id = {device.id: device for device in jax.devices()}
            loaded = serialize_executable.deserialize_and_load(
                *program, execution_devices=[by_id[k] for k in devices]
            )
            if _signature(loaded.args_info) != _signature((args, kwargs)):
                raise ValueError('it is for other arguments')
            return loaded
        except FileNotFoundError:
            return None
        except Exception as error:  # whatever is wrong, the program can be compiled again
            _logger.warning('%s is no usable program (%s): it is compiled again.', path, error)
            return None

    def compile(
        self,
        key: str | None,
        program: jax.stages.Lowered,
        options: Mapping[str, Any] | None = None,
    ) -> jax.stages.Compiled:
        """Compile a program and keep it; if it cannot be kept, log a warning.

        Args:
          key: from `key`.
          program: the traced function.
          options: of the compiler.
        """
        compiled = program.compile(options)
        if key is not None:
            try:
                self._write(self._folder / key, compiled)
            except OSError as error:  # a path in the message would defeat warning only once
                _warn_not_kept(f'{str(self._folder)!r}: {error.strerror}')
            except Exception as error:
                _warn_not_kept(str(error))
        return compiled

    def run(
        self,
        function: jax.stages.Wrapped,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        static: Mapping[str, Any],
    ) -> Any:
        """Call a function from `jax.jit` with arrays and, by name, its static arguments."""
        if self._folder is None:
            return function(*args, **kwargs, **static)
        leaves, tree = jax.tree.flatten((args, kwargs))
        kinds = tuple((np.shape(x), x.dtype, getattr(x, 'sharding', None)) for x in leaves)
        name = f'{function.__module__}.{function.__qualname__}'
        known_by = name, tree, kinds, tuple(sorted(static.items()))
        if known_by not in self._loaded:
            # A thread waits for another one that compiles the same program.
            with self._locks[known_by]:
                if known_by not in self._loaded:
                    # The repr of a sharding does not name its devices.
                    shardings = [sharding for _, _, sharding in kinds if sharding is not None]
                    devices = sorted({device.id for x in shardings for device in x.device_set})
                    key = self.key(*known_by, devices)
                    self._loaded[known_by] = self.load(key, *args, **kwargs) or self.compile(
                        key, function.lower(*args, **kwargs, **static)
                    )
        return self._loaded[known_by](*args, **kwargs)

    def _write(self, path: Path, program: jax.stages.Compiled) -> None:
        if jax.config.jax_enable_compilation_cache and jax.config.jax_compilation_cache_dir:
            raise ValueError("JAX's own cache is in use")  # see `open`
        # Without a list of devices, JAX would load the program for all devices.
        devices = jax_private.device_ids(program)
        content = pickle.dumps((devices, serialize_executable.serialize(program)))
        make_folder(path.parent, PRIVATE)
        with atomic_write(path, 'wb') as file:
            os.fchmod(file.fileno(), 0o600)  # `read_own` refuses the mode that some umasks leave
            file.write(content)


_current = ProgramCache()


def current() -> ProgramCache:
    """Return the cache of this process; one that keeps nothing unless `use` was called."""
    return _current


@contextlib.contextmanager
def use(cache: ProgramCache | None) -> Iterator[None]:
    """A context in which this process keeps its programs in `cache`; with None it keeps none.

    The cache belongs to the process because JAX's own cache, which it replaces, does so too.
    """
    global _current
    before, _current = _current, cache or ProgramCache()
    try:
        yield
    finally:
        _current = before


def keep_compiled_programs(folder: Path) -> None:
    """Make JAX keep compiled programs in `folder`/compiled for the next process.

    If another user can write programs there, or may have done so, this logs a warning, and the
    process neither reads nor keeps compiled programs.

    Args:
      folder: the cache folder.
    """
    # JAX opens the folder later, when the working directory may have changed.
    folder = folder.absolute()
    threat = threat_to_programs(folder)
    if threat:
        _say_not_trusted(folder, threat)
    # None also overrides $JAX_COMPILATION_CACHE_DIR.
    kept = None if threat else str(folder / 'compiled')
    jax.config.update('jax_compilation_cache_dir', kept)
    jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.05)
    jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)
    # Otherwise the key of a program with cuDNN's attention on several GPUs contains the address of
    # the function that partitions it, and the program is never found again.
    jax.config.update('jax_remove_custom_partitioning_ptr_from_cache_key', True)


def cached_jit(*, static_argnames: Sequence[str]) -> Callable[[Callable], Callable]:
    """Return a decorator like `jax.jit` whose programs are in the cache of this process.

    Args:
      static_argnames: arguments, given by name, that the function is compiled for.
    """

    def decorate(function: Callable) -> Callable:
        jitted = jax.jit(function, static_argnames=static_argnames)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            static = {name: kwargs.pop(name) for name in static_argnames if name in kwargs}
            return _current.run(jitted, args, kwargs, static)

        call.jitted, call.lower = jitted, jitted.lower
        return call

    return decorate


def _signature(arguments: Any) -> Any:
    """Return what a call checks of its arguments: their tree, shapes and dtypes."""
    leaves, tree = jax.tree.flatten(arguments)
    return tree, [(np.shape(x), jax.dtypes.canonicalize_dtype(x.dtype)) for x in leaves]


@functools.cache  # once for each reason
def _say_not_trusted(folder: Path, threat: str) -> None:
    _logger.warning(
        'Compiled programs are neither read from the cache %r nor kept there, because %s, or name '
        'a cache of your own with data.cache_dir or $TRANSFORMER_JAX_CACHE.',
        str(folder),
        threat,
    )


@functools.cache  # once for each reason
def _warn_not_kept(reason: str) -> None:
    _logger.warning('Compiled programs are not kept for the next start (%s).', reason)


def _code() -> str:
    """Return a digest of the package's source files; '' if they cannot be read."""
    package = Path(__file__).parents[1]
    files = sorted(package.rglob('[!.]*.py'))
    try:
        texts = [file.read_text(encoding='utf-8') for file in files]
    except (OSError, ValueError):
        return ''
    names = [str(file.relative_to(package)) for file in files]
    return content_digest([*names, *texts]) if files else ''


@functools.cache
def _machine() -> str:
    """Return a digest of versions, options and devices."""
    options = (
        f'{name}={value!r}'
        for name, value in sorted(jax_private.options().items())
        if not any(word in name for word in _OTHER_OPTIONS)
    )
    devices = jax.devices()
    return content_digest(
        [
            platform.python_version(),
            *_installed(),
            *(os.environ.get(name, '') for name in _ENVIRONMENT),
            *options,
            *(f'{device.id} {device.device_kind}' for device in devices),
            devices[0].client.platform_version,
            *_processor(),
        ]
    )


def _installed() -> list[str]:
    """Return the packages of `_PACKAGES` with their versions, by the folders of their metadata.

    `importlib.metadata` would read the metadata of all packages, which takes a tenth of a second.
    """
    names = {name.lower() for path in sys.path for name in glob.glob('*-info', root_dir=path)}
    return sorted(name for name in names if name.startswith(_PACKAGES))


def _processor() -> list[str]:
    """Return the instruction sets of the processors: a program may need them."""
    try:
        lines = Path('/proc/cpuinfo').read_text(encoding='utf-8').splitlines()
    except OSError:
        return [platform.processor()]
    return sorted({x for x in lines if x.startswith(('model name', 'flags', 'Features'))})
