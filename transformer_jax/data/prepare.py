"""Turn a config into data that is ready for training, using the cache."""

import dataclasses
import io
import itertools
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from transformer_jax.config import DataConfig
from transformer_jax.config.mixture import MixStage
from transformer_jax.data.batching.buckets import LengthCounts
from transformer_jax.data.batching.order import MixedOrder
from transformer_jax.data.batching.plan import BatchPlan, Stage
from transformer_jax.data.batching.subword_sampling import SubwordSampler
from transformer_jax.data.batching.token_store import TokenStore, cached_store
from transformer_jax.data.cleaning.augment import Augmentation, RespeltCorpus, read_augment
from transformer_jax.data.corpora.corpus import open_corpus
from transformer_jax.data.corpora.corpus_types import Corpus
from transformer_jax.data.corpora.mixture import MixedCorpus
from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError, first_line
from transformer_jax.storage.buckets import shared_entry
from transformer_jax.storage.cache import (
    cache_folder,
    content_digest,
    failures_to_cache,
    make_folder,
)
from transformer_jax.storage.files import atomic_write, open_regular, read_regular

_logger = logging.getLogger('transformer_jax')
# Increase this when a seed draws other segmentations: cached lengths depend on the draws.
_DRAWS = 2
_MAX_BYTE_FALLBACK_RATE = 0.05  # a higher rate suggests a vocabulary of other languages
_SIDES = ('source', 'target')
_SAMPLE = 1_000_000  # tokens of each side that are checked


@dataclasses.dataclass(frozen=True)
class Data:
    """Everything a run reads.

    Attributes:
      vocabulary: the vocabularies of both sides.
      store: the tokenised training pairs.
      plan: the batches of the training pairs.
      subword_sampler: segments sentences again in every batch; None takes the tokens of the store.
      dev: (source, target) texts of the dev set.
      test: (source, target) texts of the test set.
      fingerprint: hex digest of the content of all data, whatever their paths.
      older_fingerprint: the same of a run that was begun before epochs were planned in rounds.
      split_fingerprints: hex digests of 'dev' and of 'test'.
    """

    vocabulary: VocabularyPair
    store: TokenStore
    plan: BatchPlan
    subword_sampler: SubwordSampler | None
    dev: list[tuple[str, str]]
    test: list[tuple[str, str]]
    fingerprint: str
    older_fingerprint: str
    split_fingerprints: dict[str, str]


def prepare(config: DataConfig, vocabulary: VocabularyPair | None = None) -> Data:
    """Open the corpus, train or load the vocabulary, tokenise, and plan the batches.

    Args:
      config: the data settings.
      vocabulary: the one of the run that resumes; None loads the config's or the cached one, or
        trains one.

    Raises:
      UserError: if the corpus, the vocabulary or a length setting cannot be used.
    """
    with failures_to_cache(cache_folder(config.cache_dir)):
        return _prepare(config, vocabulary)


def _prepare(config: DataConfig, vocabulary: VocabularyPair | None) -> Data:
    augmentations = read_augment(config)  # its mistakes, before corpora are read
    corpus = open_corpus(config)
    make_folder(cache_folder(config.cache_dir))
    if vocabulary is None:
        vocabulary = _vocabularies(config, corpus)
    for tag in config.tags():
        if not vocabulary.source.has_tag(tag):
            raise UserError(
                f'data.tag={tag!r} is no piece of the vocabulary, which comes from data.vocabulary '
                'or train.init_from: leave the vocabulary out to train one, or leave out the tag.'
            )
    sides = config.subword_sampling_sides
    drawn = _SIDES if sides == 'both' else (sides,)
    if config.subword_sampling and not all(getattr(vocabulary, x).can_sample for x in drawn):
        raise UserError(
            f'data.subword_sampling={config.subword_sampling} needs a vocabulary of BPE or unigram '
            'pieces, but this one has whole characters or words: set it to 0.'
        )
    content = corpus.fingerprint('train')
    spelt = [RespeltCorpus(corpus, one.name).fingerprint('train') for one in augmentations]
    stores = _stores(config, corpus, vocabulary)
    sizes = {name: len(part) for name, part in stores.items()}
    store = TokenStore.joined(
        [*stores.values(), *_respelt_stores(config, corpus, vocabulary, sizes, augmentations)]
    )
    pairs = sum(sizes.values())
    if store.empty:
        empty = sum(part.empty for part in stores.values())
        _logger.warning('Left out %s training pairs with an empty side.', f'{empty:,}')
    if not pairs:
        raise UserError(
            f'data.corpus={config.corpus!r} has no training pair with text on both sides: '
            'check its files and columns.'
        )
    _warn_of_byte_fallback(config, stores, vocabulary)
    subword_sampler, lengths = None, store.lengths
    if config.subword_sampling:
        subword_sampler = SubwordSampler(
            store,
            vocabulary,
            rate=config.subword_sampling,
            seed=config.seed,
            drawn=drawn,
        )
        digest = content_digest([content, *spelt, vocabulary.digest])
        lengths = _planned_lengths(config, f'tokens-{digest}', subword_sampler, len(store))
    stages = _stages(config, stores)
    try:
        plan = BatchPlan(
            *lengths,
            max_length=config.max_length,
            tokens_per_batch=config.tokens_per_batch,
            num_buckets=config.num_buckets,
            sentences_per_batch=config.sentences_per_batch,
            seed=config.seed,
            stages=stages,
            spellings=[one.rate for one in augmentations],
            packing=config.packing,
        )
    except ValueError as error:
        raise UserError(
            f'data.max_length={config.max_length} is shorter than every training pair: raise it.'
        ) from error
    if plan.dropped:
        _logger.warning(
            'Left out %s of %s training pairs, longer than data.max_length=%d tokens.',
            f'{plan.dropped:,}',
            f'{pairs:,}',
            config.max_length,
        )
    splits = {split: corpus.fingerprint(split) for split in ('dev', 'test')}
    for split, digest in splits.items():
        if digest == content:
            _logger.warning(
                'The %s set is the training set: its scores say nothing about new sentences.',
                split,
            )
    dev, test = list(corpus.pairs('dev')), list(corpus.pairs('test'))
    digests = [content, *spelt, *splits.values(), vocabulary.digest]
    older = fingerprint = content_digest(digests)
    if not plan.rounds_are_epochs:
        fingerprint = content_digest([*digests, 'rounds'])
    return Data(vocabulary, store, plan, subword_sampler, dev, test, fingerprint, older, splits)


