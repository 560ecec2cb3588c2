"""Compiled programs that commands keep for one another, and find without tracing anything.

JAX's own cache knows a program by what tracing gives, and that takes Python longer than XLA takes
to load the program. Here it is known by all that tracing depends on: the files of the code, the
versions, the devices, and what the caller says it is made of. Only a process that says so keeps
programs: in a notebook, code may be another in memory than in its file.
"""

import contextlib
import functools
import importlib.metadata
import logging
import os
import pickle
import platform
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformer_jax.storage.cache import PRIVATE, content_digest, make_folder, read_own
from transformer_jax.storage.files import atomic_write

# A second to import: a command answers mistakes before.
if TYPE_CHECKING:
    import jax

_logger = logging.getLogger('transformer_jax')
# What the names of packages begin with that make programs, or that these run.
_PACKAGES = ('jax', 'flax', 'optax', 'numpy', 'nvidia', 'libtpu')
_ENVIRONMENT = ('XLA_FLAGS', 'LIBTPU_INIT_ARGS')
# What jax.config says of these changes nothing that is compiled.
_OTHER_OPTIONS = ('cache', 'logging', 'traceback', 'dump')
_begun = time.time()
_keeping = False
_found_by_jax = threading.local()


def keep(wanted: bool = True) -> None:
    """Says whether this process runs the code of its files and no other, as commands do."""
    global _keeping
    _keeping = wanted


def not_with_jax() -> None:
    """Keeps nothing if JAX is there by now: code that ran so far may have changed the model's."""
    if 'jax' in sys.modules:
        keep(False)


def place(name: str, *parts: object) -> Path | None:
    """Where a program is kept: beside JAX's own cache.

    Args:
      name: of the function that is compiled.
      *parts: all that its program depends on, besides code and devices. They count as what `repr`
        says of them.

    Returns:
      The file, which need not be there; None where programs are not kept.
    """
    import jax

    folder = jax.config.jax_compilation_cache_dir
    if not _keeping or not folder or jax.process_count() > 1:
        return None
    texts, code = [name, *map(repr, parts)], _code()
    # What says nothing but where it lies in memory would be known by it.
    if code is None or any(' at 0x' in text for text in texts):
        return None
    return Path(folder).parent / 'programs' / content_digest([code, _machine(), *texts])


def load(path: Path | None, *args: Any, **kwargs: Any) -> 'jax.stages.Compiled | None':
    """Return the program kept at `path` if there is one and it can be called with these arguments.

    Args:
      path: of `place`.
      *args: what the program will be called with: arrays, or a `jax.ShapeDtypeStruct` for each.
      **kwargs: likewise.
    """
    try:
        content = path and path.with_name(read_own(path).decode('ascii'))
        return content and _read(content, (args, kwargs))
    except (OSError, ValueError):
        return None


def compiled(
    path: Path | None, program: 'jax.stages.Lowered', options: Mapping[str, Any] | None = None
) -> 'jax.stages.Compiled':
    """Compiles a program, and keeps it at `path`; where it cannot be kept, only time is lost.

    Args:
      path: of `place`.
      program: what tracing gives.
      options: of the compiler.
    """
    if path is None:
        return program.compile(options)
    # Kept by what tracing gives, which a change of code may leave as it was; `path` leads there.
    texts = [program.as_text(), str(program.in_tree), str(program.out_tree), repr(options)]
    # The text has neither the unused arguments nor their shapes, but a call checks both.
    texts += [repr(program.args_info), _kept_arguments(program) or path.name]
    content = path.with_name(content_digest([_machine(), *texts]))
    found = _read(content, program.args_info)
    if found is None:
        _listen()
        _found_by_jax.count = 0
        found = program.compile(options)
        # XLA cannot write whole what it has itself read from JAX's cache.
        if _found_by_jax.count or not _written(content, lambda: _serialized(found)):
            return found
    _written(path, lambda: content.name.encode())
    return found


def _kept_arguments(program: 'jax.stages.Lowered') -> str | None:
    """Return which arguments the program uses, or None where JAX does not say."""
    try:
        return repr(sorted(program._lowering.compile_args['kept_var_idx']))
    except (AttributeError, KeyError, TypeError):
        return None


def _read(path: Path, arguments: Any) -> 'jax.stages.Compiled | None':
    """Load a program that can be called with `arguments`, a pair of positional and named ones."""
    import jax
    from jax.experimental import serialize_executable

    try:
        devices, program = pickle.loads(read_own(path))
        by_id = {device.id: device for device in jax.devices()}
        loaded = serialize_executable.deserialize_and_load(
            *program, execution_devices=[by_id[k] for k in devices]
        )
        if _signature(loaded.args_info) != _signature(arguments):
            raise ValueError('it is for other arguments')
        return loaded
    except FileNotFoundError:
        return None
    except Exception as error:  # whatever is wrong with it: it can be made again
        _logger.warning('The compiled program %s cannot be read (%s): made anew.', path, error)
        with contextlib.suppress(OSError):
            path.unlink()
        return None


def _signature(arguments: Any) -> Any:
    """Return what a call checks of its arguments: their tree, shapes and dtypes."""
    import jax
    import numpy as np

    leaves, tree = jax.tree.flatten(arguments)
    return tree, [(np.shape(x), jax.dtypes.canonicalize_dtype(x.dtype)) for x in leaves]


