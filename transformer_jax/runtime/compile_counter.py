"""Counts the programs that XLA compiles."""

import functools

import jax


class CompileCounter:
    """Counts the programs that XLA compiles. While a run trains there should be none."""

    _seen = 0

    def __init__(self):
        """Start counting."""
        _listen()
        self._before = CompileCounter._seen

    def new(self) -> int:
        """Return the number of programs compiled since the last call, or since the start."""
        before, self._before = self._before, CompileCounter._seen
        return self._before - before


@functools.cache  # once: JAX cannot remove a listener
def _listen() -> None:
    def count(event: str, *_: object, **__: object) -> None:
        if event == '/jax/core/compile/backend_compile_duration':
            CompileCounter._seen += 1

    jax.monitoring.register_event_duration_secs_listener(count)
