"""The phrasebook: an endless English-French corpus from a small bilingual grammar.

A seed and the tables below are all it takes; nothing is downloaded. Every English sentence has one
translation: where English says less than French, a convention decides.

* 'I' is one man, 'we' and 'you' (vous) are several people, 'they' is 'ils'.
* 'child', 'doctor', 'teacher' and 'friend' are masculine.
* The simple past is the passé composé ('ate' -> 'a mangé'), but the imparfait for the verbs of
  state ('slept' -> 'dormait'); 'was eating' is always the imparfait.

Every phrase is built in both languages at once. French is held as a tuple of uncontracted words
('de', 'le', 'homme') until `spell` joins them ("de l'homme"), because elision and contraction
depend on nothing but the next word and so need no grammar.
"""

import random
from collections import namedtuple
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, TypeVar

T = TypeVar('T')
Noun = namedtuple('Noun', 'plural french feminine kind')
Verb = namedtuple('Verb', 'english french who what where')

# To be raised with every change of what is generated: what was made of other sentences is then
# neither taken from the cache nor gone on with.
EDITION = 1
HELD_OUT = (
    (
        'The black cat sat on the couch and the brown dog slept on the rug.',
        'Le chat noir était assis sur le canapé et le chien marron dormait sur le tapis.',
    ),
)


def _pairs(table: str) -> dict[str, str]:
    return dict(entry.split(':') for entry in table.split())


def _rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.split('|')] for row in table.strip().splitlines()]


# By kind, 'english:french:gender'; an irregular English plural follows a slash.
_NOUNS = {
    'person': """man/men:homme:m woman/women:femme:f boy:garçon:m girl:fille:f nurse:infirmière:f
        child/children:enfant:m king:roi:m queen:reine:f doctor:médecin:m teacher:professeur:m""",
    'kin': 'brother:frère:m sister:sœur:f uncle:oncle:m aunt:tante:f friend:ami:m',
    'animal': """cat:chat:m dog:chien:m horse:cheval:m bird:oiseau:m rabbit:lapin:m cow:vache:f
        mouse/mice:souris:f duck:canard:m donkey:âne:m""",
    'food': 'apple:pomme:f pear:poire:f orange:orange:f egg:œuf:m cake:gâteau:m',
    'mass': 'bread:pain:m cheese:fromage:m meat:viande:f',
    'drink': 'water:eau:f milk:lait:m tea:thé:m coffee:café:m',
    'text': 'book:livre:m letter:lettre:f newspaper:journal:m story:histoire:f poem:poème:m',
    'clothes': 'hat:chapeau:m coat:manteau:m shirt:chemise:f dress:robe:f scarf/scarves:écharpe:f',
    'thing': 'key:clé:f cup:tasse:f plate:assiette:f lamp:lampe:f ball:ballon:m clock:horloge:f',
    'container': 'box:boîte:f bag:sac:m basket:panier:m suitcase:valise:f',
    'furniture': 'couch:canapé:m rug:tapis:m table:table:f bed:lit:m chair:chaise:f bench:banc:m',
    'vehicle': 'car:voiture:f boat:bateau:m bicycle:vélo:m',
    'room': 'house:maison:f kitchen:cuisine:f bedroom:chambre:f office:bureau:m',
    'building': """castle:château:m church:église:f hotel:hôtel:m school:école:f station:gare:f
        hospital:hôpital:m museum:musée:m market:marché:m""",
    'outdoors': 'garden:jardin:m park:parc:m forest:forêt:f field:champ:m street:rue:f',
    'landmark': 'tree:arbre:m bridge:pont:m wall:mur:m door:porte:f window:fenêtre:f lake:lac:m',
}
# Kinds of which there is one of each, and kinds of which nobody has his own.
_SINGULAR = {'mass', 'drink', 'room', 'building', 'outdoors'}
_PUBLIC = {'person', 'building', 'outdoors', 'landmark'}

_BEFORE_NOUN = _pairs("""big:grand small:petit young:jeune good:bon bad:mauvais pretty:joli
    long:long old:vieux new:nouveau beautiful:beau""")
ADJECTIVES = _BEFORE_NOUN | _pairs("""black:noir white:blanc brown:marron gray:gris red:rouge
    blue:bleu green:vert yellow:jaune happy:heureux sad:triste tired:fatigué sick:malade hot:chaud
    cold:froid fresh:frais clean:propre dirty:sale heavy:lourd empty:vide quiet:tranquille""")
