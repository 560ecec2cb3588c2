"""Dev and test sets that are held out of the training pairs."""

import contextlib
import functools
import hashlib
import heapq
import json
import logging
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from transformer_jax.config import DataConfig
from transformer_jax.data.corpora.corpus_types import NamedCorpus
from transformer_jax.data.corpora.text_files import Pair
from transformer_jax.errors import UserError
from transformer_jax.runtime.signals import stop_if_requested
from transformer_jax.storage.cache import cache_folder, content_digest
from transformer_jax.storage.files import atomic_write, read_json

_RULE = 3  # raise it when the rule of selection changes, because fingerprints must change too
_logger = logging.getLogger('transformer_jax')


class HeldOutCorpus:
    """A corpus whose missing dev or test pairs are taken out of its training pairs.

    The source sentences with the smallest keyed hash are held out. The selection depends on the
    seed and on the set of sentences, but not on their order. Each selected sentence is represented
    by its first pair with text on both sides.

    No source sentence of dev or test is left in train. Two sentences count as the same if they
    differ only in spaces, in invisible characters, in code points for the same characters, or in
    case when the vocabulary ignores case.
    """

    def __init__(self, corpus: NamedCorpus, missing: list[str], config: DataConfig):
        self._corpus = corpus
        self._seed = config.seed
        self._sizes = {split: getattr(config, f'{split}_size') for split in missing}
        self._folder = cache_folder(config.cache_dir)
        self._tags = config.tags()
        self._ignores_case = config.normalization.endswith('_cf')  # as the vocabulary then does

    def check(self) -> None:
        """Raise UserError if there are too few distinct sentences to hold some out.

        This reads only the first pairs.
        """
        distinct, splits = set(), ' and '.join(self._sizes)
        for source, target in self._corpus.pairs('train'):
            if self._normalized(source) and self._normalized(target):
                distinct.add(self._normalized(source))
            if len(distinct) > 2:
                break
        else:
            raise UserError(
                f'{self._corpus.names["train"]} has fewer than 3 distinct source sentences with '
                f'text on both sides, too few to hold out {splits}: add pairs to it, or give '
                f'{splits} data of their own.'
            )
        _logger.info('Holding %s data out of the training pairs.', splits)

    def pairs(self, split: str) -> Iterator[Pair]:
        if split in self._sizes:
            return iter(self._held_out[split])
        pairs = self._corpus.pairs(split)
        return self.kept(pairs) if split == 'train' else pairs

    def fingerprint(self, split: str) -> str:
        if split not in self._sizes and split != 'train':
            return self._corpus.fingerprint(split)
        selection = [_RULE, self._seed, self._sizes, split]
        selection += ['ignoring case'] if self._ignores_case else []
        return content_digest([self._corpus.fingerprint('train'), json.dumps(selection)])

    def _normalized(self, text: str) -> str:
        """Return the form that two sentences share if they count as the same."""
        text = _without_tag(text, self._tags)  # a source should be in train in no language
        # To a reader and to the vocabulary, control and zero-width characters are only spaces.
        spaced = ''.join(' ' if unicodedata.category(c) in ('Cc', 'Cf') else c for c in text)
        normalized = ' '.join(unicodedata.normalize('NFKC', spaced).split())
        return normalized.casefold() if self._ignores_case else normalized

    def kept(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yield those of some training pairs that are not held out."""
        held_out = {
            self._normalized(source) for pairs in self._held_out.values() for source, _ in pairs
        }
        for pair in pairs:
            if self._normalized(pair[0]) not in held_out:
                yield pair

    @functools.cached_property
    def _held_out(self) -> dict[str, list[Pair]]:
        """The pairs of each missing split."""
        held_out = self._load_or_select()
        sizes = {split: len(pairs) for split, pairs in held_out.items()}
        if sizes != self._sizes:
            _logger.warning(
                'Few distinct source sentences to train on: holding out %s of them, not %s.',
                ' and '.join(f'{size:,} ({split})' for split, size in sizes.items()),
                ' and '.join(f'{size:,}' for size in self._sizes.values()),
            )
        return held_out

    def _load_or_select(self) -> dict[str, list[Pair]]:
        """Return the pairs of each missing split, from the cache if they are there."""
        name = content_digest(self.fingerprint(split) for split in self._sizes)
        path = self._folder / f'held-out-{name}.json'
        try:
            held_out = read_json(path, {split: [[str]] for split in self._sizes}, most=1 << 30)
            return {split: [(s, t) for s, t in held_out[split]] for split in self._sizes}
        except FileNotFoundError:
            pass
        except (OSError, ValueError):
            _logger.warning('The cached pairs %s are damaged: selecting them again.', path)
        held_out = self._select()
        # Scoring works without a cache, so a cache that cannot be written is no error.
        with contextlib.suppress(OSError), atomic_write(path) as file:
            json.dump(held_out, file, ensure_ascii=False)
        return held_out

    def _select(self) -> dict[str, list[Pair]]:
        """Select the pairs in one pass over train.

        At most ten times as many hashes as held-out pairs are in memory.
        """
        asked = sum(self._sizes.values())
        key = self._seed.to_bytes(16, 'little')
        seen: set[int] = set()  # hashes of distinct sources; counting stops at 10 * asked
        best: dict[int, Pair] = {}
        heap: list[int] = []  # the hashes in `best`, negated because heapq finds minima only
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


def _without_tag(source: str, tags: Sequence[str]) -> str:
    """Return a source sentence without the tag that it begins with, if it is one of these."""
    first, _, rest = source.partition(' ')
    return rest if first in tags and first else source
