"""The phrasebook: an endless English-French corpus from a small bilingual grammar.

A seed and the tables of the grammar determine every sentence; nothing is downloaded. Every English
sentence has one translation.
"""

import functools
import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

from transformer_jax.config import DataConfig
from transformer_jax.data.corpora.text_files import Pair
from transformer_jax.data.phrasebook.grammar import (
    DESCRIPTIONS,
    DONE_TO,
    FRAMES,
    IT,
    LINKS,
    NOUNS,
    NUMBERS,
    PLACES,
    POSSESSIVES,
    PRONOUNS,
    PUBLIC,
    SINGULAR,
    TOO_TIRED_TO,
    VERBS,
    WHO,
    Phrase,
    Verb,
    chain,
    clause,
    feeling,
    judgement,
    noun_phrase,
    passive,
    sentence,
)
from transformer_jax.errors import UserError
from transformer_jax.storage.cache import content_digest

T = TypeVar('T')

# Raise it whenever the generated sentences change, so that neither a cache nor a resumed run mixes
# old and new ones.
EDITION = 2
HELD_OUT = (
    ('The cat sat on the mat.', 'Le chat était assis sur la natte.'),
    (
        'The cat slept on the couch. It was too tired to get up.',
        'Le chat dormait sur le canapé. Il était trop fatigué pour se lever.',
    ),
    (
        'The cat sat on the rug and it was dry-cleaned.',
        'Le chat était assis sur le tapis et il a été nettoyé à sec.',
    ),
    (
        'It is easy to translate languages with transformers.',
        'Il est facile de traduire des langues avec des transformers.',
    ),
    (
        'The black cat sat on the couch and the brown dog slept on the rug.',
        'Le chat noir était assis sur le canapé et le chien marron dormait sur le tapis.',
    ),
)

_ADJECTIVES_OF = {kind: row[1:] for row in DESCRIPTIONS for kind in row[0].split()}
_FEEL = next(verb for verb in FRAMES if verb.who == 'people' and 'tired' in verb.what)
_PERSONAL = [v for v in FRAMES if v.who in ('people', 'living') and v is not _FEEL]
_STAND_INS = {(p.person, p.feminine): p for p in PRONOUNS.values()}
# Verbs of the living without another animal in the clause, which 'it' could be.
_ALONE = [verb for verb in FRAMES if verb.who == 'living' and verb.english[:2] not in ('be', 'pl')]
_POSTURES = ('sleep', 'sit', 'lie')
# What is easy or hard: verb | objects without an article | other objects | tools.
_TASKS = (
    ('translate', 'language', 'text', 'tool'),
    ('translate', 'word text', 'text', 'tool'),
    ('learn', 'language', 'language', 'tool'),
    ('write', 'text', 'text', 'computer'),
    ('open', 'container', 'container', ''),
)


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

    def phrase(
        self, groups: str, determiners: str, plain: bool = False, single: bool = False, **more: bool
    ) -> Phrase:
        """Return a noun of the groups with a determiner and, unless plain, adjectives.

        A noun that is `single` is never in the plural.
        """
        name = self.pick([name for name in _members(groups) if name not in self.used])
        self.used.add(name)
        kind = NOUNS[name].kind
        plural = not single and kind not in SINGULAR and self.random() < 0.3
        determiner = 'own' if kind == 'kin' else self.pick(determiners.split())
        if determiner == 'own':
            determiner = 'the' if kind in PUBLIC else self.pick(list(POSSESSIVES))
        elif determiner == 'a' and plural and self.random() < 0.5:
            determiner = self.pick(list(NUMBERS))
        options = [] if plain else [w.split() for w in _ADJECTIVES_OF[kind] if w]
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
            rest.append(self.feeling(verb.what, subject))
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

    def feeling(self, adjectives: str, subject: Phrase) -> Phrase:
        adjective, cannot = self.pick(adjectives.split()), ''
        if adjective in ('tired', 'sick') and self.random() < 0.5:
            cannot = 'get up' if self.random() < 0.4 else self.pick(list(TOO_TIRED_TO))
        return feeling(adjective, subject, cannot)

    def bare(self, groups: str) -> Phrase:
        """Return a plural without an article in English: 'letters', 'des lettres'."""
        some = noun_phrase('a', self.pick(_members(groups)), plural=True)
        return some._replace(english=some.english.removeprefix('some '))

    def any_clause(self, past: bool, mood: str = '', pronouns: bool = True) -> Phrase:
        verb = self.pick(FRAMES)
        return self.clause(verb, self.subject(verb, pronouns), past, mood)