_FEMININE = _pairs("""bon:bonne long:longue vieux:vieille nouveau:nouvelle beau:belle blanc:blanche
    heureux:heureuse frais:fraîche""")
_BEFORE_VOWEL = _pairs('ma:mon sa:son vieux:vieil nouveau:nouvel beau:bel')
# Kinds of noun | adjectives before it | adjectives after it.
_DESCRIPTIONS = _rows("""
person                 | small young                   | happy sad tired sick
kin                    | young old                     | happy sad tired sick
animal                 | big small young old beautiful | black white brown gray
food mass              | good bad                      | fresh cold
drink                  | good bad                      | hot cold
text                   | good bad long old new         | sad
clothes thing          | old new pretty                | red blue green yellow white clean dirty
container              | big small old new             | red blue green brown empty heavy
vehicle furniture      | big small old new             | red blue yellow white gray heavy
room building outdoors | big small old new beautiful   | empty clean quiet
landmark               | big small beautiful           | white gray green
""")
# 'english:masculine/feminine/plural'.
_POSSESSIVES = _pairs("""my:mon/ma/mes his:son/sa/ses her:son/sa/ses our:notre/notre/nos
    your:votre/votre/vos their:leur/leur/leurs""")
_NUMBERS = _pairs("""two:deux three:trois four:quatre five:cinq six:six seven:sept eight:huit
    nine:neuf ten:dix eleven:onze twelve:douze""")
_DETERMINERS = _pairs('the:le/la/les a:un/une/des') | _POSSESSIVES | _NUMBERS

# Place | English preposition | French preposition | what can follow.
_PLACES = """
indoors  | in          | dans     | room castle hotel school museum
outdoors | in          | dans     | outdoors
public   | at          | à        | market station hospital
seat     | on          | sur      | furniture
under    | under       | sous     | table bed chair bench tree bridge
inside   | in          | dans     | container
near     | near        | près de  | landmark building house vehicle forest
behind   | behind      | derrière | landmark house vehicle
to       | to          | à        | person kin
with     | with        | avec     | person kin
"""
PLACES = {name: row for name, *row in _rows(_PLACES)}
# English | French | who | what (or, for 'be', how) | where; '-' is a form that is not used.
_VERBS = """
eat ate eating             | manger       | living | food mass | indoors outdoors
drink drank drinking       | boire        | people | drink | indoors outdoors
buy bought buying          | acheter      | people | food drink text thing vehicle | public
write wrote writing        | écrire       | people | letter story poem book | indoors seat
open opened opening        | ouvrir       | people | door window container letter book |
break broke breaking       | casser       | people | cup plate lamp clock window chair |
give gave giving           | donner       | people | food thing text clothes | to
speak spoke speaking to    | parler à     | people | people | public near
wait waited waiting for    | attendre     | people | people | public near
play played playing with   | jouer avec   | living | ball cat dog rabbit horse | outdoors
run ran running            | courir       | living | | outdoors behind near
go went going to           | aller à      | people | building park |
come came coming back from | revenir de   | people | building park |
enter entered entering     | entrer dans  | people | room building |
stay stayed staying        | rester       | living | | indoors outdoors near
leave left leaving         | partir       | people | | with
fall fell falling          | tomber       | living | | behind near
want wanted -              | vouloir      | people | food mass drink text thing clothes vehicle |
have had -                 | avoir        | people | animal thing clothes vehicle container |
wear wore wearing          | porter       | people | clothes | outdoors
live lived living in       | habiter dans | people | house castle hotel |
sleep slept sleeping       | dormir       | living | | seat under indoors near
sit sat sitting            | être assis   | living | | seat under indoors near
lie lay lying              | être couché  | living | | seat under outdoors behind
be - -                     | être         | people | happy sad tired sick |
be - -                     | être         | clothes vehicle room | old dirty clean beautiful |
be - -                     | être         | living | | indoors outdoors public near
be - -                     | être         | thing text clothes food | | seat under inside
"""
_FRAMES = [Verb(*row) for row in _rows(_VERBS)]
_STATES = {'vouloir', 'avoir', 'porter', 'habiter', 'dormir', 'être'}  # 'dormait'
_WITH_ETRE = {'aller', 'revenir', 'entrer', 'rester', 'partir', 'tomber'}
# Infinitive, participle, and the present of je, il, nous, vous, ils.
_IRREGULAR = """
être été suis est sommes êtes sont, acheter acheté achète achète achetons achetez achètent,
avoir eu ai a avons avez ont, attendre attendu attends attend attendons attendez attendent,
aller allé vais va allons allez vont, revenir revenu reviens revient revenons revenez reviennent,
boire bu bois boit buvons buvez boivent, écrire écrit écris écrit écrivons écrivez écrivent,
courir couru cours court courons courez courent, dormir dormi dors dort dormons dormez dorment,
vouloir voulu veux veut voulons voulez veulent, partir parti pars part partons partez partent,
ouvrir ouvert ouvre ouvre ouvrons ouvrez ouvrent"""
_CONJUGATED = {verb: forms for verb, *forms in map(str.split, _IRREGULAR.split(','))}