def _stores(
    config: DataConfig, corpus: Corpus, vocabulary: VocabularyPair
) -> dict[str, TokenStore]:
    """Return the tokenised training pairs of each part; of a corpus that is no mixture, by ''."""
    if not isinstance(corpus, MixedCorpus):
        return {'': _store(config, corpus, vocabulary)}
    return {name: _store(config, part, vocabulary) for name, part in corpus.parts.items()}


def _fitting(config: DataConfig, stores: Mapping[str, TokenStore]) -> dict[str, int]:
    """Return the number of pairs of each part that are not too long.

    Raises:
      UserError: if a part has none.
    """
    fitting = {}
    for name, store in stores.items():
        try:
            counts = LengthCounts.of(*store.lengths, config.max_length)
        except ValueError:
            raise UserError(
                f'data.corpora has a part {name!r} without a training pair that has text on both '
                f'sides and at most data.max_length={config.max_length} tokens: leave it out, or '
                'check its files and filters.'
            ) from None
        fitting[name] = len(store) - counts.dropped
    return fitting


def _respelt_stores(
    config: DataConfig,
    corpus: Corpus,
    vocabulary: VocabularyPair,
    sizes: Mapping[str, int],
    spellings: Sequence[Augmentation],
) -> list[TokenStore]:
    """Return the training pairs of each part in each spelling of data.augment."""
    stores = []
    parts = corpus.parts if isinstance(corpus, MixedCorpus) else {'': corpus}
    for spelling in spellings:
        for name, part in parts.items():
            spelt = RespeltCorpus(part, spelling.name)
            stores.append(_store(config, spelt, vocabulary))
            if len(stores[-1]) != sizes[name]:
                raise UserError(
                    f'data.augment={config.augment!r} leaves no text of some pairs in the spelling '
                    f'{spelling.name!r}: leave it out.'
                )
    return stores


def _store(config: DataConfig, corpus: Corpus, vocabulary: VocabularyPair) -> TokenStore:
    name = f'tokens-{content_digest([corpus.fingerprint("train"), vocabulary.digest])}'
    with shared_entry(config.cache_dir, path := cache_folder(config.cache_dir) / name, 'meta.json'):
        return cached_store(path, corpus.pairs('train'), vocabulary)


def _stages(config: DataConfig, stores: Mapping[str, TokenStore]) -> list[Stage]:
    """Return the stages of a mixture; none if every pair is seen once in each epoch.

    Args:
      config: names the shares, or the temperature.
      stores: pairs of each part.
    """
    if not config.corpora:
        return []
    sizes = _fitting(config, stores)
    if not config.mixes:
        return []
    stages = config.stages()
    if stages and (never := [n for n in sizes if not any(n in x.shares for x in stages)]):
        _logger.warning('data.mix never names %s: training does not see it.', ', '.join(never))
    if not stages:
        # Devlin et al. (2018): shares are sizes to a power, so that small corpora are seen more.
        shares = {name: size ** (1 / config.temperature) for name, size in sizes.items()}
        stages = [MixStage(shares, None)]
    return [
        Stage(
            MixedOrder(
                [len(store) for store in stores.values()],
                # Pairs that are too long are drawn and left out: so many more have to be drawn.
                [stage.shares.get(n, 0) * len(stores[n]) / sizes[n] for n in sizes],
                config.seed,
                number,
            ),
            stage.until,
        )
        for number, stage in enumerate(stages)
    ]


