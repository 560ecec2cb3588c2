"""What every corpus has."""

from collections.abc import Iterator
from typing import Protocol

from transformer_jax.data.corpora.text_files import Pair


class Corpus(Protocol):
    """Sentence pairs in three splits: 'train', 'dev' and 'test'."""

    def pairs(self, split: str) -> Iterator[Pair]:
        """Yield raw (source, target) sentences, the same in the same order at every call.

        Raises:
          UserError: if the data turn out to be damaged.
        """

    def fingerprint(self, split: str) -> str:
        """Return a hex digest of the content of `pairs(split)`, or of all that determines it."""


class NamedCorpus(Corpus, Protocol):
    """A corpus that may lack dev and test.

    Attributes:
      names: what messages call each split that exists.
    """

    names: dict[str, str]
