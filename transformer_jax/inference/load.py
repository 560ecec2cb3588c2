"""Reads a trained model: config, vocabulary and the mean of its checkpoints."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from transformer_jax.config import Config, ModelConfig, VocabSizes
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError
from transformer_jax.model import parameter_shapes
from transformer_jax.storage.pretrained import another_model, model_folder
from transformer_jax.storage.release import WEIGHTS, check_not_exported, read_release
from transformer_jax.storage.weights import WeightsFile, sha256
from transformer_jax.storage.workdir import SavedRun, Workdir


class TrainedModel(NamedTuple):
    """A model as its work directory holds it.

    Attributes:
      config: config of its run.
      vocabulary: vocabularies of both sides.
      params: the mean of its checkpoints' parameters, nested dicts of NumPy arrays.
      steps: steps of these checkpoints; may be empty for a release folder.
    """

    config: Config
    vocabulary: VocabularyPair
    params: Any
    steps: list[int]


def load_trained(
    workdir: str | os.PathLike[str],
    *,
    checkpoints: int | None = None,
    average: str | None = None,
    steps: Sequence[int] | None = None,
    field: str = 'workdir',
) -> TrainedModel:
    """Read a trained model from its work directory.

    Args:
      workdir: folder of the run, release folder, or name of a model of the package.
      checkpoints: number of checkpoints to average; None takes the config's.
      average: 'latest' or 'best' checkpoints; None takes the config's choice.
      steps: steps of the checkpoints to average; excludes `checkpoints` and `average`.
      field: name of the folder in error messages.

    Raises:
      UserError: if the folder holds no trained model, or a part of it cannot be used.
    """
    folder = model_folder(workdir, field)
    folder.check_path()
    if read_release(folder) is not None:
        chosen = {'checkpoints': checkpoints, 'average': average, 'steps': steps}
        return _load_release(folder, chosen)
    check_not_exported(folder)
    saved = folder.read_run()
    if saved is None or not folder.has_checkpoint_folder():
        raise UserError(
            f'{folder} holds no trained model: '
            f'train one there first (python -m transformer_jax.main), or {another_model()}.'
        )
    config = saved.config
    choice = {'checkpoints': checkpoints, 'average': average, 'steps': steps}
    weights, used = _mean_of_checkpoints(folder, config, **choice)
    found = named_parameters(weights)
    sizes = _vocab_sizes(found)
    _check_shapes(
        {name: (x.shape, str(x.dtype)) for name, x in found.items()},
        named_parameters(_shapes(config.model, sizes)),
        f'{folder} has a config.json that does not fit its checkpoints',
        'restore the config.json of this run.',
    )
    for name, array in found.items():
        if not np.isfinite(array).all():
            raise UserError(
                f'{folder}: {name} has values that are not finite in the mean of checkpoints '
                f'{used}: choose others (--checkpoints, --average), or train a new run '
                'with a lower optimizer.learning_rate_scale.'
            )
    vocabulary = _load_vocabulary(folder, saved)
    if vocabulary.sizes != sizes:
        raise _wrong_vocabulary(folder)
    mean = folder.read_average()
    return TrainedModel(config, vocabulary, weights, used if mean is None else mean['steps'])


def load_ensemble(workdirs: Sequence[str | os.PathLike[str]], **options: Any) -> list[TrainedModel]:
    """Read several trained models of one vocabulary.

    Args:
      workdirs: folder or name of each model.
      **options: as for `load_trained`.

    Raises:
      UserError: if one cannot be read, or if their vocabularies differ.
    """
    models = [load_trained(workdir, **options) for workdir in workdirs]
    for workdir, model in zip(workdirs, models, strict=True):
        if model.vocabulary.digest != models[0].vocabulary.digest:
            raise UserError(
                f'workdir={str(workdir)!r} has another vocabulary than {str(workdirs[0])!r}: an '
                'ensemble needs models of one vocabulary (data.vocabulary).'
            )
    return models


def named_parameters(params: Any) -> dict[str, Any]:
    """Return the leaves of nested dicts of parameters by their paths, for example 'a/b/c'."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {_name(path): x for path, x in leaves}


def _mean_of_checkpoints(
    folder: Workdir,
    config: Config,
    checkpoints: int | None,
    average: str | None,
    steps: Sequence[int] | None,
) -> tuple[Any, list[int]]:
    """Return the mean of the checkpoints of a run, and their steps; see `load_trained`."""
    # Orbax takes a second to import, and a release needs none.
    from transformer_jax.checkpointing import averaging
    from transformer_jax.checkpointing.average_choice import CheckpointChoice
    from transformer_jax.checkpointing.manager import Checkpoints

    choice = CheckpointChoice(checkpoints, average, steps)
    manager = Checkpoints(folder.checkpoints, every=config.train.checkpoint_every, read_only=True)
    try:
        there = manager.steps()
        candidates = choice.candidates(manager, config.decode)
        try:
            weights, used = averaging.average(
                manager,
                candidates,
                choice.limit(config.decode),
                largest_gap=choice.largest_gap(config.decode, manager.every),
            )
        except FileNotFoundError as error:
            raise UserError(
                f'{folder} holds no readable checkpoint: {_remedy(candidates, there)}'
            ) from error
        choice.warn_of_fewer(used, config.train)
    finally:
        manager.close()
    return weights, used