def _serialized(program: 'jax.stages.Compiled') -> bytes:
    from jax.experimental import serialize_executable

    # JAX would load it for all devices there are.
    devices = [device.id for device in program.runtime_executable().local_devices()]
    return pickle.dumps((devices, serialize_executable.serialize(program)))


def _written(path: Path, content: Callable[[], bytes]) -> bool:
    try:
        data = content()
        make_folder(path.parent, PRIVATE)
        with atomic_write(path, 'wb') as file:
            os.fchmod(file.fileno(), 0o600)  # `read_own` refuses what some umasks leave
            file.write(data)
    except Exception as error:
        _say_not_kept(str(error))
        return False
    return True


@functools.cache  # once for each reason
def _say_not_kept(reason: str) -> None:
    _logger.warning('Compiled programs are not kept for the next start (%s).', reason)


@functools.cache  # JAX cannot forget a listener, so there is one
def _listen() -> None:
    import jax

    def count(event: str, **_: object) -> None:
        if event == '/jax/compilation_cache/cache_hits':
            _found_by_jax.count = getattr(_found_by_jax, 'count', 0) + 1

    jax.monitoring.register_event_listener(count)


@functools.cache
def _code() -> str | None:
    """A digest of the package; None if a file may have changed since it was read."""
    texts, package = [], Path(__file__).parent
    try:
        for file in sorted(package.rglob('[!.]*.py')):
            # Copying may set the time of modification back, but not that of the change.
            if max(file.stat().st_mtime, file.stat().st_ctime) >= _begun:
                return None
            texts += [str(file.relative_to(package)), file.read_text(encoding='utf-8')]
    except (OSError, ValueError):
        return None
    return content_digest(texts) if texts else None


@functools.cache
def _machine() -> str:
    """A digest of versions, options and devices."""
    import jax

    installed = ((x.name or '', x.version) for x in importlib.metadata.distributions())
    texts = [platform.python_version()]
    texts += sorted({f'{name} {version}' for name, version in installed if _is_used(name)})
    texts += [os.environ.get(name, '') for name in _ENVIRONMENT]
    texts += [
        f'{name}={value!r}'
        for name, value in sorted(jax.config.values.items())
        if not any(part in name for part in _OTHER_OPTIONS)
    ]
    devices = jax.devices()
    texts += [f'{device.id} {device.device_kind}' for device in devices]
    texts += [devices[0].client.platform_version, *_processor()]
    return content_digest(texts)


def _is_used(package: str) -> bool:
    return package.lower().startswith(_PACKAGES)


def _processor() -> list[str]:
    """What processors here can do: not every program of one runs on all."""
    with contextlib.suppress(OSError):
        lines = Path('/proc/cpuinfo').read_text(encoding='utf-8').splitlines()
        return sorted({x for x in lines if x.startswith(('model name', 'flags', 'Features'))})
    return [platform.processor()]


class CachedJit:
    """`jax.jit` of a function, whose programs are kept where this process keeps any.

    Attributes:
      jitted: by JAX.
    """

    def __init__(self, function: Callable[..., Any], static_argnames: Sequence[str]):
        """Wraps a function.

        Args:
          function: pure, as for `jax.jit`.
          static_argnames: arguments, given by name, that are compiled for; `repr` says all of them.
        """
        import jax

        self.jitted = jax.jit(function, static_argnames=static_argnames)
        self._static = frozenset(static_argnames)
        self._programs: dict[tuple, jax.stages.Compiled] = {}
        self._lowered_elsewhere = False
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs it."""
        if not _keeping:
            return self.jitted(*args, **kwargs)
        import jax
        import numpy as np

        static = {name: x for name, x in kwargs.items() if name in self._static}
        dynamic = {name: x for name, x in kwargs.items() if name not in self._static}
        leaves, tree = jax.tree.flatten((args, dynamic))
        kinds = tuple((np.shape(x), x.dtype, getattr(x, 'sharding', None)) for x in leaves)
        key = tree, kinds, tuple(sorted(static.items(), key=lambda item: item[0]))
        program = self._programs.get(key)
        if program is None:
            # Which these are, a mesh does not say of itself.
            shardings = [sharding for _, _, sharding in kinds if sharding is not None]
            devices = sorted({device.id for x in shardings for device in x.device_set})
            path = place(self.__name__, *key, devices)
            # Of what was compiled elsewhere nobody knows whether JAX had it in its cache.
            goes_to = None if self._lowered_elsewhere else path
            program = load(path, *args, **dynamic) or compiled(
                goes_to, self.jitted.lower(*args, **kwargs)
            )
            self._programs[key] = program
        return program(*args, **dynamic)

    def lower(self, *args: Any, **kwargs: Any) -> 'jax.stages.Lowered':
        """As that of `jax.jit`."""
        self._lowered_elsewhere = True
        return self.jitted.lower(*args, **kwargs)


def cached_jit(*, static_argnames: Sequence[str]) -> Callable[[Callable[..., Any]], CachedJit]:
    """Decorates a function with `CachedJit`."""
    return functools.partial(CachedJit, static_argnames=static_argnames)
