"""Many processes, one run: how they find each other, and what they have to agree on.

A process of its own needs none of this, and every function here does nothing then.

The environment decides, so that the command line is the same everywhere:
- JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID, set by whoever starts them;
- Slurm's variables, in a step of more than one task;
- TRANSFORMER_JAX_PROCESSES=auto leaves it to JAX, which knows TPU pods and other clusters.
"""

import logging
import os
import sys
import threading
from concurrent.futures import Future
from types import ModuleType

from transformer_jax.errors import UserError

# Seconds until a process that has died without a word is noticed; one whose connections break is
# noticed at once.
_HEARTBEAT_TIMEOUT = 30
_JOIN_TIMEOUT = 600  # seconds until all have to have been started
_WAIT_MILLISECONDS = 24 * 3600 * 1000  # for the others, who may be tokenising a large corpus
_SHARD_AUTOTUNING = 'xla_gpu_shard_autotuning'
_logger = logging.getLogger('transformer_jax')


def init_distributed() -> None:
    """Joins the other processes, where the environment speaks of any; before JAX is used.

    Raises:
      UserError: if the environment contradicts itself, or what it says cannot be used. Where the
        others do not come in time, JAX ends the process itself; what was awaited is said before.
    """
    arguments = _arguments(os.environ)
    if arguments is None:
        return
    import jax  # here, because a single process has yet to open its program cache

    if jax.distributed.is_initialized():
        return
    _logger.info(
        'Process %s of %s joins the others at %s; they have to be started within %d seconds.',
        arguments.get('process_id', '?'),
        arguments.get('num_processes', '?'),
        arguments.get('coordinator_address', 'the address that the cluster gives'),
        _JOIN_TIMEOUT,
    )
    # Of several processes XLA has each try some of the kernels and wait for what the others found.
    # They would wait for a day for one whose programs lie in its cache: JAX lets only the first
    # write, and disks need not be shared.
    flags = os.environ.get('XLA_FLAGS', '')
    if _SHARD_AUTOTUNING not in flags:
        os.environ['XLA_FLAGS'] = f'{flags} --{_SHARD_AUTOTUNING}=false'.strip()
    # SIGTERM at one process then has all of them stop after the same step.
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

    # Python hears no signal while it waits in JAX: in a thread, which does not keep a process that
    # is to end.
    threading.Thread(target=initialize, daemon=True).start()
    try:
        joining.result()
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f'the processes of this run do not find each other ({error}): check the address and '
            'the port in JAX_COORDINATOR_ADDRESS, and that all of them have been started.'
        ) from error


def _arguments(environment) -> dict | None:
    """What `jax.distributed.initialize` is to be given; None for a process of its own."""
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
    # SLURM_STEP_NODELIST is set by srun alone: in a batch script's own shell there is no step.
    if environment.get('SLURM_STEP_NODELIST') and int(environment.get('SLURM_NTASKS', '1')) > 1:
        return {'cluster_detection_method': 'slurm'}
    choice = environment.get('TRANSFORMER_JAX_PROCESSES', '')
    if choice not in ('', 'auto'):
        raise UserError(f"TRANSFORMER_JAX_PROCESSES={choice!r} must be 'auto' or not set.")
    return {} if choice else None


def is_first() -> bool:
    """Whether this process is the one that logs and writes results."""
    return index() == 0


def index() -> int:
    """The number of this process, counted from 0."""
    jax = _joined()
    return 0 if jax is None else jax.process_index()


def count() -> int:
    """How many processes make up this run."""
    jax = _joined()
    return 1 if jax is None else jax.process_count()


def _joined() -> ModuleType | None:
    """JAX, where this process has joined others; to find that out, it need not be imported."""
    jax = sys.modules.get('jax')
    distributed = getattr(jax, 'distributed', None)  # not there while JAX is being imported
    return jax if distributed is not None and distributed.is_initialized() else None


def barrier(point: str) -> None:
    """Returns when every process has come to `point`, a name used once in a run."""
    if count() > 1:
        _client().wait_at_barrier(f'transformer_jax/{point}', _WAIT_MILLISECONDS)


def broadcast_from_first(name: str, value: str) -> str:
    """The `value` of the first process, for all; `name` is used once in a run."""
    if count() == 1:
        return value
    key = f'transformer_jax/{name}'
    if is_first():
        _client().key_value_set(key, value)
    return _client().blocking_key_value_get(key, _WAIT_MILLISECONDS)


def _client():
    # The coordination service, which does not time out as a collective does while one process
    # tokenises; JAX has no public name for it.
    from jax._src import distributed

    return distributed.global_state.client