class Phrase(NamedTuple):
    """A piece of a sentence in both languages, with what a verb must know to agree with it."""

    english: str
    french: tuple[str, ...]
    person: int = 1  # an index into (je, il, nous, vous, ils)
    feminine: bool = False


def _english_s(word: str) -> str:
    """Adds the -s of plurals and of the third person."""
    if word[-1] == 'y' and word[-2] not in 'aeou':
        return word[:-1] + 'ies'
    return 'has' if word == 'have' else word + 'e' * word.endswith(('s', 'ch', 'x', 'o')) + 's'


def agree(word: str, feminine: bool, plural: bool) -> str:
    """Makes a French noun plural, or a masculine adjective or participle agree."""
    if word == 'marron':  # a noun (chestnut) that serves as a color
        return word
    if feminine:
        word = _FEMININE.get(word, word + 'e' * (word[-1] != 'e'))
    if not plural or word[-1] in 'sx':
        return word
    return word[:-2] + 'aux' if word.endswith('al') else word + 'sx'[word.endswith('eau')]


@cache
def conjugation(infinitive: str) -> tuple[str, list[str], list[str]]:
    """The participle, the present and the imparfait of a French verb."""
    stem = infinitive[:-2]
    soft = stem + 'e' * stem.endswith('g')  # 'mangeons' keeps the soft sound of its g
    regular = [stem + 'é', stem + 'e', stem + 'e', soft + 'ons', stem + 'ez', stem + 'ent']
    participle, *present = _CONJUGATED.get(infinitive, regular)
    root = 'ét' if infinitive == 'être' else present[2].removesuffix('ons')
    before_i = root.removesuffix('e')
    imperfect = [root + 'ais', root + 'ait', before_i + 'ions', before_i + 'iez', root + 'aient']
    return participle, present, imperfect


NOUNS: dict[str, Noun] = {}
for _kind, _table in _NOUNS.items():
    for _english, _french, _gender in (entry.split(':') for entry in _table.split()):
        _singular, _, _plural = _english.partition('/')
        NOUNS[_singular] = Noun(_plural or _english_s(_singular), _french, _gender == 'f', _kind)
VERBS = {verb.english.split()[0]: verb for verb in _FRAMES}
_links = _pairs('and:et but:mais because:parce_que').items()
LINKS = {english: Phrase(english, tuple(french.split('_'))) for english, french in _links}
_pronouns = enumerate(_pairs('I:je he:il we:nous you:vous they:ils').items())
PRONOUNS = {english: Phrase(english, (french,), person) for person, (english, french) in _pronouns}
PRONOUNS['she'] = Phrase('she', ('elle',), feminine=True)
WHO = Phrase('who', ('qui',))


def _starts_with_vowel(word: str) -> bool:
    return word[0] in 'aeiouhâéêœ' and word not in ('huit', 'onze')  # 'que huit rois'


def spell(words: Sequence[str]) -> str:
    """Joins French words: elides before vowels, then contracts what is left ('de le' -> 'du')."""
    out = [words[-1]]
    for word in reversed(words[:-1]):
        if word in ('le', 'la', 'je', 'ne', 'de', 'que') and _starts_with_vowel(out[-1]):
            word = word[:-1] + "'"
        elif word in ('à', 'de') and out[-1] in ('le', 'les'):
            word = {'àle': 'au', 'àles': 'aux', 'dele': 'du', 'deles': 'des'}[word + out.pop()]
        out.append(word)
    return ' '.join(reversed(out)).replace("' ", "'")


