"""Checksums of arrays, which Orbax does not keep."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from transformer_jax.runtime.program_cache import cached_jit


class Mismatch(ValueError):
    """A checkpoint that is not what was saved. Every process finds the same mismatch."""


def checksums(tree: Any) -> dict[str, int]:
    """Return a checksum of each array's bits, by the array's path in the tree.

    The checksum is the same on any mesh and for NumPy arrays, because it is linear: each device
    sums the part that it holds. A change of a single word always changes it.
    """
    paths, leaves = zip(*jax.tree_util.tree_leaves_with_path(tree), strict=True)
    if all(isinstance(leaf, np.ndarray) for leaf in leaves):
        sums = [_checksum(leaf, np) for leaf in leaves]
    else:
        sums = jax.device_get(_checksums_on_devices(leaves))
    names = [jax.tree_util.keystr(path, simple=True, separator='/') for path in paths]
    return dict(zip(names, map(int, sums), strict=True))


def check(tree: Any, expected: dict[str, int], item: str) -> None:
    """Raise Mismatch if an array of the tree does not have its expected checksum."""
    for name, found in checksums(tree).items():
        if found != expected[name]:
            raise Mismatch(f'its {item}/{name} does not match its checksum')


def _checksum(x: Any, np_or_jnp: Any) -> Any:
    """Return the sum modulo 2^32 of all 32-bit words, each times an odd hash of its index."""
    words = x.view(np.uint32).reshape(x.shape)
    index = np_or_jnp.zeros(x.shape, np.uint32)
    for axis, size in enumerate(x.shape):
        along = np_or_jnp.arange(size, dtype=np.uint32) * np.uint32(
            math.prod(x.shape[axis + 1 :]) % 2**32
        )
        index = index + along.reshape([-1 if k == axis else 1 for k in range(x.ndim)])
    weights = (index * np.uint32(0x9E3779B1)) | np.uint32(1)
    return (words * weights).sum(dtype=np.uint32)


# One program: many small ones at the same time can deadlock the threads of CPU devices.
@cached_jit(static_argnames=())
def _checksums_on_devices(leaves: tuple[jax.Array, ...]) -> list[jax.Array]:
    return [_checksum(leaf, jnp) for leaf in leaves]
