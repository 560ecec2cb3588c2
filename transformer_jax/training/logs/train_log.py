"""The log of training: a record of metrics for every log interval."""

import contextlib
import math
import time
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import optax

from transformer_jax.errors import figure
from transformer_jax.runtime.compile_counter import CompileCounter
from transformer_jax.training.logs.metrics_writer import MetricsWriter
from transformer_jax.training.state import LogWindow, TrainState


class TrainLog:
    """Writes the mean losses and the speed since the last record."""

    def __init__(
        self,
        metrics: MetricsWriter,
        learning_rate: optax.Schedule,
        compiled: CompileCounter,
        state: TrainState,
    ):
        """Start the clock.

        Args:
          metrics: where the records go.
          learning_rate: the schedule.
          compiled: counts what is compiled while the run trains.
          state: the state before the first step of this process.
        """
        self._metrics, self._learning_rate, self._compiled = metrics, learning_rate, compiled
        # A resumed run starts inside a window. Its tokens were not trained on by this process, so
        # they do not count for its speed.
        self._tokens_before = int(state.window.sums.tokens)
        self._since = time.perf_counter()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """A context whose time does not count as training."""
        begin = time.perf_counter()
        yield
        self._since += time.perf_counter() - begin

    def write(self, step: int, state: TrainState, bar: Any) -> TrainState:
        """Write a record and return the state with an empty window.

        Args:
          step: the number of steps taken.
          state: the state after them.
          bar: the progress bar, which shows the means.
        """
        window, taken = jax.device_get((state.window, state.opt_state[0].count))
        now = time.perf_counter()
        seconds, self._since = now - self._since, now
        tokens = int(window.sums.tokens)
        trained, self._tokens_before = tokens - self._tokens_before, 0
        speed = trained / seconds if seconds else math.inf
        # If every step was skipped there is no loss.
        sums = {'loss': window.sums.loss, 'nll': window.sums.nll} if tokens else {}
        means = {name: float(total) / tokens for name, total in sums.items()}
        rate = float(self._learning_rate(np.int32(taken - 1)))
        record = {
            'step': step,
            'kind': 'train',
            **means,
            'learning_rate': rate,
            'target_tokens': tokens,
            'skipped_steps': int(window.skipped),
            'compilations': self._compiled.new(),
            'target_tokens_per_second': speed,
            'seconds': seconds,
        }
        self._metrics.write(record)
        loss = f'loss {figure(means["loss"], ".3f")}' if means else 'no step taken'
        bar.set_postfix_str(f'{loss}, {figure(speed, ",.0f")} tokens/s, lr {rate:.2e}')
        return with_empty_window(state)


def with_empty_window(state: TrainState) -> TrainState:
    """Return the state with a window that begins now."""
    # From NumPy: an array of one device would be laid wrongly on processes with one device each.
    empty = jax.tree.map(np.asarray, LogWindow.empty())
    return state.replace(window=jax.device_put(empty, state.step.sharding))