def chain(*phrases: Phrase) -> Phrase:
    """One phrase after the other: chain(clause(...), LINKS['and'], clause(...))."""
    english = ' '.join(phrase.english for phrase in phrases)
    return Phrase(english, tuple(word for phrase in phrases for word in phrase.french))


def sentence(phrase: Phrase, mark: str = '.') -> tuple[str, str]:
    """The (English, French) pair of a clause and its '.' or '?' (in French after a space)."""
    english, french = phrase.english + mark, spell(phrase.french) + ' ' * (mark == '?') + mark
    return english[0].upper() + english[1:], french[0].upper() + french[1:]


def noun_phrase(
    determiner: str, name: str, *adjectives: str, plural: bool = False, negated: bool = False
) -> Phrase:
    """A determiner, adjectives in English order, and a noun, one or several of it.

    The determiner 'a' becomes 'some' where it must, and 'any' in the object of a negation.
    """
    noun = NOUNS[name]
    french = {a: agree(ADJECTIVES[a], noun.feminine, plural) for a in adjectives}
    before = [french[a] for a in adjectives if a in _BEFORE_NOUN]
    after = [french[a] for a in adjectives if a not in _BEFORE_NOUN]
    is_some = determiner == 'a' and (plural or noun.kind in ('mass', 'drink'))
    article = _DETERMINERS[determiner].split('/')[-1 if plural else noun.feminine]
    if determiner == 'a' and (negated or (plural and before)):
        article = 'de'  # 'de petits chats', not 'des'
    elif is_some and not plural:
        article = 'de la' if noun.feminine else 'de le'
    words = [*article.split(), *before]
    if not plural and _starts_with_vowel(noun.french):
        words[-1] = _BEFORE_VOWEL.get(words[-1], words[-1])
    words += [agree(noun.french, False, plural), *after]
    english = ' '.join([*adjectives, noun.plural if plural else name])
    if is_some:
        determiner = 'any' if negated else 'some'
    elif determiner == 'a' and english[0] in 'aeiou':
        determiner = 'an'
    return Phrase(f'{determiner} {english}', tuple(words), 4 if plural else 1, noun.feminine)


def _english_verb(forms: Sequence[str], tense: str, person: int) -> tuple[str, str, str]:
    """The auxiliary, what follows it, and the form of a plain statement."""
    base, past, ing = forms
    if base == 'be' or tense.endswith('progressive'):
        was, be = 'was' if person < 2 else 'were', ('am', 'is', 'are', 'are', 'are')[person]
        auxiliary, ing = was if tense.startswith('past') else be, ing.strip('-')
        return auxiliary, ing, f'{auxiliary} {ing}'.strip()
    if tense == 'past':
        return 'did', base, past
    return ('does', base, _english_s(base)) if person == 1 else ('do', base, base)


def clause(subject: Phrase, verb: Verb, tense: str, *rest: Phrase, mood: str = '') -> Phrase:
    """A clause in 'present' or 'past', or 'present progressive' or 'past progressive'.

    The mood is '' for a statement, 'not' for its negation, '?' for a yes-no question and 'where'
    for a question with 'be', which is its own auxiliary and has only the first two tenses.
    """
    who, person, plural = subject.english, subject.person, subject.person > 1
    words = verb.english.split()
    auxiliary, bare, plain = _english_verb(words[:3], tense, person)
    infinitive, *after = verb.french.split()
    participle, present, imperfect = conjugation(infinitive)
    finite = (imperfect if tense.startswith('past') else present)[person]
    if infinitive == 'être':  # a posture: 'être assis'
        after = [agree(word, subject.feminine, plural) for word in after]
    elif tense == 'past' and infinitive in _WITH_ETRE:
        finite = conjugation('être')[1][person]
        after.insert(0, agree(participle, subject.feminine, plural))
    elif tense == 'past' and infinitive not in _STATES:
        finite = conjugation('avoir')[1][person]
        after.insert(0, participle)
    english, french = {
        '': (f'{who} {plain}', [*subject.french, finite]),
        'not': (f'{who} {auxiliary} not {bare}', [*subject.french, 'ne', finite, 'pas']),
        '?': (f'{auxiliary} {who} {bare}', ['est-ce', 'que', *subject.french, finite]),
        'where': (f'where {auxiliary} {who}', ['où', finite, *subject.french]),
    }[mood]
    english = ' '.join([english.strip(), *words[3:]])
    return chain(Phrase(english, (*french, *after)), *rest)


