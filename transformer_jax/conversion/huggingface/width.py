"""Permutes the width of a model, D, in all of its parameters."""

from typing import Any

import numpy as np

# The axis of D in each array, by the end of its path.
_AXES = {
    ('embedding',): 1,
    ('source_embedding',): 1,
    ('output_embedding',): 1,
    ('positions', 'table'): 1,
    ('inner', 'kernel'): 0,
    ('outer', 'kernel'): 1,
    ('outer', 'bias'): 0,
    ('norm', 'scale'): 0,
    ('norm', 'bias'): 0,
    ('query',): 0,
    ('key',): 0,
    ('value',): 0,
    ('output',): 2,
}
# Arrays without an axis of D.
_NARROW = {('inner', 'bias'), ('query_bias',), ('key_bias',), ('value_bias',)}


def halves_order(width: int) -> np.ndarray:
    """Return the order [D] that turns 'sinusoidal' positions into 'sinusoidal_halves'.

    `x[..., halves_order(D)]` has the even columns of `x`, which are sines, and then the odd ones.
    """
    return np.concatenate([np.arange(0, width, 2), np.arange(1, width, 2)])


def permute_width(params: Any, order: np.ndarray) -> Any:
    """Return the parameters of a model whose activations have their D columns in another order.

    The model computes the same, to rounding, if its positions are in that order, too.

    Args:
      params: the model's parameters, nested dicts of NumPy arrays.
      order: [D], the index of the old column for each new column.

    Raises:
      ValueError: if the model has a parameter that is not known here.
    """

    def permute(path: tuple[str, ...], value: Any) -> Any:
        if isinstance(value, dict):
            return {name: permute((*path, name), x) for name, x in value.items()}
        axis = _axis(path)
        return value if axis is None else np.take(value, order, axis)

    return permute((), params)


def _axis(path: tuple[str, ...]) -> int | None:
    # The output bias of the model is [V], that of attention [D].
    if path[-1] == 'output_bias':
        return None if len(path) == 1 else 0
    for end in (path[-2:], path[-1:]):
        if end in _AXES:
            return _AXES[end]
        if end in _NARROW:
            return None
    raise ValueError(f'{"/".join(path)} is a parameter whose axes are not known.')
