"""Training pairs in other spellings: upper case, title case, typos (as OpusTrainer has them).

Each spelling of a whole corpus is tokenised once. The plan then draws in each round which pairs are
seen in which spelling, so that the batch of a step stays a function of the seed and the step.
"""

import random
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from transformer_jax.config import DataConfig
from transformer_jax.data.cleaning.letters import characters, is_word
from transformer_jax.data.cleaning.source_tags import outside_codes
from transformer_jax.data.corpora.text_files import Pair
from transformer_jax.errors import UserError, did_you_mean
from transformer_jax.storage.cache import content_digest

if TYPE_CHECKING:
    from transformer_jax.data.corpora.corpus_types import Corpus

_RULES = 2  # raise it when spellings change, because fingerprints must change too
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
    """A corpus in a spelling; language codes in its texts stay as they are."""

    def __init__(self, corpus: 'Corpus', name: str):
        """Take the name of a spelling."""
        self._corpus, self._name = corpus, name

    def pairs(self, split: str) -> Iterator[Pair]:
        kind = _KINDS[self._name]
        for source, target in self._corpus.pairs(split):
            changed = outside_codes(kind.change, source)
            yield changed, outside_codes(kind.change, target) if kind.is_of_both else target

    def fingerprint(self, split: str) -> str:
        return content_digest([self._corpus.fingerprint(split), self._name, f'rules {_RULES}'])


def _with_typos(text: str) -> str:
    """Return a text with a typo in about every tenth word, always the same ones."""
    draw = random.Random(zlib.crc32(text.encode()))
    words = text.split(' ')
    letters = {k: found for k, word in enumerate(words) if is_word(found := characters(word))}
    places = [k for k, found in letters.items() if len(found) >= _SHORTEST]
    for k in draw.sample(places, min(len(places), -(-len(words) // _WORDS_PER_TYPO))):
        words[k] = ''.join(_mistyped(letters[k], draw))
    return ' '.join(words)


def _mistyped(word: list[str], draw: random.Random) -> list[str]:
    """Return a word with two letters swapped, one left out, or one doubled; not the first."""
    k = draw.randrange(1, len(word) - 1)
    return draw.choice(
        [
            [*word[:k], word[k + 1], word[k], *word[k + 2 :]],
            word[:k] + word[k + 1 :],
            word[: k + 1] + word[k:],
        ]
    )


def _title(text: str) -> str:
    # Not str.title, which turns "don't" into "Don'T".
    return ' '.join(word[:1].upper() + word[1:] for word in text.split(' '))


class _Kind(NamedTuple):
    """A kind of spelling: what changes a text, and whether targets are changed too."""

    change: Callable[[str], str]
    is_of_both: bool


_KINDS = {
    'upper': _Kind(str.upper, True),
    'title': _Kind(_title, True),
    'typos': _Kind(_with_typos, False),
}
