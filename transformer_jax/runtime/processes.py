"""The processes of a run: how many there are, and which of them this one is.

Environment variables decide, so that the command line is the same everywhere:
- JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and JAX_PROCESS_ID, set by the user or a launcher;
- Slurm's variables, in a step of more than one task;
- TRANSFORMER_JAX_PROCESSES=auto lets JAX decide, which knows TPU pods and other clusters.
"""

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from transformer_jax.errors import UserError


def joining(environment: Mapping[str, str]) -> dict[str, Any] | None:
    """Return how this process joins the others, or None if it is the only one.

    Args:
      environment: the environment variables.

    Returns:
      Arguments of `distributed.join`.

    Raises:
      UserError: if the environment variables contradict each other or cannot be used.
    """
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
