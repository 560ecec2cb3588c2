"""Several processes in one run: how they join and what they agree on.

In a single process, barriers and broadcasts do nothing.
"""

import logging
import os
import threading
from concurrent.futures import Future
from typing import Any

import jax

from transformer_jax.errors import UserError
from transformer_jax.runtime import processes
from transformer_jax.runtime.jax_private import coordination_client

# Seconds until a dead process is noticed if its connections do not break.
_HEARTBEAT_TIMEOUT = 30
_JOIN_TIMEOUT = 600  # seconds in which all processes must be started
_WAIT_MILLISECONDS = 24 * 3600 * 1000  # another process may tokenise a large corpus
_SHARD_AUTOTUNING = 'xla_gpu_shard_autotuning'
_logger = logging.getLogger('transformer_jax')


def join(**arguments: Any) -> None:
    """Join the other processes of this run. Call this before JAX is used.

    If the others do not join in time, JAX ends this process; the log says what it waited for.

    Args:
      **arguments: from `processes.joining`.

    Raises:
      UserError: if they do not find each other.
    """
    if jax.distributed.is_initialized():
        return
    _logger.info(
        'Process %s of %s joins the others at %s; start all of them within %d seconds.',
        arguments.get('process_id', '?'),
        arguments.get('num_processes', '?'),
        arguments.get('coordinator_address', 'the address that the cluster gives'),
        _JOIN_TIMEOUT,
    )
    # Otherwise XLA has each process try some of the kernels and wait for the results of the others.
    # A process that finds its programs in its cache tries none, and the others would wait for it.
    flags = os.environ.get('XLA_FLAGS', '')
    if _SHARD_AUTOTUNING not in flags:
        os.environ['XLA_FLAGS'] = f'{flags} --{_SHARD_AUTOTUNING}=false'.strip()
    # With this, SIGTERM to one process stops all of them after the same step.
    jax.config.update('jax_enable_preemption_service', True)
    joining = Future()

    def initialize() -> None:
        try:
            jax.distributed.initialize(
                **arguments,
                initialization_timeout=_JOIN_TIMEOUT,
                heartbeat_timeout_seconds=_HEARTBEAT_TIMEOUT,
                shutdown_timeout_seconds=_HEARTBEAT_TIMEOUT,
            )
        except BaseException as error:
            joining.set_exception(error)
        else:
            joining.set_result(None)

    # In a daemon thread, because Python handles no signal while the main thread waits in JAX.
    threading.Thread(target=initialize, daemon=True).start()
    try:
        joining.result()
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f'the processes of this run do not find each other ({error}): check the address and '
            'the port in JAX_COORDINATOR_ADDRESS, and that all processes have been started.'
        ) from error


def barrier(point: str) -> None:
    """Wait until every process has reached `point`, a name that a run uses once."""
    if processes.count() > 1:
        coordination_client().wait_at_barrier(f'transformer_jax/{point}', _WAIT_MILLISECONDS)


def broadcast_from_first(name: str, value: str) -> str:
    """Return the `value` of process 0 in every process; a run uses `name` once."""
    if processes.count() == 1:
        return value
    key = f'transformer_jax/{name}'
    if processes.is_first():
        coordination_client().key_value_set(key, value)
    return coordination_client().blocking_key_value_get(key, _WAIT_MILLISECONDS)
