"""The release folder: a trained model to keep for years and to hand out.

config.json         the number of this format, the config, and what the model card says
vocabulary.model    the SentencePiece model; if each side has its own, the files of `VocabularyPair`
model.safetensors   the weights, in float32 or bfloat16; a name is a parameter's path: 'a/b/c'
README.md           the model card
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformer_jax._version import __version__
from transformer_jax.errors import UserError, first_line, shown
from transformer_jax.storage.files import atomic_write, check_shape, finite, read_json
from transformer_jax.storage.workdir import SavedRun, Workdir

# Raise it if versions before could not read a new folder, and keep reading the older formats.
FORMAT = 1
WEIGHTS = 'model.safetensors'
# What `convert` has compared; a folder that other programs load has it, too.
REPORT = 'conversion.json'
_TEST = {
    'sentences': int,
    **dict.fromkeys(('bleu', 'chrf'), float),
    **dict.fromkeys(('bleu_signature', 'chrf_signature'), str),
}
_RELEASE = {
    'format': int,
    'steps': [int],
    'license': str,
    'data_note': str,
    'test': (None, _TEST),
    'weights_sha256': str,
}


@dataclasses.dataclass(frozen=True)
class Release:
    """What config.json of a release folder holds besides the content of `SavedRun`.

    Attributes:
      steps: steps of the checkpoints that the weights are the mean of; empty for a model that was
        imported.
      license: SPDX name of the licence; '' if none is stated.
      data_note: text about the training data; '' for none.
      test: scores on the test set, as in results.json, or None.
      weights_sha256: of model.safetensors; '' in a folder from before it was recorded.
    """

    steps: list[int]
    license: str = ''
    data_note: str = ''
    test: Mapping[str, Any] | None = None
    weights_sha256: str = ''


def read_release(folder: Workdir) -> Release | None:
    """Return what a release folder's config.json holds, or None if it is no release folder.

    Raises:
      UserError: if a later version or another program has written the folder, or the file has
        another shape.
    """
    try:
        saved = read_json(folder.path / 'config.json', {})
    except (OSError, ValueError):
        return None  # `Workdir.read_run` reports it
    if 'model_type' in saved:
        raise UserError(
            f"{folder} holds a model of Hugging Face's transformers: import it into a new "
            f'folder first (python -m transformer_jax.convert --from={str(folder.path)!r} '
            '--workdir=NEW_FOLDER).'
        )
    if 'format' not in saved:
        return None
    if type(saved['format']) is int and saved['format'] > FORMAT:
        raise UserError(
            f'{folder} is a release folder of format {saved["format"]}, and this version of '
            f'transformer_jax ({__version__}) reads format {FORMAT} at most: install a later one.'
        )
    try:
        check_shape({'weights_sha256': '', **saved}, _RELEASE)
    except ValueError as error:
        raise UserError(
            f'{folder} is a release folder with a config.json that cannot be read '
            f'({first_line(error)}): get the folder again.'
        ) from error
    fields = (field.name for field in dataclasses.fields(Release))
    return Release(**{name: saved[name] for name in fields if name in saved})


def check_not_exported(folder: Workdir) -> None:
    """Raise UserError if a folder is an export that other programs load."""
    try:
        kind = read_json(folder.path / REPORT, {}).get('kind', 'release')
    except (OSError, ValueError):
        return
    if kind != 'release':
        raise UserError(
            f'{folder} is an export of the kind {shown(kind)}, which other programs load: name the '
            'run or the release that it was made of.'
        )


def write_config(folder: Path, run: SavedRun, release: Release) -> None:
    """Write config.json of a release folder."""
    content = {
        'format': FORMAT,
        'written_by': f'transformer_jax {__version__}',
        **dataclasses.asdict(run),
        **dataclasses.asdict(release),
    }
    with atomic_write(folder / 'config.json') as file:
        file.write(json.dumps(finite(content), indent=2, ensure_ascii=False) + '\n')
