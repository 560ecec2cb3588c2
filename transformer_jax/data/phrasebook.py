def noun_phrase(
    determiner: str, name: str, *adjectives: str, plural: bool = False, negated: bool = False
) -> Phrase:
    """A determiner, adjectives in English order, and a noun, one or several of it.

    The determiner 'a' becomes 'some' where it must, and 'any' in the object of a negation.
    """
    noun, before, after = NOUNS[name], [], []
    for adjective in adjectives:
        word = agree(ADJECTIVES[adjective], noun.feminine, plural)
        (before if adjective in _BEFORE_NOUN else after).append(word)
    forms = _DETERMINERS[determiner].split('/')
    article = forms[-1 if plural else noun.feminine]
    is_some = determiner == 'a' and (plural or noun.kind in ('mass', 'drink'))
    if determiner == 'a' and (negated or (plural and before)):
        article = 'de'  # 'de petits chats', not 'des'
    elif is_some and not plural:
        article = 'de la' if noun.feminine else 'de le'
    words = [*article.split(), *before]
    if not plural and _starts_with_vowel(noun.french[0]):
        words[-1] = _BEFORE_VOWEL.get(words[-1], words[-1])
    english = ' '.join([*adjectives, noun.english[plural]])
    if is_some:
        determiner = 'any' if negated else 'some'
    elif determiner == 'a' and english[0] in 'aeiou':
        determiner = 'an'
    french = (*words, noun.french[plural], *after)
    return Phrase(f'{determiner} {english}', french, 4 if plural else 1, noun.feminine)


def place(name: str, where: Phrase) -> Phrase:
    """A phrase of place: place('near', ...) is 'near the tree'."""
    english, french, _ = PLACES[name]
    return Phrase(f'{english} {where.english}', (*french.split(), *where.french))


def description(subject: Phrase, adjective: str) -> Phrase:
    """An adjective that agrees with the subject, to follow 'be'."""
    french = agree(ADJECTIVES[adjective], subject.feminine, subject.person > 1)
    return Phrase(adjective, (french,))


def _english_verb(verb: Verb, tense: str, person: int) -> tuple[str, str, str]:
    """The auxiliary, the verb that follows it, and the verb of statements."""
    if tense.endswith('progressive'):
        present, past = ('am', 'is', 'are', 'are', 'are')[person], 'was' if person < 2 else 'were'
        be = past if tense.startswith('past') else present
        return be, verb.ing, f'{be} {verb.ing}'.strip()
    if tense == 'past':
        return 'did', verb.base, verb.past
    return ('does', verb.base, _english_s(verb.base)) if person == 1 else ('do', *[verb.base] * 2)


def clause(subject: Phrase, verb: Verb, tense: str, *rest: Phrase, mood: str = '') -> Phrase:
    """A clause in 'present', 'progressive', 'past' or 'past progressive'.

    The mood is '' for a statement, 'not' for its negation, '?' for a yes-no question and 'where'
    for a question with 'be'. This verb is its own auxiliary and has only progressive tenses.
    """
    person, feminine, plural = subject.person, subject.feminine, subject.person > 1
    auxiliary, bare, finite = _english_verb(verb, tense, person)
    english = {
        '': [subject.english, finite],
        'not': [subject.english, auxiliary, 'not', bare],
        '?': [auxiliary, subject.english, bare],
        'where': ['where', auxiliary, subject.english],
    }[mood] + verb.particles
    participle, present, imperfect = conjugation(verb.infinitive)
    conjugated, after = (imperfect if tense.startswith('past') else present)[person], []
    if tense == 'past' and verb.infinitive not in _STATES:
        with_etre = verb.infinitive in _WITH_ETRE
        conjugated = conjugation('être' if with_etre else 'avoir')[1][person]
        after.append(agree(participle, feminine, plural) if with_etre else participle)
    if verb.tail:  # a posture after 'être', or a preposition
        is_posture = verb.infinitive == 'être'
        after.append(agree(verb.tail, feminine, plural) if is_posture else verb.tail)
    french = {
        '': [*subject.french, conjugated],
        'not': [*subject.french, 'ne', conjugated, 'pas'],
        '?': ['est-ce', 'que', *subject.french, conjugated],
        'where': ['où', conjugated, *subject.french],
    }[mood] + after
    english += [phrase.english for phrase in rest]
    french += [word for phrase in rest for word in phrase.french]
    return Phrase(' '.join(filter(None, english)), tuple(french))


def join(first: Phrase, link: str, second: Phrase) -> Phrase:
    """Two clauses with 'and', 'but' or 'because' between them."""
    french = {'and': ['et'], 'but': ['mais'], 'because': ['parce', 'que']}[link]
    words = (*first.french, *french, *second.french)
    return Phrase(f'{first.english} {link} {second.english}', words)


def sentence(phrase: Phrase, mark: str = '.') -> tuple[str, str]:
    """The (English, French) pair of a clause and its '.' or '?'."""
    # French puts a space before a question mark.
    english, french = phrase.english + mark, spell(phrase.french) + ' ' * (mark == '?') + mark
    return english[0].upper() + english[1:], french[0].upper() + french[1:]


# ------------------------------------------------------------------------------------- dice

_ADJECTIVES_OF = {
    kind: (before.split(), after.split())
    for kinds, before, after in _DESCRIPTIONS
    for kind in kinds.split()
}
_PERSONAL = [verb for verb in _FRAMES if verb.who in ('people', 'living')]
_FEEL = next(verb for verb in _FRAMES if verb.base == 'be' and verb.who == 'people')


@cache
def _members(groups: str) -> list[str]:
    """The nouns of a list of kinds and single nouns."""
    kinds = groups.replace('living', 'people animal').replace('people', 'person kin').split()
    return [name for name, noun in NOUNS.items() if noun.kind in kinds or name in kinds]


class _Speaker:
    """Makes up one sentence, in which no noun comes twice."""

    def __init__(self, rng: random.Random):
        self.random = rng.random
        self._said: set[str] = set()

    def pick(self, choices: Sequence[T]) -> T:
        # Not rng.choice: only rng.random is promised to give the same numbers in every Python.
        return choices[int(self.random() * len(choices))]

    def phrase(
        self, groups: str, determiners: str, plain: bool = False, negated: bool = False
    ) -> Phrase:
        """A noun of the groups with one of the determiners and, unless plain, adjectives."""
        name = self.pick([name for name in _members(groups) if name not in self._said])
        self._said.add(name)
        kind = NOUNS[name].kind
        determiner = 'own' if kind == 'kin' else self.pick(determiners.split())
        # Not 'near some trees': 'près de' takes no 'des'.
        plural = kind not in _SINGULAR and self.random() < 0.3
        if determiner == 'own':
            determiner = 'the' if kind in _PUBLIC else self.pick(list(_POSSESSIVES))
        elif plural and determiner == 'a' and self.random() < 0.5:
            determiner = self.pick(list(_NUMBERS))
        options = () if plain else _ADJECTIVES_OF[kind]
        adjectives = [self.pick(words) for words in options if self.random() < 0.25]
        return noun_phrase(determiner, name, *adjectives, plural=plural, negated=negated)
