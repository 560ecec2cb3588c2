"""Writes a release folder: the model without its run, to keep and to hand out."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np

from transformer_jax.config import Config, DataConfig
from transformer_jax.conversion.card import model_card
from transformer_jax.conversion.original import Original
from transformer_jax.conversion.parity.report import write_report
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.inference.load import load_trained, named_parameters
from transformer_jax.storage.files import atomic_write
from transformer_jax.storage.release import WEIGHTS, Release, write_config
from transformer_jax.storage.weights import sha256, write_weights
from transformer_jax.storage.workdir import SavedRun

# Fields of `data` that say where things are on the machine of the run.
_PLACES = tuple(
    field.name
    for field in dataclasses.fields(DataConfig)
    if field.type is str and field.name.endswith(('_dir', 'vocabulary'))
)
_FILES = tuple(
    f'{split}_{side}' for split in ('train', 'dev', 'test') for side in ('source', 'target')
)


def export(original: Original, folder: Path, *, dtype: str = 'float32') -> str:
    """Write a model as a release folder, and read it again.

    Args:
      original: the model.
      folder: an empty folder.
      dtype: of the weights: 'float32' or 'bfloat16'.

    Returns:
      What was found, for people.
    """
    write_release(
        folder,
        config=original.config,
        vocabulary=original.vocabulary,
        params=original.params,
        dtype=dtype,
        release=original.release,
        name=original.name,
        data_fingerprint=original.run.data_fingerprint,
        split_fingerprints=original.run.split_fingerprints,
    )
    largest = _largest_difference(folder, original.params)
    write_report(
        folder,
        'release',
        dtype=dtype,
        compared='the weights, read again',
        largest_relative_difference=largest,
    )
    if not largest:
        return 'read again: the weights are the same'
    return f'read again: rounding changed no weight by more than {largest:.2g} of its value'


def write_release(
    folder: Path,
    *,
    config: Config,
    vocabulary: VocabularyPair,
    params: Any,
    name: str,
    release: Release,
    dtype: str = 'float32',
    data_fingerprint: str = '',
    split_fingerprints: dict[str, str] | None = None,
    origin: str = '',
) -> None:
    """Write the files of a release folder. `NewFolder` makes the folder, which is then whole.

    Args:
      folder: an empty folder.
      config: config of the model's run. What it says about the machine of the run is left out.
      vocabulary: vocabularies of both sides.
      params: the parameters, nested dicts of float32 arrays.
      name: name of the model, for its card.
      release: what config.json and the card say about the model.
      dtype: of the weights: 'float32' or 'bfloat16'.
      data_fingerprint: as in `SavedRun`.
      split_fingerprints: as in `SavedRun`.
      origin: as for `model_card`.
    """
    is_public = config.data.corpus != 'files' and not _is_path(config.data.dataset)
    run = SavedRun(
        without_paths(config),
        data_fingerprint,
        # Whoever gets the folder cannot load other corpora, whose sets have no use then.
        dict(split_fingerprints or {}) if is_public else {},
        vocabulary.digest,
    )
    weights = named_parameters(params)
    vocabulary.save(folder)
    write_weights(folder / WEIGHTS, weights, dtype)
    release = dataclasses.replace(release, weights_sha256=sha256(folder / WEIGHTS))
    pieces = f'{vocabulary.sizes} pieces' + (', shared' if vocabulary.shared else '')
    count = sum(np.size(x) for x in weights.values())
    with atomic_write(folder / 'README.md') as file:
        file.write(model_card(name, run.config, count, pieces, release, origin=origin))
    write_config(folder, run, release)


def without_paths(config: Config) -> Config:
    """Return a config that names no folder of the machine of its run.

    Names of files stay. The weights are one set, of which no checkpoints are to be chosen.
    """
    data = dict.fromkeys(_PLACES, '')
    data |= {name: os.path.basename(getattr(config.data, name)) for name in _FILES}
    if _is_path(config.data.dataset):
        data['dataset'] = os.path.basename(os.path.normpath(config.data.dataset))
    return dataclasses.replace(
        config,
        data=dataclasses.replace(config.data, **data),
        train=dataclasses.replace(config.train, init_from=''),
        decode=dataclasses.replace(config.decode, average_checkpoints=1, average='latest'),
    )


def _largest_difference(folder: Path, params: Any) -> float:
    """Read a release folder; return the largest difference of a weight, relative to its value."""
    largest = 0.0
    read = named_parameters(load_trained(folder).params)
    for name, wanted in named_parameters(params).items():
        scale = np.maximum(np.abs(wanted), np.finfo(np.float32).tiny)
        largest = max(largest, float(np.max(np.abs(read[name] - wanted) / scale, initial=0)))
    assert largest <= 2**-8, largest
    return largest


def _is_path(dataset: str) -> bool:
    return dataset.startswith(('/', '.', '~')) or os.path.exists(dataset)
