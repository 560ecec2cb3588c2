"""Arrays in the files of torch.save, which torch reads without running their code."""

from pathlib import Path

import numpy as np

from transformer_jax.errors import UserError, first_line


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
            self.shapes = {name: tuple(x.shape) for name, x in self._tensors.items()}
        except Exception as error:
            raise UserError(
                f'{str(path)!r} cannot be read as tensors ({first_line(error)}): get the model '
                'again.'
            ) from error

    def read(self, name: str) -> np.ndarray:
        """Return a tensor in float32."""
        return self._tensors[name].float().numpy()
