"""Fetches models by their names from the Hugging Face hub, or from its cache on this machine."""

import re
from pathlib import Path

from transformer_jax.errors import UserError, first_line, user_path

_SMALL = ('*.json', '*.spm', 'README.md')
_ARRAYS = ('model.safetensors', 'pytorch_model.bin')


def model_path(given: str, field: str) -> Path:
    """Return the path of a model: a path that exists, or the folder of a name on the hub.

    Args:
      given: a path, or a name such as 'Helsinki-NLP/opus-mt-en-fr'.
      field: the flag's name for messages.

    Raises:
      UserError: if there is no such path and no such model, or it cannot be fetched.
    """
    path = user_path(given, field)
    if path.exists():
        return path
    if not re.fullmatch(r'[\w.-]+/[\w.-]+', given) or given[0] == '.':
        raise UserError(f'{field}={given!r} does not exist: name a folder, or a model on the hub.')
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        raise UserError(
            f'{field}={given!r} is no folder, and fetching a model of this name needs '
            'huggingface_hub: pip install huggingface_hub, or name a folder.'
        ) from error
    try:
        for arrays in _ARRAYS:
            folder = huggingface_hub.snapshot_download(given, allow_patterns=[*_SMALL, arrays])
            if Path(folder, arrays).exists():
                break
    except Exception as error:  # libraries raise many kinds
        raise UserError(
            f'{field}={given!r} is no folder and cannot be fetched from the Hugging Face hub '
            f'({first_line(error)}): check the name and the network, or name a folder.'
        ) from error
    return Path(folder)