def _warn_of_byte_fallback(
    config: DataConfig, stores: Mapping[str, TokenStore], vocabulary: VocabularyPair
) -> None:
    parts = config.parts() if config.corpora else {'': config}
    for name, store in stores.items():
        sides = (
            (parts[name].source_language, vocabulary.source, store.source),
            (parts[name].target_language, vocabulary.target, store.target),
        )
        for language, side, (tokens, _) in sides:
            rate = side.byte_fallback_rate(tokens[:_SAMPLE])
            if rate > _MAX_BYTE_FALLBACK_RATE:
                _logger.warning(
                    'The vocabulary has no pieces for many characters of %r: %.0f %% of its tokens '
                    'are single bytes or unknown. Check data.vocabulary, train.init_from and '
                    'data.character_coverage.',
                    language,
                    100 * rate,
                )


def _planned_lengths(
    config: DataConfig, store_name: str, subword_sampler: SubwordSampler, pairs: int
) -> np.ndarray:
    """Return [2, pairs] lengths for the batch plan, cached because drawing them is slow."""
    settings = (
        _DRAWS,
        store_name,
        config.subword_sampling,
        config.subword_sampling_sides,
        config.seed,
        config.max_length,
        *config.augment.split(),
    )
    name = f'lengths-{content_digest(map(str, settings))}.npy'
    path = cache_folder(config.cache_dir) / name
    with shared_entry(config.cache_dir, path):
        return _cached_lengths(path, subword_sampler, config.max_length, pairs)


def _cached_lengths(
    path: Path, subword_sampler: SubwordSampler, max_length: int, pairs: int
) -> np.ndarray:
    try:
        with open_regular(path):  # no pipe
            lengths = np.load(path, mmap_mode='r', allow_pickle=False)
        if lengths.shape != (2, pairs):
            raise ValueError('other pairs')
        return lengths
    except FileNotFoundError:
        pass
    except (OSError, ValueError, EOFError):
        _logger.warning('The cached lengths %s are damaged: drawing them again.', path)
    lengths = np.stack([subword_sampler.planned_lengths(side, max_length) for side in _SIDES])
    content = io.BytesIO()  # np.save's own errors for a file lack the reason
    np.save(content, lengths)
    with atomic_write(path, 'wb') as file:
        file.write(content.getvalue())
    return lengths


def _vocabularies(config: DataConfig, corpus: Corpus) -> VocabularyPair:
    if config.source_vocabulary:
        sides = (
            Vocabulary.load(config.source_vocabulary, 'data.source_vocabulary'),
            Vocabulary.load(config.target_vocabulary, 'data.target_vocabulary'),
        )
        try:
            return VocabularyPair(*sides)
        except ValueError as error:
            raise UserError(
                f'data.source_vocabulary={config.source_vocabulary!r} does not go with '
                f'data.target_vocabulary={config.target_vocabulary!r}: {error}'
            ) from error
    if not config.shared_vocabulary:
        return VocabularyPair(*(_trained_vocabulary(config, corpus, side) for side in _SIDES))
    if config.vocabulary:
        vocabulary = Vocabulary.load(config.vocabulary)
    else:
        vocabulary = _trained_vocabulary(config, corpus)
    return VocabularyPair(vocabulary, vocabulary)


def _trained_vocabulary(config: DataConfig, corpus: Corpus, side: str | None = None) -> Vocabulary:
    """Return the vocabulary of one side, or of both, from the cache if it is there."""
    model_type = config.vocabulary_type
    if side == 'target' and config.target_vocabulary_type:
        model_type = config.target_vocabulary_type
    settings = (config.vocab_size, config.character_coverage, config.normalization)
    # Names of the default type are as they were before there were others.
    type_ = [] if model_type == 'bpe' else [model_type]
    tags = [] if side == 'target' else config.tags()
    kind = [*map(str, settings), *([side] if side else []), *type_, *tags]
    name = f'vocabulary-{content_digest([corpus.fingerprint("train"), *kind])}.model'
    path = cache_folder(config.cache_dir) / name
    with shared_entry(config.cache_dir, path):
        return _cached_vocabulary(path, config, corpus, side, model_type, tags)


def _cached_vocabulary(
    path: Path,
    config: DataConfig,
    corpus: Corpus,
    side: str | None,
    model_type: str,
    tags: Sequence[str],
) -> Vocabulary:
    if os.path.exists(path):
        try:
            return Vocabulary(read_regular(path))
        except (OSError, ValueError) as error:
            _logger.warning(
                'The cached vocabulary %s cannot be used (%s): training it again.',
                path,
                first_line(error),
            )
    make_folder(path.parent)  # before training, to fail early
    what = f'the {side} vocabulary' if side else 'a vocabulary'
    _logger.info('Training %s of %s pieces.', what, f'{config.vocab_size:,}')
    pairs = corpus.pairs('train')
    vocabulary = Vocabulary.train(
        (pair[_SIDES.index(side)] for pair in pairs)
        if side
        else itertools.chain.from_iterable(pairs),
        size=config.vocab_size,
        model_type=model_type,
        character_coverage=config.character_coverage,
        normalization=config.normalization,
        tags=tags,
    )
    vocabulary.save(path)
    return vocabulary
