"""The mesh, the sharding of every array on it, and batches onto devices.

Two tables decide the sharding of parameters: one names the dimension of each axis (a letter of the
dimension key: D model, N heads, H head size, F feed-forward, V vocabulary), the other names the
mesh axis that divides a dimension. For activations, the model names the dimensions, and a third
table names the mesh axes.
"""

import dataclasses
import functools
import math
import os
import re
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from transformer_jax.config import MeshConfig
from transformer_jax.errors import UserError, first_line
from transformer_jax.model import Layout

# From the end of a parameter's path to its dimensions; the first match counts. The paths of Adam's
# moments end in the path of their parameter, so they are sharded like it. An axis with '-', and a
# parameter without a rule, is replicated: norms and biases of D are too small to communicate.
PARAMETER_DIMENSIONS: tuple[tuple[str, str], ...] = (
    ('(source_|output_)?embedding', 'VD'),
    ('positions/table', '-D'),
    ('output_bias', '-'),
    ('(self|cross)_attention/(query|key|value)', 'DNH'),
    ('(self|cross)_attention/(query|key|value)_bias', 'NH'),
    ('(self|cross)_attention/output', 'NHD'),
    ('inner/kernel', 'DF'),
    ('inner/bias', 'F'),
    ('outer/kernel', 'FD'),
)
PARAMETER_AXES = {'D': 'fsdp', 'N': 'tensor', 'F': 'tensor', 'V': 'tensor'}
_ROWS = ('data', 'fsdp')
# B is the rows of a batch, G groups of them. D has no entry: a weight counts as an activation when
# it is used, and its D has been gathered.
ACTIVATION_AXES = {'B': _ROWS, 'G': _ROWS, 'N': 'tensor', 'F': 'tensor', 'V': 'tensor'}

_FIELDS = {'D': 'model.d_model', 'N': 'model.num_heads', 'F': 'model.d_ff', 'V': 'data.vocab_size'}


