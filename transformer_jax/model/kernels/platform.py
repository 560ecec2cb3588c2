"""The platform that programs are traced for.

Some functions of the model have a form that is faster on one platform. All forms compute the same.
"""

import contextlib
import contextvars
from collections.abc import Iterator

import jax

ANY = 'any'
_platform: contextvars.ContextVar[str | None] = contextvars.ContextVar('platform', default=None)


def target_platform() -> str:
    """Return 'cpu', 'gpu' or 'tpu', the default backend; within `for_any_platform`, 'any'."""
    return _platform.get() or jax.default_backend()


@contextlib.contextmanager
def for_any_platform() -> Iterator[None]:
    """Trace programs that run on all platforms, for `jax.export`.

    Only new functions may be traced within, because caches of `jax.jit` do not know this context.
    """
    token = _platform.set(ANY)
    try:
        yield
    finally:
        _platform.reset(token)
