"""Arrays in the files of torch.save, which torch reads without running their code."""

from pathlib import Path
from typing import Any

import numpy as np

from transformer_jax.errors import UserError, first_line, shown


class TorchFile:
    """A file of tensors, such as pytorch_model.bin.

    Attributes:
      shapes: shape of each tensor, by name.
    """

    def __init__(self, path: Path):
        """Open a file.

        Raises:
          UserError: if torch is not installed, or cannot read the file as tensors alone.
        """
        try:
            import torch
        except ModuleNotFoundError as error:
            raise UserError(
                f'{str(path)!r} is a pickle, which only torch reads without running its code: '
                'install torch, or get the model.safetensors of this model.'
            ) from error

        def load(**options):
            return torch.load(path, map_location='cpu', weights_only=True, **options)

        try:
            try:
                self._tensors = load(mmap=True)
            except RuntimeError:  # files from before torch 1.6 cannot be mapped
                self._tensors = load()
            for name, x in self._tensors.items():
                _check(name, x, torch)
            self.shapes = {name: tuple(x.shape) for name, x in self._tensors.items()}
        except Exception as error:
            raise UserError(
                f'{str(path)!r} cannot be read as tensors ({first_line(error)}): get the model '
                'again.'
            ) from error

    def read(self, name: str) -> np.ndarray:
        """Return a tensor in float32; raise ValueError if it has no real numbers."""
        if not self._tensors[name].is_floating_point():
            raise ValueError(f'it is of {self._tensors[name].dtype}')
        return self._tensors[name].float().numpy()


def _check(name: Any, x: Any, torch: Any) -> None:
    """Raise ValueError unless a value is a tensor whose numbers are all in the file."""
    if not (isinstance(name, str) and isinstance(x, torch.Tensor)):
        raise ValueError(f'{shown(name)} is no tensor')
    if x.layout != torch.strided or x.device.type != 'cpu' or x.is_quantized:
        raise ValueError(f'{name} is no plain tensor')
    # A tensor may repeat one number of the file without end.
    if x.numel() * x.element_size() > x.untyped_storage().nbytes():
        raise ValueError(f'{name} is of shape {list(x.shape)}, which does not fit its size')
