"""What a corpus is made of, before anybody trains on it."""

import dataclasses
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from transformer_jax.config import DataConfig
from transformer_jax.data.cleaning.filters import Filter, FilterCounter, Found, read_filters
from transformer_jax.data.cleaning.hash_set import HashSet
from transformer_jax.data.cleaning.letters import composed
from transformer_jax.data.cleaning.source_tags import without_codes
from transformer_jax.data.corpora.corpus import open_corpus
from transformer_jax.data.corpora.mixture import MixedCorpus
from transformer_jax.data.corpora.text_files import Pair
from transformer_jax.runtime.signals import stop_if_requested

# What is tried if the config names no filter.
USUAL_FILTERS = 'ratio=3 identical duplicates letters=0.5 digits'
_PERCENTILES = (50, 95, 99)
_PIECES_PER_WORD = 1.5  # about, with a vocabulary of the paper's size
# Words of training text, and the number of pieces that is usual for up to as many.
_USUAL_SIZES = ((200_000, 2000), (2_000_000, 8000), (20_000_000, 16_000), (200_000_000, 32_000))
_LARGEST = 37_000  # the paper's
_SIDES = ('source', 'target')


class SplitReport(NamedTuple):
    """Numbers of a split.

    Attributes:
      words: [2, pairs] int, the words of each source and target.
      empty: pairs with an empty side.
      duplicates: pairs that occurred before.
      seen_sources: pairs whose source is one of train's; 0 for train itself.
      seen_targets: pairs whose target is one of train's; 0 for train itself.
      characters: number of different characters of each side.
    """

    words: np.ndarray
    empty: int
    duplicates: int
    seen_sources: int
    seen_targets: int
    characters: tuple[int, int]

    @property
    def pairs(self) -> int:
        """The number of pairs."""
        return self.words.shape[1]


@dataclasses.dataclass(frozen=True)
class CorpusReport:
    """What a corpus is made of.

    Attributes:
      splits: numbers of 'train', 'dev' and 'test', without filters.
      filters: what each filter alone would drop of train.
      parts: number of training pairs of each part of data.corpora, and what each of its own filters
        alone drops.
    """

    splits: dict[str, SplitReport]
    filters: list[Found]
    parts: dict[str, tuple[int, list[Found]]]

    @property
    def max_length(self) -> int:
        """Tokens that hold 99.9 % of the training sentences, guessed from their words."""
        longest = np.percentile(self.splits['train'].words.max(axis=0), 99.9)
        return int(8 * np.ceil((_PIECES_PER_WORD * longest + 1) / 8))

    @property
    def vocab_size(self) -> int:
        """A usual size of a vocabulary for this many words of training text."""
        words = int(self.splits['train'].words.sum())
        return next((size for most, size in _USUAL_SIZES if words <= most), _LARGEST)

    def __str__(self) -> str:
        """Return the report as text."""
        lines = []
        for name, split in self.splits.items():
            lines += [f'{name}: {split.pairs:,} pairs', *_split_lines(name, split), '']
        lines.append('filters, each alone on train:')
        lines += _filter_lines(self.splits['train'].pairs, self.filters)
        for name, (pairs, filters) in self.parts.items():
            lines.append(f'part {name}: {pairs:,} training pairs, and its own filters:')
            lines += _filter_lines(pairs, filters)
        lines += [
            '',
            f'data.max_length={self.max_length} would hold 99.9 % of the training sentences, at '
            f'about {_PIECES_PER_WORD} pieces a word.',
            f'data.vocab_size={self.vocab_size} is usual for this many words.',
        ]
        return '\n'.join(lines)


def report(config: DataConfig) -> CorpusReport:
    """Read a corpus, a mixture twice, and return what it is made of.

    Args:
      config: names the corpus; its filters, or `USUAL_FILTERS`, are tried on train.

    Raises:
      UserError: if the corpus cannot be read.
    """
    filters = read_filters(dataclasses.replace(config, filters=config.filters or USUAL_FILTERS))
    corpus = open_corpus(config, filtered=False)
    seen = HashSet(), HashSet()
    train, found = _read(corpus.pairs('train'), filters, seen, is_train=True)
    splits = {'train': train}
    for name in ('dev', 'test'):
        splits[name], _ = _read(corpus.pairs(name), [], seen, is_train=False)
    parts = {}
    if isinstance(corpus, MixedCorpus):
        for name, part in config.parts().items():
            counters = [FilterCounter([one]) for one in read_filters(part)]
            count = 0
            for pair in corpus.parts[name].pairs('train'):
                stop_if_requested()
                count += 1
                for counter in counters:
                    counter.keeps(pair)
            parts[name] = count, [one for counter in counters for one in counter.found()]
    return CorpusReport(splits, found, parts)


def _read(
    pairs: Iterable[Pair],
    filters: Sequence[Filter],
    seen: tuple[HashSet, HashSet],
    *,
    is_train: bool,
) -> tuple[SplitReport, list[Found]]:
    """Return numbers of pairs and what each filter drops; `seen` has hashes of train's texts."""
    counters = [FilterCounter([one]) for one in filters]
    words = array('i'), array('i')
    whole = HashSet()
    characters: tuple[set[str], set[str]] = set(), set()
    empty = duplicates = 0
    known = [0, 0]
    for pair in pairs:
        stop_if_requested()
        for counter in counters:
            counter.keeps(pair)
        duplicates += not whole.add('\n'.join(' '.join(composed(x).split()) for x in pair))
        # Language codes make another pair, but are no words.
        texts = [composed(without_codes(text)) for text in pair]
        split = [text.split() for text in texts]
        empty += not all(split)
        plain = [' '.join(text) for text in split]
        for side in (0, 1):
            words[side].append(len(split[side]))
            characters[side].update(texts[side])
            if is_train:
                seen[side].add(plain[side])
            else:
                known[side] += plain[side] in seen[side]
    report = SplitReport(
        np.array(words, np.int32),
        empty,
        duplicates,
        *known,
        (len(characters[0]), len(characters[1])),
    )
    return report, [found for counter in counters for found in counter.found()]


def _filter_lines(pairs: int, filters: Sequence[Found]) -> list[str]:
    lines = []
    for one in filters:
        share = 100 * one.dropped / max(1, pairs)
        lines.append(f'  {one.name:20} {one.dropped:10,} pairs, {share:.2f} %')
        lines += [f'      {source[:60]} | {target[:60]}' for source, target in one.examples]
    return lines


def _split_lines(name: str, split: SplitReport) -> list[str]:
    lines = []
    for side, words, characters in zip(_SIDES, split.words, split.characters, strict=True):
        numbers = zip(_PERCENTILES, np.percentile(words, _PERCENTILES), strict=True)
        middle = ', '.join(f'{number:.0f} ({p} %)' for p, number in numbers)
        lines.append(
            f'  {side}: {int(words.sum()):,} words; in a sentence up to {middle}, '
            f'{int(words.max()):,} (all); {characters:,} different characters'
        )
    lines.append(f'  {split.empty:,} with an empty side, {split.duplicates:,} duplicates')
    if name != 'train':
        lines.append(
            f'  {split.seen_sources:,} sources and {split.seen_targets:,} targets occur in train'
        )
    return lines