# ------------------------------------------------------------------------------------- dice

_ADJECTIVES_OF = {kind: row[1:] for row in _DESCRIPTIONS for kind in row[0].split()}
_FEEL = next(verb for verb in _FRAMES if verb.who == 'people' and 'tired' in verb.what)
_PERSONAL = [v for v in _FRAMES if v.who in ('people', 'living') and v is not _FEEL]
_STAND_INS = {(p.person, p.feminine): p for p in PRONOUNS.values()}


@cache
def _members(groups: str) -> list[str]:
    """The nouns of a list of kinds and single nouns."""
    words = groups.replace('living', 'people animal').replace('people', 'person kin').split()
    return [name for name, noun in NOUNS.items() if noun.kind in words or name in words]


class _Speaker:
    """Makes up one sentence, in which no noun comes twice."""

    def __init__(self, rng: random.Random):
        self.random = rng.random
        self.said: set[str] = set()

    def pick(self, choices: Sequence[T]) -> T:
        # Not rng.choice: only rng.random is promised to give the same numbers in every Python.
        return choices[int(self.random() * len(choices))]

    def phrase(self, groups: str, determiners: str, plain: bool = False, **more: bool) -> Phrase:
        """A noun of the groups with one of the determiners and, unless plain, adjectives."""
        name = self.pick([name for name in _members(groups) if name not in self.said])
        self.said.add(name)
        kind = NOUNS[name].kind
        plural = kind not in _SINGULAR and self.random() < 0.3
        determiner = 'own' if kind == 'kin' else self.pick(determiners.split())
        if determiner == 'own':
            determiner = 'the' if kind in _PUBLIC else self.pick(list(_POSSESSIVES))
        elif determiner == 'a' and plural and self.random() < 0.5:
            determiner = self.pick(list(_NUMBERS))
        options = [] if plain else [w.split() for w in _ADJECTIVES_OF[kind]]
        adjectives = [self.pick(words) for words in options if self.random() < 0.25]
        return noun_phrase(determiner, name, *adjectives, plural=plural, **more)

    def subject(self, verb: Verb, pronouns: bool = True) -> Phrase:
        if pronouns and verb.who in ('people', 'living') and self.random() < 0.35:
            return self.pick(list(PRONOUNS.values()))
        is_be = verb.english == 'be - -'  # and takes no adjectives, lest 'the happy man was sad'
        return self.phrase(verb.who, 'the own' if is_be else 'the the the a own', plain=is_be)

    def clause(self, verb: Verb, subject: Phrase, past: bool, mood: str = '') -> Phrase:
        """The verb with its object, if it takes one, and perhaps a place."""
        base, _, ing, *_ = verb.english.split()
        rest = []
        if base == 'be' and verb.what:
            adjective = self.pick(verb.what.split())
            agreed = agree(ADJECTIVES[adjective], subject.feminine, subject.person > 1)
            rest.append(Phrase(adjective, (agreed,)))
        elif verb.what:
            # 'il ne parle pas à un ami', and nobody goes 'à un marché'.
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
        verb = self.pick(_FRAMES)
        return self.clause(verb, self.subject(verb, pronouns), past, mood)


def sentence_pair(rng: random.Random) -> tuple[str, str]:
    """One random (English, French) pair."""
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
    if form < 0.87:  # a second pronoun could be taken for the first subject
        first, second = speaker.any_clause(past, mood), speaker.any_clause(past, pronouns=False)
        return sentence(chain(first, LINKS[speaker.pick(['and', 'and', 'but'])], second))
    subject = speaker.subject(_FEEL)
    first = speaker.clause(speaker.pick(_PERSONAL), subject, past, mood)
    # 'they' is always 'ils', so it cannot stand for several women.
    same = _STAND_INS.get((subject.person, subject.feminine)) or speaker.subject(_FEEL, False)
    return sentence(chain(first, LINKS['because'], speaker.clause(_FEEL, same, past)))


def generate(*, seed: int, train: int, dev: int, test: int) -> dict[str, list[tuple[str, str]]]:
    """Draws splits of the given sizes in which no English sentence comes twice.

    The pair in `HELD_OUT` is the last of test. The dev and test sentences do not depend on the
    size of train, so that models trained on more or less of the language can be compared.

    Raises:
      ValueError: If a size is negative.
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
