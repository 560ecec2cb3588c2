"""Whether a run may start in its folder, and what it takes over from there or from another run."""

import dataclasses
import logging
import os

from transformer_jax.config import Config
from transformer_jax.data.vocabulary import Vocabulary
from transformer_jax.errors import UserError, user_path
from transformer_jax.storage.workdir import SavedRun, Workdir
from transformer_jax.training.metrics_writer import read_metrics

_logger = logging.getLogger('transformer_jax')


def saved(folder: Workdir, config: Config) -> SavedRun | None:
    """What the folder says of its run; a UserError if that is not the run of `config`."""
    average = folder.read_average()
    if average is not None:
        raise UserError(
            f'workdir={str(folder.path)!r} holds averaged weights, which cannot be trained: '
            f'go on in {average["workdir"]!r}, or choose another --workdir, which may begin from '
            'these weights (train.init_from).'
        )
    saved = folder.read_run()
    if saved is None and folder.has_checkpoints():
        raise UserError(
            f'workdir={str(folder.path)!r} holds checkpoints but no config.json, which says whose '
            'they are: restore the file, or choose another --workdir.'
        )
    if saved is not None and folder.has_checkpoints():
        origin = config.train.init_from
        if origin and not saved.config.train.init_from:
            raise UserError(
                f'train.init_from={origin!r} comes too late for the run in {folder}, which has '
                'begun without it: choose another --workdir, or leave it out.'
            )
        if origin and origin != saved.config.train.init_from:
            _logger.warning(
                'train.init_from=%r is not looked at: the run in %s has begun from %r.',
                origin,
                folder,
                saved.config.train.init_from,
            )
        config = with_origin(config, saved)
    differences = [] if saved is None else config.differences(saved.config)
    if differences:
        raise UserError(
            f'workdir={str(folder.path)!r} belongs to a run of another config '
            f'(now against then: {"; ".join(differences)}): '
            'choose another --workdir, or restore these fields.'
        )
    return saved


def with_origin(config: Config, saved: SavedRun) -> Config:
    """The config of a run that goes on, with the origin that it has had.

    That is history: it may lie elsewhere by now, or be gone.
    """
    train = dataclasses.replace(config.train, init_from=saved.config.train.init_from)
    return dataclasses.replace(config, train=train)


def check_nothing_is_lost(folder: Workdir, config: Config, saved: SavedRun | None) -> None:
    """A UserError if the run of this config had come to have checkpoints, and has none."""
    if folder.has_checkpoints():
        return
    # The longest: it may have been stopped before its first one, to have them more often.
    before = config if saved is None else saved.config
    every = max(config.train.checkpoint_every, before.train.checkpoint_every)
    try:
        last = max((r['step'] for r in read_metrics(folder.metrics)), default=0)
    except OSError as error:
        raise UserError(
            f'workdir={str(folder.path)!r} has a metrics.jsonl that cannot be read '
            f'({error.strerror}): restore access to it, or choose another --workdir.'
        ) from error
    # One may have been in writing while the steps up to the next were taken.
    if last > 2 * every:
        raise UserError(
            f'workdir={str(folder.path)!r} has metrics of {last} steps but no checkpoint '
            'any more: restore its checkpoints, or choose another --workdir to begin anew.'
        )


def own_vocabulary(folder: Workdir, config: Config, saved: SavedRun) -> Vocabulary:
    """The vocabulary of the run in `folder`; a UserError if it, or the config's, is another."""
    vocabulary = Vocabulary.load(folder.vocabulary, field='vocabulary of the workdir')
    if saved.vocabulary_digest not in (None, vocabulary.digest):
        raise UserError(
            f'{str(folder.vocabulary)!r} is not the vocabulary that the run beside it has: restore '
            'that one, or choose another --workdir.'
        )
    named = config.data.vocabulary
    # Where that file is gone, the copy in the workdir is the one.
    if (
        named
        and os.path.exists(user_path(named, 'data.vocabulary'))
        and Vocabulary.load(named).digest != vocabulary.digest
    ):
        raise UserError(
            f'data.vocabulary={named!r} is not the vocabulary that the run in '
            f'workdir={str(folder.path)!r} has: name that one, or choose another --workdir.'
        )
    return vocabulary


def inherited_vocabulary(config: Config) -> Vocabulary | None:
    """The vocabulary of the run to begin from, if any; a UserError if its weights do not fit."""
    origin = config.train.init_from
    if not origin:
        return None
    folder = Workdir(origin, 'train.init_from')
    saved = folder.read_run()
    if saved is None or not folder.has_checkpoints():
        raise UserError(
            f'train.init_from={origin!r} holds no trained model: name the folder of a trained run.'
        )
    differences = config.model_differences(saved.config)
    if differences:
        raise UserError(
            f'train.init_from={origin!r} holds the weights of another model '
            f'(now against there: {"; ".join(differences)}): '
            'give these fields the values they have there, or begin from another folder.'
        )
    vocabulary = Vocabulary.load(folder.vocabulary, field='vocabulary of train.init_from')
    if vocabulary.size != config.data.vocab_size:
        _logger.info(
            'The vocabulary is that of train.init_from: %s pieces, not data.vocab_size=%s.',
            f'{vocabulary.size:,}',
            f'{config.data.vocab_size:,}',
        )
    return vocabulary
