"""The phrasebook: an endless English-French corpus from a small bilingual grammar.

A seed and the tables of the grammar determine every sentence; nothing is downloaded. Every English
sentence has one translation.
"""

import functools
import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

from transformer_jax.config import DataConfig
from transformer_jax.data.phrasebook_grammar import (
    ADJECTIVES,
    DESCRIPTIONS,
    FRAMES,
    LINKS,
    NOUNS,
    NUMBERS,
    PLACES,
    POSSESSIVES,
    PRONOUNS,
    PUBLIC,
    SINGULAR,
    VERBS,
    WHO,
    Phrase,
    Verb,
    agree,
    chain,
    clause,
    noun_phrase,
    sentence,
)
from transformer_jax.data.text_files import Pair
from transformer_jax.errors import UserError
from transformer_jax.storage.cache import content_digest

T = TypeVar('T')

# Raise it whenever the generated sentences change, so that neither a cache nor a resumed run mixes
# old and new ones.
EDITION = 1
HELD_OUT = (
    (
        'The black cat sat on the couch and the brown dog slept on the rug.',
        'Le chat noir était assis sur le canapé et le chien marron dormait sur le tapis.',
    ),
)

_ADJECTIVES_OF = {kind: row[1:] for row in DESCRIPTIONS for kind in row[0].split()}
_FEEL = next(verb for verb in FRAMES if verb.who == 'people' and 'tired' in verb.what)
_PERSONAL = [v for v in FRAMES if v.who in ('people', 'living') and v is not _FEEL]
_STAND_INS = {(p.person, p.feminine): p for p in PRONOUNS.values()}


@functools.cache
def _members(groups: str) -> list[str]:
    """Return the nouns of a list of kinds and single nouns."""
    words = groups.replace('living', 'people animal').replace('people', 'person kin').split()
    return [name for name, noun in NOUNS.items() if noun.kind in words or name in words]


class _Speaker:
    """Draws one sentence, in which no noun occurs twice."""

    def __init__(self, rng: random.Random):
        self.random = rng.random
        self.used: set[str] = set()

    def pick(self, choices: Sequence[T]) -> T:
        # Only rng.random is guaranteed to give the same numbers in every version of Python.
        return choices[int(self.random() * len(choices))]

    def phrase(self, groups: str, determiners: str, plain: bool = False, **more: bool) -> Phrase:
        """Return a noun of the groups with a determiner and, unless plain, adjectives."""
        name = self.pick([name for name in _members(groups) if name not in self.used])
        self.used.add(name)
        kind = NOUNS[name].kind
        plural = kind not in SINGULAR and self.random() < 0.3
        determiner = 'own' if kind == 'kin' else self.pick(determiners.split())
        if determiner == 'own':
            determiner = 'the' if kind in PUBLIC else self.pick(list(POSSESSIVES))
        elif determiner == 'a' and plural and self.random() < 0.5:
            determiner = self.pick(list(NUMBERS))
        options = [] if plain else [w.split() for w in _ADJECTIVES_OF[kind]]
        adjectives = [self.pick(words) for words in options if self.random() < 0.25]
        return noun_phrase(determiner, name, *adjectives, plural=plural, **more)

    def subject(self, verb: Verb, pronouns: bool = True) -> Phrase:
        if pronouns and verb.who in ('people', 'living') and self.random() < 0.35:
            return self.pick(list(PRONOUNS.values()))
        is_be = verb.english == 'be - -'  # no adjectives, to avoid 'the happy man was sad'
        return self.phrase(verb.who, 'the own' if is_be else 'the the the a own', plain=is_be)

    def clause(self, verb: Verb, subject: Phrase, past: bool, mood: str = '') -> Phrase:
        """Return a clause with the verb's object, if it takes one, and perhaps a place."""
        base, _, ing, *_ = verb.english.split()
        rest = []
        if base == 'be' and verb.what:
            adjective = self.pick(verb.what.split())
            agreed = agree(ADJECTIVES[adjective], subject.feminine, subject.person > 1)
            rest.append(Phrase(adjective, (agreed,)))
        elif verb.what:
            # Objects after a preposition are definite: not 'à un marché'.
            direct = ' ' not in verb.french
            determiners, negated = ('the a a own', mood == 'not') if direct else ('the own', False)
            rest.append(self.phrase(verb.what, determiners, negated=negated))
        if verb.where and (not verb.what or self.random() < 0.4):
            english, french, nouns = PLACES[self.pick(verb.where.split())]
            rest += [Phrase(english, tuple(french.split())), self.phrase(nouns, 'the the own')]
        ongoing = ing != '-' and self.random() < 0.35
        tense = ('past' if past else 'present') + ' progressive' * ongoing
        return clause(subject, verb, tense, *rest, mood=mood)

    def any_clause(self, past: bool, mood: str = '', pronouns: bool = True) -> Phrase:
        verb = self.pick(FRAMES)
        return self.clause(verb, self.subject(verb, pronouns), past, mood)


