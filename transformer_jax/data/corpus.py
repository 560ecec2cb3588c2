"""Sentence pairs from wherever they are: files, TFDS, Hugging Face or the embedded phrasebook.

`open_corpus` finds mistakes before any work begins; `pairs` then streams, so that 36 million pairs
(WMT14 French-English) never are in memory at once. `load_split` reads what a stranger may name.
"""

import contextlib
import dataclasses
import functools
import hashlib
import heapq
import json
import logging
import unicodedata
from collections.abc import Iterator
from typing import Protocol

from transformer_jax.config import DataConfig
from transformer_jax.data import phrasebook
from transformer_jax.data.columns import Unavailable
from transformer_jax.data.hugging_face import HuggingFaceCorpus
from transformer_jax.data.text_files import FilesCorpus, Pair
from transformer_jax.data.tfds import TfdsCorpus
from transformer_jax.errors import UserError
from transformer_jax.runtime.signals import stop_if_requested
from transformer_jax.storage.cache import cache_folder, content_digest
from transformer_jax.storage.files import atomic_write, read_json

_logger = logging.getLogger('transformer_jax')


class Corpus(Protocol):
    """Sentence pairs in three splits: 'train', 'dev' and 'test'."""

    def pairs(self, split: str) -> Iterator[Pair]:
        """Raw (source, target) sentences, the same ones in the same order at every call.

        Raises:
          UserError: when what is read turns out to be damaged.
        """

    def fingerprint(self, split: str) -> str:
        """Hex digest of the content that `pairs(split)` yields, or of all that determines it."""


def open_corpus(config: DataConfig) -> Corpus:
    """The corpus that `config` names, with dev and test held out of train where it has none.

    Raises:
      UserError: when the corpus is missing, damaged or empty, or lacks the languages or columns.
    """
    if config.corpus == 'phrasebook':
        return PhrasebookCorpus(config)
    named, corpus = _opened(config)
    for split in named.names:
        _check_not_empty(named, split)
    if isinstance(corpus, HeldOutCorpus):
        corpus.check()
    return corpus


def load_split(config: DataConfig, split: str, fingerprint: str) -> list[Pair] | None:
    """The pairs of one split of a run; None if its content is no longer that of the run.

    The config may be a stranger's, who names a file that is not theirs. So the content is compared
    before anything of it is parsed, shown or kept; nothing is downloaded or prepared, and only the
    user's own cache is written.

    Args:
      config: of the run.
      split: 'dev' or 'test'.
      fingerprint: what the run has kept of that split.

    Raises:
      UserError: when the corpus is missing or cannot be read.
    """
    config = dataclasses.replace(config, cache_dir='')
    _logger.info('Reading the %s set of the run: %s.', split, _origin(config, split))
    if config.corpus == 'phrasebook':
        corpus = PhrasebookCorpus(config)
        return list(corpus.pairs(split)) if corpus.fingerprint(split) == fingerprint else None
    try:
        named, corpus = _opened(config, offline=True)
        found = corpus.fingerprint(split)
    except Unavailable:
        raise
    except Exception:  # libraries raise many kinds
        if config.corpus == 'files':
            raise
        # Neither shown nor chained, since its message may quote what was read.
        raise UserError(
            f'data.dataset={config.dataset!r} cannot be read as it was when the run began: restore '
            'it, or name files (--source, --reference).'
        ) from None
    if found != fingerprint:
        return None
    if split in named.names:
        _check_not_empty(named, split)
    else:
        corpus.check()
    return list(corpus.pairs(split))


def _opened(config: DataConfig, **options: bool) -> tuple['_NamedCorpus', Corpus]:
    """The corpus that `config` names, as it is, and with dev and test where it has none."""
    if config.corpus == 'files':
        named = FilesCorpus(config)
    else:
        kinds = {'tfds': TfdsCorpus, 'huggingface': HuggingFaceCorpus}
        named = kinds[config.corpus](config, **options)
    missing = [split for split in ('dev', 'test') if split not in named.names]
    return named, HeldOutCorpus(named, missing, config) if missing else named


