"""Sentence pairs from files, TFDS, Hugging Face or the embedded phrasebook.

`open_corpus` finds mistakes before any work begins. `pairs` then streams, so that a corpus of
millions of pairs is never in memory at once. `load_split` reads a split of a finished run, whose
config may come from a stranger.
"""

import dataclasses
import logging

from transformer_jax.config import DataConfig
from transformer_jax.data.cleaning.filters import FilteredCorpus, read_filters
from transformer_jax.data.corpora.columns import Unavailable
from transformer_jax.data.corpora.corpus_types import Corpus, NamedCorpus
from transformer_jax.data.corpora.held_out import HeldOutCorpus
from transformer_jax.data.corpora.hugging_face import HuggingFaceCorpus
from transformer_jax.data.corpora.mixture import JoinedCorpora, MixedCorpus, TaggedCorpus
from transformer_jax.data.corpora.text_files import FilesCorpus, Pair
from transformer_jax.data.corpora.tfds import TfdsCorpus
from transformer_jax.data.corpora.tree_corpus import TreeCorpus
from transformer_jax.data.phrasebook.corpus import PhrasebookCorpus
from transformer_jax.errors import UserError, shown

_logger = logging.getLogger('transformer_jax')


def open_corpus(config: DataConfig, filtered: bool = True) -> Corpus:
    """Open the corpus that `config` names; missing dev and test sets are held out of train.

    Args:
      config: names the corpus, or several.
      filtered: whether data.filters are applied.

    Raises:
      UserError: if the corpus is missing, damaged or empty, or lacks the languages or columns.
    """
    if config.corpora:
        return _open_mixture(config, filtered)
    filters = read_filters(config)
    corpus = _checked(config)
    return FilteredCorpus(corpus, filters) if filters and filtered else corpus


def _open_mixture(config: DataConfig, filtered: bool) -> MixedCorpus:
    configs = config.parts()
    for part in configs.values():
        read_filters(part)  # their mistakes, before corpora are read
    joined, whole = _open(config)
    for corpus in joined.corpora.values():
        for split in corpus.names:
            _check_not_empty(corpus, split)
    if isinstance(whole, HeldOutCorpus):
        whole.check()
    return MixedCorpus(joined, whole, configs, filtered)


def _checked(config: DataConfig) -> Corpus:
    if config.corpus == 'phrasebook':
        return PhrasebookCorpus(config)
    if config.corpus == 'none':
        raise UserError(
            "data.corpus='none' is for imported models: name the corpus to train on, for example "
            "'files'."
        )
    named, corpus = _open(config)
    for split in named.names:
        _check_not_empty(named, split)
    if isinstance(corpus, HeldOutCorpus):
        corpus.check()
    return corpus


def load_split(config: DataConfig, split: str, fingerprint: str) -> list[Pair] | None:
    """Return the pairs of one split of a run, or None if its content has changed since.

    The config may come from a stranger and name files of the user. So the content is compared
    before it is parsed, shown or cached. Nothing is downloaded or prepared, and only the user's own
    cache is written.

    Args:
      config: the run's.
      split: 'dev' or 'test'.
      fingerprint: the one that the run recorded for this split.

    Raises:
      UserError: if the corpus is missing or cannot be read.
    """
    config = dataclasses.replace(config, cache_dir='')
    _logger.info('Reading the %s set of the run: %s.', split, _origin(config, split))
    if config.corpus == 'phrasebook':
        corpus = PhrasebookCorpus(config)
        return list(corpus.pairs(split)) if corpus.fingerprint(split) == fingerprint else None
    try:
        named, corpus = _open(config, offline=True)
        found = corpus.fingerprint(split)
    except Unavailable:
        raise
    except Exception:  # libraries raise many kinds
        if config.corpus in ('files', 'trees') and not config.corpora:
            raise
        # Neither shown nor chained, because the library's message may quote the content.
        raise UserError(
            f'{_origin(config, split)} cannot be read: restore it as it was when the run '
            'began, or name files (--source, --reference).'
        ) from None
    if found != fingerprint:
        return None
    if split in named.names:
        _check_not_empty(named, split)
    else:
        corpus.check()
    return list(corpus.pairs(split))


def _open(config: DataConfig, **options: bool) -> tuple[NamedCorpus, Corpus]:
    """Return the corpus that `config` names, and the same with dev and test sets."""
    if config.corpora:
        parts = config.parts().items()
        named = JoinedCorpora({name: _open_part(name, part, **options) for name, part in parts})
    else:
        named = _open_named(config, **options)
    missing = [split for split in ('dev', 'test') if split not in named.names]
    return named, HeldOutCorpus(named, missing, config) if missing else named


def _open_part(name: str, config: DataConfig, **options: bool) -> NamedCorpus:
    try:
        return _open_named(config, **options)
    except Unavailable:
        raise
    except UserError as error:
        raise UserError(f'data.corpora, in the part {name!r}: {error}') from None


def _open_named(config: DataConfig, **options: bool) -> NamedCorpus:
    if config.corpus == 'files':
        named = FilesCorpus(config)
    elif config.corpus == 'trees':
        named = TreeCorpus(config)
    else:
        kinds = {'tfds': TfdsCorpus, 'huggingface': HuggingFaceCorpus}
        named = kinds[config.corpus](config, **options)
    return TaggedCorpus(named, config.tag) if config.tag else named


def _check_not_empty(corpus: NamedCorpus, split: str) -> None:
    if next(corpus.pairs(split), None) is None:
        raise UserError(f'{corpus.names[split]} has no sentence pairs: name one that has some.')


def _origin(config: DataConfig, split: str) -> str:
    """Return the source of a split's pairs, for a message."""
    if config.corpus == 'phrasebook':
        return 'the embedded phrasebook'
    if config.corpora:
        return f'data.corpora={shown(config.corpora)}'
    fields = ('corpus', 'dataset', 'data_dir')
    if config.corpus in ('files', 'trees'):
        named = split if getattr(config, f'{split}_source') else 'train'  # it is held out of train
        fields = (f'{named}_source', f'{named}_target')
    values = {field: getattr(config, field) for field in fields}
    return ', '.join(f'data.{field}={value!r}' for field, value in values.items() if value)