def sentence_pair(rng: random.Random) -> tuple[str, str]:
    """Return a random (English, French) pair."""
    speaker, form = _Speaker(rng), rng.random()
    past, mood = rng.random() < 0.6, speaker.pick(['', '', '', '', 'not'])
    if form < 0.14:
        return sentence(speaker.any_clause(past, '?'), '?')
    if form < 0.18:
        return sentence(speaker.clause(speaker.pick(_PERSONAL), WHO, past), '?')
    if form < 0.21:
        asked = speaker.phrase('living thing text clothes food', 'the own')
        be = clause(asked, VERBS['be'], 'past' if past else 'present', mood='where')
        return sentence(be, '?')
    if form < 0.6:
        return sentence(speaker.any_clause(past, mood))
    if form < 0.87:  # a second pronoun could refer to the first subject
        first, second = speaker.any_clause(past, mood), speaker.any_clause(past, pronouns=False)
        return sentence(chain(first, LINKS[speaker.pick(['and', 'and', 'but'])], second))
    subject = speaker.subject(_FEEL)
    first = speaker.clause(speaker.pick(_PERSONAL), subject, past, mood)
    # 'they' is always 'ils', so it cannot stand for several women.
    same = _STAND_INS.get((subject.person, subject.feminine)) or speaker.subject(_FEEL, False)
    return sentence(chain(first, LINKS['because'], speaker.clause(_FEEL, same, past)))


def generate(*, seed: int, train: int, dev: int, test: int) -> dict[str, list[tuple[str, str]]]:
    """Generate splits of the given sizes, in which no English sentence occurs twice.

    The pair in `HELD_OUT` is the last of test. Dev and test do not depend on the size of train, so
    that models trained on more or fewer pairs can be compared.

    Raises:
      ValueError: if a size is negative.
    """
    sizes = {'test': test, 'dev': dev, 'train': train}
    for split, size in sizes.items():
        if size < 0:
            raise ValueError(f'the {split} split cannot have {size} pairs')
    rng = random.Random(seed)
    seen = {english for english, _ in HELD_OUT}
    splits: dict[str, list[tuple[str, str]]] = {'train': [], 'dev': [], 'test': []}
    for split, size in sizes.items():
        last = HELD_OUT[:size] if split == 'test' else ()
        while len(splits[split]) < size - len(last):
            pair = sentence_pair(rng)
            if pair[0] not in seen:
                seen.add(pair[0])
                splits[split].append(pair)
        splits[split].extend(last)
    return splits


class PhrasebookCorpus:
    """The embedded English-French pairs, generated at their first use."""

    def __init__(self, config: DataConfig):
        languages = (config.source_language, config.target_language)
        if languages in (('en', 'en'), ('fr', 'fr')):
            raise UserError(
                f'data.target_language={config.target_language!r} is also the source language: the '
                "phrasebook translates from 'en' into 'fr' or back, so choose one of these, or "
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
        # From the settings, so that pairs whose tokens are cached need not be generated.
        sizes = [*self._sizes.values(), self._train_size if split == 'train' else 0]
        settings = (EDITION, split, self._reverse, self._seed, *sizes)
        return content_digest(map(str, settings))

    @functools.cached_property
    def _train(self) -> list[Pair]:
        return generate(seed=self._seed, train=self._train_size, **self._sizes)['train']

    @functools.cached_property
    def _held_out(self) -> dict[str, list[Pair]]:
        return generate(seed=self._seed, train=0, **self._sizes)
