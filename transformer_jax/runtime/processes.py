"""Several processes in one run: how they find each other and what they agree on.

In a single process, every function here does nothing.

Environment variables decide, so that the command line is the same everywhere:
- JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID, set by the user or a launcher;
- Slurm's variables, in a step of more than one task;
- TRANSFORMER_JAX_PROCESSES=auto lets JAX decide, which knows TPU pods and other clusters.
"""

import logging
import os
import sys
import threading
from concurrent.futures import Future
from types import ModuleType

from transformer_jax.errors import UserError

# Seconds until a dead process is noticed if its connections do not break.
_HEARTBEAT_TIMEOUT = 30
_JOIN_TIMEOUT = 600  # seconds in which all processes must be started
_WAIT_MILLISECONDS = 24 * 3600 * 1000  # another process may tokenise a large corpus
_SHARD_AUTOTUNING = 'xla_gpu_shard_autotuning'
_logger = logging.getLogger('transformer_jax')


def init_distributed() -> None:
    """Join the other processes if the environment names any. Call this before JAX is used.

    If the others do not join in time, JAX ends this process; the log says what it waited for.

    Raises:
      UserError: if the environment variables contradict each other or cannot be used.
    """
    arguments = _arguments(os.environ)
    if arguments is None:
        return
    import jax  # here, because a single process has yet to open its program cache

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


def _arguments(environment) -> dict | None:
    """Return the arguments of `jax.distributed.initialize`, or None for a single process."""
    names = ('JAX_COORDINATOR_ADDRESS', 'JAX_NUM_PROCESSES', 'JAX_PROCESS_ID')
    given = {name: environment[name] for name in names if environment.get(name)}
    if given:
        missing = [name for name in names if name not in given]
        if missing:
            raise UserError(f'{", ".join(given)} is set but {", ".join(missing)} is not: set all.')
        address, *numbers = (given[name] for name in names)
        host, _, port = address.rpartition(':')
        if not (host and port.isdecimal() and 0 < int(port) < 65536):
            raise UserError(
                f'JAX_COORDINATOR_ADDRESS={address!r} must be HOST:PORT, the port from 1 to 65535.'
            )
        for name, number in zip(names[1:], numbers, strict=True):
            if not number.isdecimal():
                raise UserError(f'{name}={number!r} must be a whole number.')
        count, index = map(int, numbers)
        if not index < count:
            raise UserError(f'JAX_PROCESS_ID={index} must be below JAX_NUM_PROCESSES={count}.')
        if count == 1:
            return None
        return {
            'coordinator_address': address,
            'num_processes': count,
            'process_id': index,
            'cluster_detection_method': 'deactivate',
        }
    # Only srun sets SLURM_STEP_NODELIST: the shell of a batch script is not a step.
    if environment.get('SLURM_STEP_NODELIST') and int(environment.get('SLURM_NTASKS', '1')) > 1:
        return {'cluster_detection_method': 'slurm'}
    choice = environment.get('TRANSFORMER_JAX_PROCESSES', '')
    if choice not in ('', 'auto'):
        raise UserError(f"TRANSFORMER_JAX_PROCESSES={choice!r} must be 'auto' or not set.")
    return {} if choice else None


def is_first() -> bool:
    """Return whether this is process 0, which logs and writes results."""
    return index() == 0


def index() -> int:
    """Return the number of this process, counted from 0."""
    jax = _joined()
    return 0 if jax is None else jax.process_index()


def count() -> int:
    """Return the number of processes of this run."""
    jax = _joined()
    return 1 if jax is None else jax.process_count()


def _joined() -> ModuleType | None:
    """Return the module jax if this process has joined others, without importing it."""
    jax = sys.modules.get('jax')
    distributed = getattr(jax, 'distributed', None)  # missing while JAX is being imported
    return jax if distributed is not None and distributed.is_initialized() else None


def barrier(point: str) -> None:
    """Wait until every process has reached `point`, a name that a run uses once."""
    if count() > 1:
        _client().wait_at_barrier(f'transformer_jax/{point}', _WAIT_MILLISECONDS)


def broadcast_from_first(name: str, value: str) -> str:
    """Return the `value` of process 0 in every process; a run uses `name` once."""
    if count() == 1:
        return value
    key = f'transformer_jax/{name}'
    if is_first():
        _client().key_value_set(key, value)
    return _client().blocking_key_value_get(key, _WAIT_MILLISECONDS)


def _client():
    from transformer_jax.runtime.jax_private import coordination_client

    return coordination_client()
