"""What JAX has no public name for: the one file to mend if a new version has moved it."""

from typing import Any

import jax
from jax._src import distributed
from jax.experimental.compilation_cache import compilation_cache


def coordination_client() -> Any:
    """Return the client of the coordination service, None if this process is the only one.

    A collective would time out while one process tokenises.
    """
    return distributed.global_state.client


def device_ids(program: jax.stages.Compiled) -> list[int]:
    """Return the ids of the devices of a program, in its order."""
    return [device.id for device in program.runtime_executable().local_devices()]


def options() -> dict[str, Any]:
    """Return all options of `jax.config`."""
    return dict(jax.config.values)


def forget_cache_folder() -> None:
    """Let JAX open its cache of compiled programs anew; it would keep the folder that it opened."""
    compilation_cache.reset_cache()
