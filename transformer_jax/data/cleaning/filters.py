"""Filters of training pairs: each counts what it drops, and shows examples."""

import logging
import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from transformer_jax.config import DataConfig
from transformer_jax.data.cleaning.hash_set import HashSet
from transformer_jax.data.cleaning.letters import characters, composed, readings
from transformer_jax.data.cleaning.source_tags import without_codes
from transformer_jax.data.corpora.text_files import Pair, TextFile
from transformer_jax.data.language_codes import language_of
from transformer_jax.errors import UserError, did_you_mean, shown
from transformer_jax.storage.buckets import local_path
from transformer_jax.storage.cache import content_digest

_logger = logging.getLogger('transformer_jax')
_RULES = 2  # raise it when filters drop other pairs, because fingerprints must change too
_EXAMPLES = 3
_LETTERS_TO_KNOW = 20  # a language cannot be told from fewer letters

# Whether a pair is to be dropped.
Drops = Callable[[str, str], bool]


class Filter(NamedTuple):
    """A filter of `data.filters`.

    Attributes:
      name: as it is written there, for example 'ratio=3'.
      make: returns the function that decides; called for each pass over the corpus.
      file: what it reads besides the pairs, or None.
    """

    name: str
    make: Callable[[], Drops]
    file: TextFile | None = None


class Found(NamedTuple):
    """What a filter has dropped in a pass.

    Attributes:
      name: of the filter.
      dropped: number of pairs.
      examples: the first of them.
    """

    name: str
    dropped: int
    examples: tuple[Pair, ...]


def read_filters(config: DataConfig) -> list[Filter]:
    """Return the filters that data.filters names.

    Raises:
      UserError: if there is no such filter, or its value is wrong.
    """
    return [_read(word, config) for word in config.filters.split()]


class FilteredCorpus:
    """A corpus whose training pairs pass filters. Dev and test stay as they are."""

    def __init__(self, corpus: Any, filters: Sequence[Filter], name: str = ''):
        """Filter the training pairs of a corpus.

        Args:
          corpus: a `Corpus`.
          filters: the filters, in the order in which they are asked.
          name: of the corpus, if it is one of several.
        """
        self._corpus, self._filters, self._name = corpus, filters, name
        self._said = False

    def pairs(self, split: str) -> Iterator[Pair]:
        return self._passing() if split == 'train' else self._corpus.pairs(split)

    def fingerprint(self, split: str) -> str:
        own = self._corpus.fingerprint(split)
        if split != 'train':
            return own
        files = [one.file.digest().hex() for one in self._filters if one.file is not None]
        names = (one.name for one in self._filters)
        return content_digest([own, f'rules {_RULES}', *names, *files])

    def _passing(self) -> Iterator[Pair]:
        counter = FilterCounter(self._filters)
        for pair in self._corpus.pairs('train'):
            if counter.keeps(pair):
                yield pair
        if not self._said:  # the corpus is read twice, for the vocabulary and for the tokens
            self._said = True
            for line in counter.report():
                _logger.info('%s%s', f'{self._name}: ' if self._name else '', line)


class FilterCounter:
    """Applies filters one after the other and counts what each drops."""

    def __init__(self, filters: Sequence[Filter]):
        """Begin a pass over a corpus."""
        self._filters = [(one.name, one.make()) for one in filters]
        self._dropped: Counter[str] = Counter()
        self._examples: dict[str, list[Pair]] = {one.name: [] for one in filters}
        self.total = 0

    def keeps(self, pair: Pair) -> bool:
        """Return whether a pair passes all filters; the first that drops it counts it."""
        self.total += 1
        for name, drops in self._filters:
            if drops(*pair):
                self._dropped[name] += 1
                if len(self._examples[name]) < _EXAMPLES:
                    self._examples[name].append(pair)
                return False
        return True

    def found(self) -> list[Found]:
        """Return what each filter has dropped."""
        return [
            Found(name, self._dropped[name], tuple(self._examples[name]))
            for name, _ in self._filters
        ]

    def report(self) -> list[str]:
        """Return what each filter has dropped, for people."""
        lines = []
        for one in self.found():
            share = 100 * one.dropped / max(1, self.total)
            lines.append(f'Filter {one.name} dropped {one.dropped:,} pairs ({share:.2f} %).')
            lines += [f'    {_short(source)} | {_short(target)}' for source, target in one.examples]
        return lines


def _short(text: str) -> str:
    text = ' '.join(text.split())
    return text if len(text) <= 60 else f'{text[:57]}...'


def _read(word: str, config: DataConfig) -> Filter:
    name, equals, value = word.partition('=')
    if name not in _KINDS:
        raise UserError(
            f'data.filters={shown(config.filters)}: {name!r} is no filter; there are '
            f'{", ".join(_KINDS)}{did_you_mean(name, _KINDS)}'
        )
    kind = _KINDS[name]
    if bool(equals) != (kind.value is not None):
        wants = (
            f'needs a value, for example {name}={kind.value}' if kind.value else 'takes no value'
        )
        raise UserError(f'data.filters={shown(config.filters)}: {name} {wants}.')
    try:
        make = kind.make(value, config)
        return Filter(word, make, _scored_file(value) if name == 'score' else None)
    except ValueError as error:
        if isinstance(error, UserError):
            raise
        raise UserError(
            f'data.filters={shown(config.filters)}: {word!r} has a wrong value: write for example '
            f'{name}={kind.value}.'
        ) from None