def _check_not_empty(corpus: '_NamedCorpus', split: str) -> None:
    if next(corpus.pairs(split), None) is None:
        raise UserError(f'{corpus.names[split]} has no sentence pairs: name one that has some.')


def _origin(config: DataConfig, split: str) -> str:
    """Where the pairs of a split come from, for a message."""
    if config.corpus == 'phrasebook':
        return 'the embedded phrasebook'
    fields = ('corpus', 'dataset', 'data_dir')
    if config.corpus == 'files':
        named = split if getattr(config, f'{split}_source') else 'train'  # it is held out of that
        fields = (f'{named}_source', f'{named}_target')
    values = {field: getattr(config, field) for field in fields}
    return ', '.join(f'data.{field}={value!r}' for field, value in values.items() if value)


class _NamedCorpus(Corpus, Protocol):
    """A corpus that may lack dev and test; `names` has what messages call the splits it has."""

    names: dict[str, str]


_RULE = 3  # by which pairs are held out: another one makes other data


def _normalized(text: str) -> str:
    """What two sentences have in common that are the same to a reader."""
    # Marks without a width and control characters are to a reader, and to the vocabulary, no more
    # than spaces.
    spaced = ''.join(' ' if unicodedata.category(c) in ('Cc', 'Cf') else c for c in text)
    return ' '.join(unicodedata.normalize('NFKC', spaced).split())


class HeldOutCorpus:
    """A corpus whose missing dev or test pairs are taken out of its training pairs.

    The source sentences with the smallest keyed hash are held out, so what is chosen depends on the
    seed and on the set of sentences but not on their order, and no source sentence of dev or test
    is left in train, not even with other spaces or other code points for the same characters, or in
    other case where the vocabulary's normalisation makes none of it. The
    first pair of each stands for all of its pairs; one with an empty side stands for none.
    """

    def __init__(self, corpus: _NamedCorpus, missing: list[str], config: DataConfig):
        self._corpus = corpus
        self._seed = config.seed
        self._sizes = {split: getattr(config, f'{split}_size') for split in missing}
        self._folder = cache_folder(config.cache_dir)
        self._ignores_case = config.normalization.endswith('_cf')  # as the vocabulary then does

    def check(self) -> None:
        """Raises a UserError if there are too few pairs to hold some out."""
        # The full pass waits until pairs are wanted, and is made once: they are kept in the cache.
        distinct, parts = set(), ' and '.join(self._sizes)
        for source, target in self._corpus.pairs('train'):
            if self._normalized(source) and self._normalized(target):
                distinct.add(self._normalized(source))
            if len(distinct) > 2:
                break
        else:
            raise UserError(
                f'{self._corpus.names["train"]} has fewer than 3 distinct source sentences with '
                f'text on both sides, too few to hold out {parts}: add pairs to it, or give '
                f'{parts} data of their own.'
            )
        _logger.info('Holding %s data out of the training pairs.', parts)

    def pairs(self, split: str) -> Iterator[Pair]:
        if split in self._sizes:
            return iter(self._held[split])
        return self._train() if split == 'train' else self._corpus.pairs(split)

    def fingerprint(self, split: str) -> str:
        if split not in self._sizes and split != 'train':
            return self._corpus.fingerprint(split)
        held_out = [_RULE, self._seed, self._sizes, split]
        held_out += ['ignoring case'] if self._ignores_case else []
        return content_digest([self._corpus.fingerprint('train'), json.dumps(held_out)])

    def _normalized(self, text: str) -> str:
        normalized = _normalized(text)
        return normalized.casefold() if self._ignores_case else normalized

    def _train(self) -> Iterator[Pair]:
        held_out = {
            self._normalized(source) for pairs in self._held.values() for source, _ in pairs
        }
        for pair in self._corpus.pairs('train'):
            if self._normalized(pair[0]) not in held_out:
                yield pair

    @functools.cached_property
    def _held(self) -> dict[str, list[Pair]]:
        """What is held out, from the cache where it is there."""
        held = self._cached()
        sizes = {split: len(pairs) for split, pairs in held.items()}
        if sizes != self._sizes:
            _logger.warning(
                'Few distinct source sentences to train on: holding out %s of them, not %s.',
                ' and '.join(f'{size:,} ({split})' for split, size in sizes.items()),
                ' and '.join(f'{size:,}' for size in self._sizes.values()),
            )
        return held

    def _cached(self) -> dict[str, list[Pair]]:
        name = content_digest(self.fingerprint(split) for split in self._sizes)
        path = self._folder / f'held-out-{name}.json'
        try:
            held = read_json(path, {split: [[str]] for split in self._sizes})
            return {split: [(s, t) for s, t in held[split]] for split in self._sizes}
        except FileNotFoundError:
            pass
        except (OSError, ValueError):
            _logger.warning('The cached pairs %s are damaged: choosing them again.', path)
        held = self._hold_out()
        # Scoring alone makes no cache, and needs none.
        with contextlib.suppress(OSError), atomic_write(path) as file:
            json.dump(held, file, ensure_ascii=False)
        return held

    def _hold_out(self) -> dict[str, list[Pair]]:
        """One pass over train; memory is that of ten times the pairs asked for, at most."""
        asked = sum(self._sizes.values())
        key = self._seed.to_bytes(16, 'little')
        seen: set[int] = set()  # distinct sources, counted as far as it matters
        best: dict[int, Pair] = {}
        heap: list[int] = []  # the hashes in `best`, negated: heapq knows minima only
        for pair in self._corpus.pairs('train'):
            stop_if_requested()
            source, target = map(self._normalized, pair)
            if not source or not target:
                continue
            hashed = hashlib.blake2b(source.encode(), digest_size=16, key=key).digest()
            rank = int.from_bytes(hashed, 'big')
            if len(seen) < 10 * asked:
                seen.add(rank)
            if rank in best or (len(heap) == asked and rank > -heap[0]):
                continue
            best[rank] = pair
            if len(heap) < asked:
                heapq.heappush(heap, -rank)
            else:
                del best[-heapq.heappushpop(heap, -rank)]
        sizes = self._sizes
        if len(seen) < 10 * asked:
            share = len(seen) // 10 / asked
            sizes = {split: max(1, int(size * share)) for split, size in sizes.items()}
        ranked = iter(sorted(best))
        return {split: [best[next(ranked)] for _ in range(sizes[split])] for split in sizes}


