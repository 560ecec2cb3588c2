"""The mesh, one table of where each parameter lies on it, and arrays onto devices."""

import re
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

# From a parameter's path to its place, the first match counts. Every device holds all parameters;
# a rule above the last one is how to divide some of them.
PARAMETER_RULES: tuple[tuple[str, PartitionSpec], ...] = ((r'.*', PartitionSpec()),)


def make_mesh(devices: list[jax.Device] | None = None) -> Mesh:
    """A mesh of all local devices, or of those given, along the axis 'data'."""
    devices = devices or jax.local_devices()
    return jax.make_mesh((len(devices),), ('data',), (AxisType.Auto,), devices=devices)


def state_shardings(tree: Any, mesh: Mesh) -> Any:
    """The sharding of each array of a tree of parameters or of a whole train state.

    Adam's moments end in the path of the parameter they belong to, and so lie as it does.
    """

    def place(path: tuple, _: Any) -> NamedSharding:
        name = jax.tree_util.keystr(path, simple=True, separator='/')
        spec = next(spec for rule, spec in PARAMETER_RULES if re.fullmatch(rule, name))
        return NamedSharding(mesh, spec)

    return jax.tree_util.tree_map_with_path(place, tree)


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Rows divided among the devices."""
    return NamedSharding(mesh, PartitionSpec('data'))


def padded_rows(rows: int, mesh: Mesh) -> int:
    """Rows rounded up so that each device gets as many."""
    return -(-rows // mesh.size) * mesh.size


def shard_batch(batch: Mapping[str, np.ndarray], mesh: Mesh) -> dict[str, jax.Array]:
    """Lays the rows of a batch on the devices.

    Rows that the devices do not divide evenly are filled up with padding, which counts for nothing.

    Args:
      batch: [rows, length] int32 arrays.
      mesh: from `make_mesh`.
    """
    sharding = batch_sharding(mesh)

    def put(array: np.ndarray) -> jax.Array:
        missing = padded_rows(len(array), mesh) - len(array)
        return jax.device_put(np.pad(array, ((0, missing), (0, 0))), sharding)

    return {name: put(array) for name, array in batch.items()}