def make_mesh(config: MeshConfig | None = None, devices: list[jax.Device] | None = None) -> Mesh:
    """Return a mesh with the axes 'data', 'fsdp' and 'tensor'.

    Args:
      config: the sizes of the axes; None puts all devices on 'data'.
      devices: the devices; None takes those of all processes.

    Raises:
      UserError: if the product of the sizes is not the number of devices, or if there are no
        devices of the kind that JAX_PLATFORMS asks for.
      ValueError: if `devices` is empty.
    """
    devices = _devices() if devices is None else devices
    if not devices:
        raise ValueError('devices is empty: a mesh takes one device or more.')
    sizes = dataclasses.asdict(config or MeshConfig())
    known = math.prod(size for size in sizes.values() if size != -1)
    shape = tuple(len(devices) // known if size == -1 else size for size in sizes.values())
    if math.prod(shape) != len(devices):
        given = ', '.join(f'mesh.{name}={size}' for name, size in sizes.items())
        raise UserError(
            f'{given} do not make up the {len(devices)} {devices[0].platform} devices there are: '
            f'their product must be {len(devices)}; -1 stands for the devices that are left.'
        )
    return jax.make_mesh(shape, tuple(sizes), (AxisType.Auto,) * len(shape), devices=devices)


def data_mesh() -> Mesh:
    """Return the mesh for translation: all devices of this process share the sentences."""
    _devices()
    return make_mesh(devices=jax.local_devices())


def _devices() -> list[jax.Device]:
    try:
        return jax.devices()
    except (RuntimeError, AssertionError) as error:
        wanted = os.environ.get('JAX_PLATFORMS')
        if not wanted:
            raise
        raise UserError(
            f'JAX_PLATFORMS={wanted!r} asks for devices that JAX does not find here '
            f'({first_line(error)}): install JAX for them, or unset it.'
        ) from error


@dataclasses.dataclass(frozen=True)
class MeshLayout(Layout):
    """The sharding of a model's arrays on a mesh from `make_mesh`."""

    mesh: Mesh

    def __post_init__(self):
        axes = {field.name for field in dataclasses.fields(MeshConfig)}
        types = set(self.mesh.axis_types)
        if not axes <= set(self.mesh.axis_names) or types != {AxisType.Auto}:
            raise ValueError(
                f'mesh has the axes {self.mesh.axis_names} of the types '
                f'{tuple(type.name for type in self.mesh.axis_types)}: it needs '
                f'{", ".join(sorted(axes))}, all Auto, as transformer_jax.sharding.make_mesh has.'
            )

    @property
    def row_groups(self) -> int:
        """Return into how many parts the rows of a batch are divided."""
        return data_shards(self.mesh)

    def __call__(self, x: jax.Array, dimensions: str) -> jax.Array:
        """Return `x` with the sharding of its dimensions."""
        spec = PartitionSpec(*(ACTIVATION_AXES.get(letter) for letter in dimensions))
        return jax.lax.with_sharding_constraint(x, NamedSharding(self.mesh, spec))


def parameter_sharding(
    path: str,
    shape: tuple[int, ...],
    mesh: Mesh,
    dimensions: tuple[tuple[str, str], ...] = PARAMETER_DIMENSIONS,
) -> NamedSharding:
    """Return the sharding of a parameter.

    Args:
      path: the parameter's path, for example 'decoder/layer_0/feed_forward/inner/kernel'.
      shape: the parameter's shape.
      mesh: the devices.
      dimensions: the table of dimensions.

    Raises:
      ValueError: if the tables use a mesh axis twice for the array or do not fit its shape.
      UserError: if a mesh axis does not divide a dimension.
    """
    letters = next(
        (d for rule, d in dimensions if re.search(f'(^|/){rule}$', path)), '-' * len(shape)
    )
    if len(letters) != len(shape):
        raise ValueError(f'{path} has the shape {shape}, but the dimensions {letters!r}.')
    axes = [PARAMETER_AXES.get(letter) for letter in letters]
    for axis in {axis for axis in axes if axis is not None}:
        if axes.count(axis) > 1:
            raise ValueError(
                f'{path} has the dimensions {letters!r}, which puts the mesh axis {axis!r} on it '
                f'{axes.count(axis)} times: an axis can divide one dimension of an array only.'
            )
    for letter, size, axis in zip(letters, shape, axes, strict=True):
        if axis is not None and size % mesh.shape[axis]:
            raise UserError(
                f'mesh.{axis}={mesh.shape[axis]} does not divide {_FIELDS[letter]}={size} '
                f'({path}): choose a multiple of it, or another mesh.'
            )
    return NamedSharding(mesh, PartitionSpec(*axes))


def state_shardings(tree: Any, mesh: Mesh) -> Any:
    """Return the sharding of each array in a tree of parameters or in a train state.

    Raises:
      ValueError, UserError: see `parameter_sharding`.
    """

    def sharding_for(path: tuple, leaf: Any) -> NamedSharding:
        name = jax.tree_util.keystr(path, simple=True, separator='/')
        return parameter_sharding(name, np.shape(leaf), mesh)

    return jax.tree_util.tree_map_with_path(sharding_for, tree)


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Return the sharding that divides rows among the devices of 'data' and 'fsdp'."""
    return NamedSharding(mesh, PartitionSpec(_ROWS))


def data_shards(mesh: Mesh) -> int:
    """Return into how many parts the rows of a batch are divided."""
    return mesh.shape['data'] * mesh.shape['fsdp']


def padded_rows(rows: int, multiple: int) -> int:
    """Return the number of rows, rounded up to a multiple."""
    return -(-rows // multiple) * multiple


@functools.cache  # called for every batch
def local_rows(mesh: Mesh, rows: int) -> np.ndarray:
    """Return the rows of a batch that the devices of this process hold, ascending.

    Args:
      mesh: from `make_mesh`.
      rows: number of rows of the whole batch, a multiple of `data_shards`.
    """
    indices = batch_sharding(mesh).addressable_devices_indices_map((rows,)).values()
    return np.unique(np.concatenate([np.arange(rows)[index] for index in indices]))


def shard_batch(batch: Mapping[str, np.ndarray], mesh: Mesh, rows: int) -> dict[str, jax.Array]:
    """Put the rows of a batch on the devices.

    Args:
      batch: [local rows, ...] arrays, the `local_rows` of the whole batch.
      mesh: from `make_mesh`.
      rows: number of rows of the whole batch.
    """
    sharding = batch_sharding(mesh)
    return {
        name: jax.make_array_from_process_local_data(sharding, x, (rows, *x.shape[1:]))
        for name, x in batch.items()
    }


def shard_whole_batch(batch: Mapping[str, np.ndarray], mesh: Mesh) -> dict[str, jax.Array]:
    """Put a batch on the devices, of which every process has all rows.

    Rows of zeros, which are padding, are added so that the devices get equal shares.
    """
    rows = padded_rows(len(next(iter(batch.values()))), data_shards(mesh))
    held = local_rows(mesh, rows)

    def fill(array: np.ndarray) -> np.ndarray:
        missing = rows - len(array)
        return np.pad(array, ((0, missing), *[(0, 0)] * (array.ndim - 1)))[held]

    return shard_batch({name: fill(array) for name, array in batch.items()}, mesh, rows)