class PhrasebookCorpus:
    """The embedded English-French pairs, generated when they are first asked for."""

    def __init__(self, config: DataConfig):
        languages = (config.source_language, config.target_language)
        if languages in (('en', 'en'), ('fr', 'fr')):
            raise UserError(
                f'data.target_language={config.target_language!r} is the source language as well: '
                "the phrasebook translates from 'en' into 'fr' or back, so choose one of these, or "
                'another data.corpus.'
            )
        if set(languages) != {'en', 'fr'}:
            field = 'source' if config.source_language not in ('en', 'fr') else 'target'
            raise UserError(
                f'data.{field}_language={getattr(config, f"{field}_language")!r} is not in the '
                "phrasebook: translate from 'en' into 'fr' or back, or choose another data.corpus."
            )
        self._reverse = languages == ('fr', 'en')
        self._seed = config.seed
        self._sizes = {'dev': config.dev_size, 'test': config.test_size}
        self._train_size = config.train_size

    def pairs(self, split: str) -> Iterator[Pair]:
        for pair in self._train if split == 'train' else self._held_out[split]:
            yield pair[::-1] if self._reverse else pair

    def fingerprint(self, split: str) -> str:
        # Of what determines the pairs: where their tokens are cached, none need be generated.
        sizes = [*self._sizes.values(), self._train_size if split == 'train' else 0]
        settings = (phrasebook.EDITION, split, self._reverse, self._seed, *sizes)
        return content_digest(map(str, settings))

    @functools.cached_property
    def _train(self) -> list[Pair]:
        return phrasebook.generate(seed=self._seed, train=self._train_size, **self._sizes)['train']

    @functools.cached_property
    def _held_out(self) -> dict[str, list[Pair]]:
        return phrasebook.generate(seed=self._seed, train=0, **self._sizes)
