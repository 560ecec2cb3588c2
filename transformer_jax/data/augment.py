"""Training pairs in other spellings: upper case, title case, typos (as OpusTrainer has them).

Each spelling of a whole corpus is tokenised once. The plan then draws in each round which pairs are
seen in which spelling, so that the batch of a step stays a function of the seed and the step.
"""

import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from transformer_jax.config import DataConfig
from transformer_jax.data.filters import without_tag
from transformer_jax.data.text_files import Pair
from transformer_jax.errors import UserError, did_you_mean
from transformer_jax.storage.cache import content_digest

if TYPE_CHECKING:
    from transformer_jax.data.corpus import Corpus

_WORDS_PER_TYPO = 10
_SHORTEST = 4  # letters of a word that may get a typo


class Augmentation(NamedTuple):
    """A spelling of data.augment.

    Attributes:
      name: for example 'upper'.
      rate: share of the pairs that are seen in it.
    """

    name: str
    rate: float


def read_augment(config: DataConfig) -> list[Augmentation]:
    """Return the spellings that data.augment names.

    Raises:
      UserError: if there is no such spelling, or the rates are wrong.
    """
    text, found = config.augment, {}
    for word in text.split():
        name, _, value = word.partition('=')
        if name not in _KINDS:
            raise UserError(
                f'data.augment={text!r} has {name!r}, which is none of {", ".join(_KINDS)}'
                f'{did_you_mean(name, _KINDS)}'
            )
        try:
            rate = float(value)
        except ValueError:
            rate = -1.0
        if not 0 < rate < 1 or name in found:
            raise UserError(
                f'data.augment={text!r} has {word!r}: write {name}=RATE once, with a share of the '
                'pairs above 0 and below 1, for example 0.05.'
            )
        found[name] = Augmentation(name, rate)
    if sum(one.rate for one in found.values()) > 1:
        raise UserError(f'data.augment={text!r} has rates of more than 1 together: lower them.')
    return list(found.values())


class RespeltCorpus:
    """A corpus in a spelling; the tags that sources begin with stay as they are."""

    def __init__(self, corpus: 'Corpus', name: str, tags: Sequence[str] = ()):
        """Take the name of a spelling, and the tags."""
        self._corpus, self._name, self._tags = corpus, name, tags

    def pairs(self, split: str) -> Iterator[Pair]:
        change = _KINDS[self._name]
        for source, target in self._corpus.pairs(split):
            plain = without_tag(source, *self._tags)
            tag = source[: len(source) - len(plain)]
            changed, target = change(plain, target)
            yield tag + changed, target

    def fingerprint(self, split: str) -> str:
        return content_digest([self._corpus.fingerprint(split), self._name, *self._tags])


def _typos(source: str, target: str) -> Pair:
    """Return a source with a typo in about every tenth word, always the same ones."""
    draw = random.Random(zlib.crc32(source.encode()))
    words = source.split(' ')
    places = [k for k, word in enumerate(words) if len(word) >= _SHORTEST and word.isalpha()]
    for k in draw.sample(places, min(len(places), -(-len(words) // _WORDS_PER_TYPO))):
        words[k] = _mistyped(words[k], draw)
    return ' '.join(words), target


def _mistyped(word: str, draw: random.Random) -> str:
    """Return a word with two letters swapped, one left out, or one doubled; not the first."""
    k = draw.randrange(1, len(word) - 1)
    return draw.choice(
        [
            word[:k] + word[k + 1] + word[k] + word[k + 2 :],
            word[:k] + word[k + 1 :],
            word[: k + 1] + word[k:],
        ]
    )


def _title(text: str) -> str:
    # Not str.title, which turns "don't" into "Don'T".
    return ' '.join(word[:1].upper() + word[1:] for word in text.split(' '))


_KINDS: dict[str, Callable[[str, str], Pair]] = {
    'upper': lambda source, target: (source.upper(), target.upper()),
    'title': lambda source, target: (_title(source), _title(target)),
    'typos': _typos,
}
