"""Decides whether a run may start in its folder, and what it takes over from there."""

import dataclasses
import logging
import os
from typing import Any

from transformer_jax.config import Config, DataConfig
from transformer_jax.data.prepare import Data
from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError
from transformer_jax.storage.buckets import exists
from transformer_jax.storage.pretrained import another_model, model_folder
from transformer_jax.storage.release import read_release
from transformer_jax.storage.workdir import SavedRun, Workdir
from transformer_jax.training.logs.metrics_writer import read_metrics

_logger = logging.getLogger('transformer_jax')


def load_saved_run(folder: Workdir, config: Config) -> SavedRun | None:
    """Return what the folder says about its run; None if there is no run yet.

    Raises:
      UserError: if it is not the run of `config`.
    """
    if read_release(folder) is not None:
        raise UserError(
            f'{folder} is a release folder, whose weights stay as they are: '
            'choose another --workdir, which may start from these weights (train.init_from).'
        )
    average = folder.read_average()
    if average is not None:
        raise UserError(
            f'{folder} holds averaged weights, which cannot be trained: '
            f'resume the run in {average["workdir"]!r}, or choose another --workdir, which may '
            'start from these weights (train.init_from).'
        )
    saved = folder.read_run()
    if saved is None and folder.has_checkpoints():
        raise UserError(
            f'{folder} holds checkpoints but no config.json, which says whose '
            'they are: restore the file, or choose another --workdir.'
        )
    if saved is not None and folder.has_checkpoints():
        origin = config.train.init_from
        if origin and not saved.config.train.init_from:
            raise UserError(
                f'train.init_from={origin!r} comes too late for the run in {folder}, which has '
                'started without it: choose another --workdir, or leave it out.'
            )
        if origin and origin != saved.config.train.init_from:
            _logger.warning(
                'train.init_from=%r is ignored: the run in %s has started from %r.',
                origin,
                folder,
                saved.config.train.init_from,
            )
        config = with_origin(config, saved)
    differences = [] if saved is None else config.differences(saved.config)
    if differences:
        raise UserError(
            f'{folder} belongs to a run of another config '
            f'(now against then: {"; ".join(differences)}): '
            'choose another --workdir, or restore these fields.'
        )
    return saved


def with_origin(config: Config, saved: SavedRun) -> Config:
    """Return the config of a resumed run with the train.init_from that the run started with.

    That folder may have moved since then, or be gone.
    """
    train = dataclasses.replace(config.train, init_from=saved.config.train.init_from)
    return dataclasses.replace(config, train=train)


def with_steps(config: Config, steps: int) -> Config:
    """Return the config with another train.steps, which train.epochs has determined."""
    return dataclasses.replace(config, train=dataclasses.replace(config.train, steps=steps))


def completion_key(config: Config) -> dict[str, Any]:
    """Return the settings that decide when a run is finished, as results.json stores them.

    Results with other values are not those of this run.
    """
    return {
        'steps': config.train.steps,
        'patience': config.train.patience,
        'decode': dataclasses.asdict(config.decode),
    }


def finished_results(folder: Workdir, config: Config, saved: SavedRun) -> dict[str, Any] | None:
    """Return the results of the run if it is finished, otherwise None."""
    results = folder.read_results()
    if config.train.epochs:
        if config.train.epochs != saved.config.train.epochs:
            return None
        config = with_steps(config, saved.config.train.steps)
    if (
        results is None
        or results['finished'] != completion_key(config)
        or _corpus_settings(config) != _corpus_settings(saved.config)
    ):
        return None
    _logger.info('This run is finished: %s holds its results.', folder.place)
    return results


def _corpus_settings(config: Config) -> DataConfig:
    """Return the settings that name the corpus.

    If they differ, only the fingerprints of the contents tell whether the corpus is another.
    """
    return dataclasses.replace(config.data, cache_dir='', data_dir='', manual_dir='')