class _Kind(NamedTuple):
    """A kind of filter: an example of its value, None without one, and what makes its filters."""

    value: str | None
    make: Callable[[str, DataConfig], Callable[[], Drops]]


def _stateless(drops: Drops) -> Callable[[], Drops]:
    return lambda: lambda source, target: drops(without_codes(source), without_codes(target))


def _length(value: str, config: DataConfig) -> Callable[[], Drops]:
    most = _number(value, int, 1)
    return _stateless(lambda s, t: max(len(s.split()), len(t.split())) > most)


def _ratio(value: str, config: DataConfig) -> Callable[[], Drops]:
    most = _number(value, float, 1)

    def drops(source: str, target: str) -> bool:
        short, long = sorted(len(composed(text.strip())) for text in (source, target))
        return long > most * short

    return _stateless(drops)


def _identical(value: str, config: DataConfig) -> Callable[[], Drops]:
    return _stateless(lambda s, t: _plain(s) == _plain(t))


def _repeated(key: Callable[[str, str], str]) -> Callable[[str, DataConfig], Callable[[], Drops]]:
    def make(value: str, config: DataConfig) -> Callable[[], Drops]:
        def of_pass() -> Drops:
            seen = HashSet()
            return lambda source, target: not seen.add(key(source, target))

        return of_pass

    return make


def _letters(value: str, config: DataConfig) -> Callable[[], Drops]:
    least = _number(value, float, 0)

    def share(text: str) -> float:
        shown = characters(''.join(text.split()))
        return sum(one[0].isalpha() for one in shown) / len(shown) if shown else 1.0

    return _stateless(lambda s, t: min(share(s), share(t)) < least)


def _script(value: str, config: DataConfig) -> Callable[[], Drops]:
    wanted = [name.upper() for name in value.split(',')]
    if len(wanted) != 2 or not all(wanted):
        raise ValueError(value)

    def is_other(text: str, script: str) -> bool:
        names = [unicodedata.name(c, '').split(' ')[0].split('-')[0] for c in text if c.isalpha()]
        return 2 * names.count(script) < len(names)

    return _stateless(lambda s, t: is_other(s, wanted[0]) or is_other(t, wanted[1]))


def _digits(value: str, config: DataConfig) -> Callable[[], Drops]:
    def drops(source: str, target: str) -> bool:
        known = [*readings(source)]
        return not any(one in known for one in readings(target))

    return _stateless(drops)


def _language(value: str, config: DataConfig) -> Callable[[], Drops]:
    try:
        import py3langid
    except ModuleNotFoundError as error:
        raise UserError(
            "data.filters: language needs a package: pip install 'transformer_jax[language]'."
        ) from error
    languages = [*map(language_of, (config.source_language, config.target_language))]

    def is_other(text: str, language: str) -> bool:
        if sum(map(str.isalpha, text)) < _LETTERS_TO_KNOW:
            return False
        return py3langid.classify(composed(text))[0] != language

    return _stateless(lambda s, t: is_other(s, languages[0]) or is_other(t, languages[1]))


def _scored_file(value: str) -> TextFile:
    return TextFile('data.filters', local_path(value.partition(':')[2], 'data.filters'))


def _score(value: str, config: DataConfig) -> Callable[[], Drops]:
    threshold, _, path = value.partition(':')
    least = _number(threshold, float, -math.inf)
    if not path:
        raise ValueError(value)
    file = _scored_file(value)
    file.digest()  # a missing file should be named before anything is read

    def of_pass() -> Drops:
        low = HashSet()
        for number, line in enumerate(file.sentences(), 1):
            fields = line.split('\t')
            try:
                source, target, _, mean, _ = fields
                # '-' is no number, because the model failed on the pair.
                is_low = mean == '-' or not float(mean) >= least
            except ValueError:
                raise UserError(
                    f'{file}, line {number}, is not SOURCE, TARGET and the three numbers of the '
                    'command score, with tabs between: paste the pairs and their scores.'
                ) from None
            if is_low:
                low.add(_pair(source, target))
        return lambda source, target: _pair(source, target) in low

    return of_pass


def _number(value: str, kind: type, least: float) -> Any:
    number = kind(value)
    if not number >= least:
        raise ValueError(value)
    return number


def _pair(source: str, target: str) -> str:
    return '\n'.join(' '.join(composed(without_codes(text)).split()) for text in (source, target))


def _plain(text: str) -> str:
    return composed(composed(' '.join(text.split())).casefold())


_KINDS = {
    'length': _Kind('100', _length),
    'ratio': _Kind('3', _ratio),
    'identical': _Kind(None, _identical),
    'duplicates': _Kind(None, _repeated(lambda s, t: f'{_plain(s)}\n{_plain(t)}')),
    'source_duplicates': _Kind(None, _repeated(lambda s, t: _plain(s))),
    'target_duplicates': _Kind(None, _repeated(lambda s, t: _plain(t))),
    'letters': _Kind('0.5', _letters),
    'script': _Kind('latin,cyrillic', _script),
    'digits': _Kind(None, _digits),
    'language': _Kind(None, _language),
    'score': _Kind('-3:scored.tsv', _score),
}
