"""One training run from start to finish: `train(config, workdir)`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformer_jax.training.trainer import train as train

__all__ = ['train']


def __getattr__(name: str):
    """Import `train` when it is first used: the import takes seconds."""
    if name == 'train':
        from transformer_jax.training.trainer import train

        return train
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