def _load_release(folder: Workdir, chosen: Mapping[str, Any]) -> TrainedModel:
    """Read a model from a release folder; see `load_trained`."""
    for name, value in chosen.items():
        if value is not None:
            raise UserError(
                f'{name}={value!r} chooses among the checkpoints of a run, but {folder} is a '
                'release folder, which has one set of weights: leave it out.'
            )
    release, saved = read_release(folder), folder.read_run()
    vocabulary = _load_vocabulary(folder, saved)
    shapes = _shapes(saved.config.model, vocabulary.sizes)
    remedy = 'get the folder again.'
    try:
        file = WeightsFile(folder.path / WEIGHTS)
        # Arrays of bfloat16 are read as float32. Nothing is read before all sizes are checked.
        of_file = {
            name: dtype.replace('bfloat16', 'float32') for name, dtype in file.dtypes.items()
        }
        _check_shapes(
            {name: (shape, of_file[name]) for name, shape in file.shapes.items()},
            named_parameters(shapes),
            f'{folder} has a {WEIGHTS} that does not fit its config.json and vocabulary',
            remedy,
        )
        params = jax.tree_util.tree_map_with_path(lambda path, _: file.read(_name(path)), shapes)
        if release.weights_sha256 not in ('', sha256(folder.path / WEIGHTS)):
            raise ValueError('its SHA-256 is not the one in config.json')
    except UserError:
        raise
    except OSError as error:
        raise UserError(
            f'{folder} is a release folder without a readable {WEIGHTS} ({error.strerror}): '
            f'{remedy}'
        ) from error
    except ValueError as error:
        raise UserError(f'{folder} has a damaged {WEIGHTS} ({error}): {remedy}') from error
    for name, array in named_parameters(params).items():
        if not np.isfinite(array).all():
            raise UserError(
                f'{folder}: {name} in {WEIGHTS} has values that are not finite: {remedy}'
            )
    if vocabulary.sizes != _vocab_sizes(params):
        raise _wrong_vocabulary(folder)
    return TrainedModel(saved.config, vocabulary, params, release.steps)


def _shapes(config: ModelConfig, sizes: VocabSizes) -> Any:
    """Return the model's parameters; if all embeddings are one, the target side's size counts."""
    return parameter_shapes(config, sizes.target if config.tied_embeddings == 'all' else sizes)


def _vocab_sizes(weights: Mapping[str, Any]) -> VocabSizes:
    """Return the number of rows of each side's embedding; 1 if there is none."""
    target = weights.get('embedding')
    source = weights.get('source_embedding', target)
    return VocabSizes(*(len(x) if np.ndim(x) else 1 for x in (target, source)))


def _load_vocabulary(folder: Workdir, saved: SavedRun) -> VocabularyPair:
    vocabulary = VocabularyPair.load(folder.path)
    if saved.vocabulary_digest not in (None, vocabulary.digest):
        raise _wrong_vocabulary(folder)
    return vocabulary


def _wrong_vocabulary(folder: Workdir) -> UserError:
    return UserError(
        f'{str(folder.vocabulary)!r} is not the vocabulary with which the model was trained: '
        'restore the vocabulary of this run.'
    )


def _name(path: tuple[Any, ...]) -> str:
    """Return the name of a parameter at a path of nested dicts, for example 'a/b/c'."""
    return jax.tree_util.keystr(path, simple=True, separator='/')


def _check_shapes(
    found: Mapping[str, tuple[tuple[int, ...], str]],
    wanted: Mapping[str, jax.ShapeDtypeStruct],
    problem: str,
    remedy: str,
) -> None:
    """Raise a UserError unless arrays have the wanted names, shapes and dtypes.

    Args:
      found: shape and dtype by name.
      wanted: what the config's model has.
      problem: beginning of the message.
      remedy: end of the message.
    """
    for name, like in wanted.items():
        should = f'{like.dtype} {list(like.shape)}'
        if name not in found:
            raise UserError(f'{problem}: {name} is missing and should be {should}; {remedy}')
        shape, dtype = found[name]
        if (shape, dtype) != (like.shape, str(like.dtype)):
            raise UserError(
                f'{problem}: {name} is {dtype} {list(shape)} and should be {should}; {remedy}'
            )
    for name in found:
        if name not in wanted:
            raise UserError(f'{problem}: there is {name!r:.100} as well; {remedy}')


def _remedy(tried: Sequence[int], there: Sequence[int]) -> str:
    """Return what to do if none of the steps `tried`, out of the steps `there`, can be read."""
    if not there:
        return 'let its training reach train.checkpoint_every steps, or resume it.'
    others = [str(step) for step in there if step not in tried]
    if not others:
        return 'all are damaged. Restore them, or name another folder.'
    return (
        f'those of steps {", ".join(map(str, tried))} are damaged. Restore them, or average '
        f'others: python -m transformer_jax.average --steps={",".join(others)}.'
    )