def check_checkpoints_remain(folder: Workdir, config: Config, saved: SavedRun | None) -> None:
    """Raise UserError if the run had checkpoints before but none is left."""
    if folder.has_checkpoints():
        return
    # The longer interval: a run without a checkpoint may be given a shorter one.
    before = config if saved is None else saved.config
    every = max(config.train.checkpoint_every, before.train.checkpoint_every)
    try:
        last = max((r['step'] for r in read_metrics(folder.metrics)), default=0)
    except OSError as error:
        raise UserError(
            f'{folder} has a metrics.jsonl that cannot be read '
            f'({error.strerror}): restore access to it, or choose another --workdir.'
        ) from error
    # The first checkpoint may still have been in writing until the second one was due.
    if last > 2 * every:
        raise UserError(
            f'{folder} has metrics of {last} steps but no checkpoint '
            'any more: restore its checkpoints, or choose another --workdir to start again.'
        )


def required_vocabulary(
    folder: Workdir, config: Config, saved: SavedRun | None
) -> VocabularyPair | None:
    """Return the vocabularies that the run has to use; None if the data decide.

    Raises:
      UserError: if the folder, the config and train.init_from contradict each other.
    """
    if saved is not None and os.path.exists(folder.vocabulary):
        return _own_vocabulary(folder, config, saved)
    return inherited_vocabulary(config)


def _own_vocabulary(folder: Workdir, config: Config, saved: SavedRun) -> VocabularyPair:
    vocabulary = VocabularyPair.load(folder.path)
    if saved.vocabulary_digest not in (None, vocabulary.digest):
        raise UserError(
            f'{str(folder.vocabulary)!r} is not the vocabulary that the run was trained with: '
            'restore that one, or choose another --workdir.'
        )
    for name, own in (
        ('vocabulary', vocabulary.target),
        ('source_vocabulary', vocabulary.source),
        ('target_vocabulary', vocabulary.target),
    ):
        field, named = f'data.{name}', getattr(config.data, name)
        # If the named file is gone, the copy in the folder is enough.
        if named and exists(named, field) and Vocabulary.load(named, field).digest != own.digest:
            raise UserError(
                f'{field}={named!r} is not the vocabulary that the run in '
                f'{folder} has: name that one, or choose another --workdir.'
            )
    return vocabulary


def inherited_vocabulary(config: Config) -> VocabularyPair | None:
    """Return the vocabularies of train.init_from, whose weights have to fit the config."""
    origin = config.train.init_from
    if not origin:
        return None
    folder = model_folder(origin, 'train.init_from')
    is_release = read_release(folder) is not None
    saved = folder.read_run()
    if saved is None or not (is_release or folder.has_checkpoints()):
        raise UserError(f'train.init_from={origin!r} holds no trained model: {another_model()}.')
    differences = config.model_differences(saved.config)
    if differences:
        raise UserError(
            f'train.init_from={origin!r} holds the weights of another model '
            f'(now against there: {"; ".join(differences)}): '
            'give these fields the values they have there, or start from another folder.'
        )
    vocabulary = VocabularyPair.load(folder.path, field='vocabulary of train.init_from')
    if {*vocabulary.sizes} != {config.data.vocab_size}:
        _logger.info(
            'The vocabulary is that of train.init_from: %s pieces, not data.vocab_size=%s.',
            vocabulary.sizes,
            f'{config.data.vocab_size:,}',
        )
    return vocabulary


def check_same_data(folder: Workdir, saved: SavedRun | None, data: Data) -> None:
    """Raise UserError if the data or the vocabulary are not those that the run was trained on."""
    if saved is None:
        return
    if saved.vocabulary_digest not in (None, data.vocabulary.digest):
        raise UserError(
            f'{str(folder.vocabulary)!r} is missing, and training it again would give a different '
            'vocabulary: restore the file, or choose another --workdir.'
        )
    if data.older_fingerprint == saved.data_fingerprint != data.fingerprint:
        raise UserError(
            f'{folder} was begun with an older order of batches, which was '
            f'another for {data.plan.pairs:,} training pairs: finish the run with the version of '
            'transformer_jax that began it, or choose another --workdir.'
        )
    if saved.data_fingerprint != data.fingerprint:
        named = saved.config.data
        has_rules = named.filters or named.augment or 'filters=' in named.corpora
        versions = (
            ', or the rules of its filters or spellings with the version' if has_rules else ''
        )
        raise UserError(
            f'{folder} belongs to other data: the corpus has changed since its run started'
            f'{versions}; restore the corpus{" or the version" if has_rules else ""}, or choose '
            'another --workdir.'
        )
