"""The matrices of layers as PyTorch and CTranslate2 hold them: [outputs, inputs]."""

from typing import Any, NamedTuple

import numpy as np


class Linear(NamedTuple):
    """A linear layer.

    Attributes:
      weight: [outputs, inputs].
      bias: [outputs], or None.
    """

    weight: np.ndarray
    bias: np.ndarray | None


def matrix(name: str, kernel: np.ndarray) -> np.ndarray:
    """Return a kernel as a matrix [outputs, inputs], with the heads of attention side by side.

    Args:
      name: of the parameter: 'kernel', or for attention 'query', 'key', 'value' or 'output'.
      kernel: [inputs, outputs], [D, N, H] or, for 'output', [N, H, D].
    """
    shape = (-1, kernel.shape[-1]) if name == 'output' else (len(kernel), -1)
    return np.ascontiguousarray(kernel.reshape(shape).T)


def attention_linear(attention: Any, name: str) -> Linear:
    """Return a projection of attention, with the heads side by side.

    Args:
      attention: parameters of a `MultiHeadAttention`.
      name: 'query', 'key', 'value' or 'output'.
    """
    bias = attention.get(f'{name}_bias')
    return Linear(matrix(name, attention[name]), None if bias is None else bias.reshape(-1))


def dense_linear(dense: Any) -> Linear:
    """Return a linear layer from the parameters of a `Dense`."""
    return Linear(matrix('kernel', dense['kernel']), dense['bias'])


def concatenated(*layers: Linear) -> Linear:
    """Return one linear layer with the outputs of all `layers`, which have the same input."""
    biases = [layer.bias for layer in layers]
    weight = np.concatenate([layer.weight for layer in layers])
    return Linear(weight, None if biases[0] is None else np.concatenate(biases))
