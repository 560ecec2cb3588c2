"""Trained models that come with the package: each is a release folder `pretrained/NAME`."""

import functools
import logging
import os
from pathlib import Path

from transformer_jax.storage.bucket_workdir import open_workdir
from transformer_jax.storage.workdir import Workdir

_FOLDER = Path(__file__).parents[1] / 'pretrained'
_logger = logging.getLogger('transformer_jax')


def pretrained_models() -> dict[str, Path]:
    """Return the folders of the models that come with the package, by name."""
    return {path.parent.name: path.parent for path in sorted(_FOLDER.glob('*/config.json'))}


def model_folder(workdir: str | os.PathLike[str], field: str = 'workdir') -> Workdir:
    """Return the folder of a trained model, which may be the name of one of the package.

    A folder of that name in the current directory is taken instead, with a logged line.

    Args:
      workdir: folder, or name.
      field: name of the folder in messages.

    Raises:
      UserError: if the path is not valid.
    """
    folder = open_workdir(workdir, field)
    packaged = pretrained_models().get(os.fspath(workdir))
    if packaged is None:
        return folder
    if os.path.isdir(folder.path):
        _say_folder_wins(str(folder.path.absolute()), folder.path.name)
        return folder
    return Workdir(packaged, field)


def another_model() -> str:
    """Return the end of a sentence: what else may be named as the folder of a model."""
    names = ', '.join(pretrained_models())
    return 'name another folder' + (f', or a model of the package ({names})' if names else '')


@functools.cache  # once for each folder
def _say_folder_wins(folder: str, name: str) -> None:
    _logger.info('%s is taken, not the model %s of the package.', folder, name)
