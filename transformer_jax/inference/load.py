"""Reads a trained model: config, vocabulary and the mean of its checkpoints."""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from transformer_jax.config import Config, VocabSizes
from transformer_jax.data.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError
from transformer_jax.model import parameter_shapes
from transformer_jax.storage.workdir import Workdir


class TrainedModel(NamedTuple):
    """A model as its work directory holds it.

    Attributes:
      config: config of its run.
      vocabulary: vocabularies of both sides.
      params: the mean of its checkpoints' parameters, nested dicts of NumPy arrays.
      steps: steps of these checkpoints.
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
      workdir: folder of the run.
      checkpoints: number of checkpoints to average; None takes the config's.
      average: 'latest' or 'best' checkpoints; None takes the config's choice.
      steps: steps of the checkpoints to average; excludes `checkpoints` and `average`.
      field: name of the folder in error messages.

    Raises:
      UserError: if the folder holds no trained model, or a part of it cannot be used.
    """
    # Importing orbax takes seconds.
    from transformer_jax.checkpointing import averaging
    from transformer_jax.checkpointing.average_choice import CheckpointChoice
    from transformer_jax.checkpointing.manager import Checkpoints

    folder = Workdir(workdir, field)
    folder.check_path()
    saved = folder.read_run()
    if saved is None or not (folder.has_checkpoints() or os.path.isdir(folder.checkpoints)):
        raise UserError(
            f'{folder} holds no trained model: '
            'train one there first (python -m transformer_jax.main), or name another folder.'
        )
    config = saved.config
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
    _check_weights(folder, config, weights, used)
    vocabulary = VocabularyPair.load(folder.path)
    trained_with = saved.vocabulary_digest or vocabulary.digest
    if vocabulary.digest != trained_with or vocabulary.sizes != _vocab_sizes(weights):
        raise UserError(
            f'{str(folder.vocabulary)!r} is not the vocabulary with which the model was trained: '
            'restore the vocabulary of this run.'
        )
    mean = folder.read_average()
    return TrainedModel(config, vocabulary, weights, used if mean is None else mean['steps'])


def load_ensemble(workdirs: Sequence[str | os.PathLike[str]], **options: Any) -> list[TrainedModel]:
    """Read several trained models of one vocabulary.

    Args:
      workdirs: folder of each run.
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


def _check_weights(folder: Workdir, config: Config, weights: Any, steps: list[int]) -> None:
    """Raise a UserError if the weights do not fit the config's model or are not finite."""

    def by_name(tree: Any) -> dict[str, Any]:
        leaves = jax.tree_util.tree_leaves_with_path(tree)
        return {jax.tree_util.keystr(k, simple=True, separator='/'): x for k, x in leaves}

    found = by_name(weights)
    # `load_trained` compares the numbers of embeddings with the vocabularies.
    sizes = _vocab_sizes(found)
    if config.model.tied_embeddings == 'all':
        sizes = sizes.target
    for name, wanted in by_name(parameter_shapes(config.model, sizes)).items():
        there = found.pop(name, None)
        is_there = 'is missing' if there is None else f'is {there.dtype} {list(there.shape)}'
        if there is None or (there.shape, there.dtype) != (wanted.shape, wanted.dtype):
            raise UserError(
                f'{folder} has a config.json that does not fit its checkpoints: {name} {is_there} '
                f'and should be {wanted.dtype} {list(wanted.shape)}; restore the config.json of '
                'this run.'
            )
        if not np.isfinite(there).all():
            raise UserError(
                f'{folder}: {name} has values that are not finite in the mean of checkpoints '
                f'{steps}: choose others (--checkpoints, --average), or train a new run '
                'with a lower optimizer.learning_rate_scale.'
            )
    if found:
        raise UserError(
            f'{folder} has a config.json that does not fit its checkpoints, which have '
            f'{next(iter(found))} as well: restore the config.json of this run.'
        )


def _vocab_sizes(weights: dict[str, Any]) -> VocabSizes:
    """Return the number of rows of each side's embedding; 1 if there is none."""
    target = weights.get('embedding')
    source = weights.get('source_embedding', target)
    return VocabSizes(*(len(x) if np.ndim(x) else 1 for x in (target, source)))


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