def sentence_pair(rng: random.Random) -> tuple[str, str]:
    """Return a random (English, French) pair."""
    speaker, form = _Speaker(rng), rng.random()
    past, mood = rng.random() < 0.6, speaker.pick(['', '', '', '', 'not'])
    if form < 0.12:
        return sentence(speaker.any_clause(past, '?'), '?')
    if form < 0.16:
        return sentence(speaker.clause(speaker.pick(_PERSONAL), WHO, past), '?')
    if form < 0.19:
        asked = speaker.phrase('living thing text clothes food', 'the own')
        be = clause(asked, VERBS['be'], 'past' if past else 'present', mood='where')
        return sentence(be, '?')
    if form < 0.5:
        return sentence(speaker.any_clause(past, mood))
    if form < 0.73:  # a second pronoun could refer to the first subject
        first, second = speaker.any_clause(past, mood), speaker.any_clause(past, pronouns=False)
        return _joined(speaker, first, second, ['and', 'and', 'and', 'but', '.'])
    if form < 0.83:
        subject = speaker.subject(_FEEL)
        first = speaker.clause(speaker.pick(_PERSONAL), subject, past, mood)
        # 'they' is always 'ils', so it cannot stand for several women.
        same = _STAND_INS.get((subject.person, subject.feminine)) or speaker.subject(_FEEL, False)
        return _joined(
            speaker, first, speaker.clause(_FEEL, same, past), ['because', 'because', '.']
        )
    if form < 0.9:
        animal = speaker.phrase('animal', 'the own', single=True)
        first = speaker.clause(speaker.pick(_ALONE), animal, past, mood)
        same = speaker.clause(_FEEL, IT[animal.feminine], past)
        return _joined(speaker, first, same, ['because', 'and', '.'])
    if form < 0.94:
        return _something_done(speaker)
    return sentence(_task(speaker))


def _joined(
    speaker: _Speaker, first: Phrase, second: Phrase, links: Sequence[str]
) -> tuple[str, str]:
    """Return two clauses with one of the links between them, or as two sentences for '.'."""
    link = speaker.pick(links)
    if link != '.':
        return sentence(chain(first, LINKS[link], second))
    both = zip(sentence(first), sentence(second), strict=True)
    english, french = (' '.join(texts) for texts in both)
    return english, french


def _something_done(speaker: _Speaker) -> tuple[str, str]:
    """Return a sentence on something that was dry-cleaned, repaired or painted."""
    done, _, things = speaker.pick(DONE_TO)
    if speaker.random() < 0.3:
        return sentence(passive(speaker.phrase(things, 'the own'), done))
    subject = speaker.phrase('living', 'the own')
    thing = speaker.phrase(things, 'the own', single=True)
    posture = VERBS[speaker.pick(_POSTURES)]
    first = clause(subject, posture, 'past', Phrase('on', ('sur',)), thing)
    return _joined(speaker, first, passive(IT[thing.feminine], done), ['and', 'but', '.'])


def _task(speaker: _Speaker) -> Phrase:
    """Return a clause on what is easy or hard to do."""
    verb, bare, objects, tools = speaker.pick(_TASKS)
    is_bare = speaker.random() < 0.6
    rest = [speaker.bare(bare) if is_bare else speaker.phrase(objects, 'the own')]
    if tools and speaker.random() < 0.5:
        rest += [Phrase('with', ('avec',)), speaker.bare(tools)]
    return judgement(speaker.pick(['easy', 'hard']), verb, *rest)


def generate(*, seed: int, train: int, dev: int, test: int) -> dict[str, list[tuple[str, str]]]:
    """Generate splits of the given sizes, in which no English sentence occurs twice.

    The pairs in `HELD_OUT` are the last of test. Dev and test do not depend on the size of train,
    so that models trained on more or fewer pairs can be compared.

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
        last = HELD_OUT[-size:] if split == 'test' and size else ()
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
