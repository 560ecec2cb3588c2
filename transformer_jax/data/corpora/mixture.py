"""Several corpora as one, each with a tag before its sources if it has one."""

import itertools
from collections.abc import Iterator, Mapping

from transformer_jax.config import DataConfig
from transformer_jax.data.cleaning.filters import FilteredCorpus, read_filters
from transformer_jax.data.corpora.corpus_types import Corpus, NamedCorpus
from transformer_jax.data.corpora.held_out import HeldOutCorpus
from transformer_jax.data.corpora.text_files import Pair
from transformer_jax.storage.cache import content_digest


class TaggedCorpus:
    """A corpus with a tag before every source sentence."""

    def __init__(self, corpus: NamedCorpus, tag: str):
        self._corpus, self._tag = corpus, tag
        self.names = corpus.names

    def pairs(self, split: str) -> Iterator[Pair]:
        for source, target in self._corpus.pairs(split):
            # A tag alone would hide that there is no text.
            yield f'{self._tag} {source}' if source.strip() else source, target

    def fingerprint(self, split: str) -> str:
        return content_digest([self._corpus.fingerprint(split), self._tag])


class JoinedCorpora:
    """The pairs of several corpora, one after the other; of dev and test, those that have them."""

    def __init__(self, corpora: Mapping[str, NamedCorpus]):
        self.corpora = corpora
        self.names: dict[str, str] = {}
        for split in ('train', 'dev', 'test'):
            names = [one.names[split] for one in corpora.values() if split in one.names]
            if names:
                self.names[split] = ', '.join(names)

    def pairs(self, split: str) -> Iterator[Pair]:
        having = [one for one in self.corpora.values() if split in one.names]
        return itertools.chain.from_iterable(one.pairs(split) for one in having)

    def fingerprint(self, split: str) -> str:
        return content_digest(
            text
            for name, one in self.corpora.items()
            if split in one.names
            for text in (name, one.fingerprint(split))
        )


class MixedCorpus:
    """Several corpora, whose training pairs can also be read one corpus at a time.

    Attributes:
      parts: by name, corpora whose split 'train' has the pairs that training sees.
    """

    def __init__(
        self,
        joined: JoinedCorpora,
        whole: Corpus,
        configs: Mapping[str, DataConfig],
        filtered: bool,
    ):
        """Mix corpora.

        Args:
          joined: the corpora.
          whole: the same with dev and test sets.
          configs: the settings of each, which name its filters.
          filtered: whether the filters are applied.
        """
        self._whole = whole
        self.parts: dict[str, Corpus] = {}
        for name, corpus in joined.corpora.items():
            if isinstance(whole, HeldOutCorpus):
                corpus = _WithoutHeldOut(corpus, whole)
            filters = read_filters(configs[name]) if filtered else []
            self.parts[name] = FilteredCorpus(corpus, filters, name) if filters else corpus

    def pairs(self, split: str) -> Iterator[Pair]:
        if split != 'train':
            return self._whole.pairs(split)
        return itertools.chain.from_iterable(part.pairs('train') for part in self.parts.values())

    def fingerprint(self, split: str) -> str:
        if split != 'train':
            return self._whole.fingerprint(split)
        parts = self.parts.items()
        return content_digest(text for n, part in parts for text in (n, part.fingerprint('train')))


class _WithoutHeldOut:
    """The training pairs of a corpus without those that are held out of all corpora together."""

    def __init__(self, corpus: NamedCorpus, whole: HeldOutCorpus):
        self._corpus, self._whole = corpus, whole

    def pairs(self, split: str) -> Iterator[Pair]:
        return self._whole.kept(self._corpus.pairs(split))

    def fingerprint(self, split: str) -> str:
        return content_digest([self._corpus.fingerprint(split), self._whole.fingerprint(split)])
