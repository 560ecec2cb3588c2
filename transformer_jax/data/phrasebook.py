"""The phrasebook: an endless English-French corpus from a small bilingual grammar.

A seed and the tables below are all it takes to train and test a translator, with nothing to
download. The French is correct (agreement, elision, contraction, choice of past tense), and the
mapping from English to French is a function: every English sentence has exactly one translation
and holds everything needed to find it. Where English says less than French, a convention decides:

* 'I' is one man, 'we' and 'you' (vous) are several people, 'they' is 'ils'.
* 'child', 'doctor', 'teacher', 'baker', 'farmer' and 'friend' are masculine.
* The simple past is the passé composé ('ate' -> 'a mangé'), but the imparfait for the verbs of
  state ('slept' -> 'dormait'); 'was eating' is always the imparfait.

Every phrase is built in both languages at once. French is held as a tuple of uncontracted words
('de', 'le', 'homme') until `spell` joins them ("de l'homme"), because elision and contraction
depend on nothing but the next word and so need no grammar.
"""

import random
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, TypeVar

T = TypeVar('T')

HELD_OUT = (
    (
        'The black cat sat on the couch and the brown dog slept on the rug.',
        'Le chat noir était assis sur le canapé et le chien marron dormait sur le tapis.',
    ),
)

# --------------------------------------------------------------------------------- tables

# By kind, 'english:french:gender'; an irregular plural follows a slash.
_NOUNS = {
    'person': """man/men:homme:m woman/women:femme:f boy:garçon:m girl:fille:f king:roi:m
        child/children:enfant:m queen:reine:f doctor:médecin:m nurse:infirmière:f
        teacher:professeur:m baker:boulanger:m farmer:fermier:m""",
    'kin': 'brother:frère:m sister:sœur:f uncle:oncle:m aunt:tante:f friend:ami:m',
    'animal': """cat:chat:m dog:chien:m horse:cheval:m bird:oiseau:m rabbit:lapin:m cow:vache:f
        mouse/mice:souris:f duck:canard:m donkey:âne:m owl:hibou/hiboux:m""",
    'food': 'apple:pomme:f pear:poire:f orange:orange:f egg:œuf:m cake:gâteau:m',
    'mass': 'bread:pain:m cheese:fromage:m meat:viande:f',
    'drink': 'water:eau:f milk:lait:m tea:thé:m coffee:café:m',
    'text': 'book:livre:m letter:lettre:f newspaper:journal:m story:histoire:f poem:poème:m',
    'clothes': 'hat:chapeau:m coat:manteau:m shirt:chemise:f dress:robe:f scarf/scarves:écharpe:f',
    'thing': """key:clé:f cup:tasse:f plate:assiette:f knife/knives:couteau:m lamp:lampe:f
        ball:ballon:m umbrella:parapluie:m clock:horloge:f""",
    'container': 'box:boîte:f bag:sac:m basket:panier:m suitcase:valise:f',
    'furniture': 'couch:canapé:m rug:tapis:m table:table:f bed:lit:m chair:chaise:f bench:banc:m',
    'vehicle': 'car:voiture:f boat:bateau:m bicycle:vélo:m',
    'room': 'house:maison:f kitchen:cuisine:f bedroom:chambre:f office:bureau:m',
    'building': """castle:château:m church:église:f hotel:hôtel:m school:école:f shop:magasin:m
        hospital:hôpital:m station:gare:f museum:musée:m""",
    'outdoors': """garden:jardin:m park:parc:m forest:forêt:f field:champ:m street:rue:f
        market:marché:m""",
    'water': 'river:rivière:f lake:lac:m',
    'landmark': 'tree:arbre:m bridge:pont:m wall:mur:m door:porte:f window:fenêtre:f',
}
# The kinds of which one can have one's own, and those of which there is only one of each.
_OWNED = 'kin animal food mass drink text clothes thing container furniture room'.split()
_SINGULAR = 'mass drink room building outdoors water'.split()

# 'english:masculine', with '/feminine' where it is irregular.
_BEFORE_NOUN = """big:grand small:petit young:jeune good:bon/bonne bad:mauvais pretty:joli
    long:long/longue old:vieux/vieille new:nouveau/nouvelle beautiful:beau/belle"""
_AFTER_NOUN = """black:noir white:blanc/blanche brown:marron gray:gris red:rouge blue:bleu
    green:vert yellow:jaune happy:heureux/heureuse sad:triste tired:fatigué sick:malade hot:chaud
    cold:froid fresh:frais/fraîche clean:propre dirty:sale heavy:lourd empty:vide quiet:tranquille
    expensive:cher/chère"""

# Kinds of noun | adjectives before it | adjectives after it.
_DESCRIPTIONS = """
person kin | young old                     | happy sad tired sick
animal     | big small young old beautiful | black white brown gray
food       | good bad small                | fresh cold
mass       | good bad                      | fresh cold expensive
drink      | good bad                      | hot cold
text       | good bad long old new         | sad
clothes    | old new pretty beautiful      | red blue green yellow black white dirty clean expensive
thing      | old new pretty big small      | red blue green yellow white gray clean expensive
container  | big small old new             | red blue green yellow brown empty heavy
furniture  | big small old new             | red blue gray brown heavy expensive
vehicle    | big small old new             | red blue green yellow dirty expensive
room       | big small pretty              | clean dirty empty quiet
building   | big small old new beautiful   | empty quiet
outdoors   | big small beautiful           | empty quiet
water      | big small beautiful           | quiet cold
landmark   | big small old                 | white gray green
"""

# 'english:masculine/feminine/plural'.
_DETERMINERS = 'the:le/la/les a:un/une/des this:ce/cette/ces'
_POSSESSIVES = """my:mon/ma/mes his:son/sa/ses her:son/sa/ses our:notre/notre/nos
    your:votre/votre/vos their:leur/leur/leurs"""
_NUMBERS = """two:deux three:trois four:quatre five:cinq six:six seven:sept eight:huit nine:neuf
    ten:dix eleven:onze twelve:douze"""

# Place | English preposition | French preposition | what can follow.
_PLACES = """
indoors  | in          | dans     | room castle hotel school museum
outdoors | in          | dans     | garden park forest field street
public   | at          | à        | market station museum school hospital hotel
shopping | at          | à        | market shop station
seat     | on          | sur      | furniture
under    | under       | sous     | table bed chair bench tree bridge
inside   | in          | dans     | container
water    | in          | dans     | water
near     | near        | près de  | landmark building water house car forest
behind   | behind      | derrière | landmark building house car
front    | in front of | devant   | landmark building house car
to       | to          | à        | people
with     | with        | avec     | people
"""

# English | French | who | what | at which places; a verb without '-ing' has no progressive.
_ACTIONS = """
eat ate eating               | manger     | living | food mass         | indoors outdoors
drink drank drinking         | boire      | people | drink             | indoors outdoors
buy bought buying            | acheter    | people | food mass clothes thing vehicle | shopping
make made making             | faire      | people | cake bread cheese tea coffee | indoors
read read reading            | lire       | people | text              | indoors outdoors seat
write wrote writing          | écrire     | people | letter story poem book | indoors
open opened opening          | ouvrir     | people | door window container letter umbrella |
close closed closing         | fermer     | people | door window container book umbrella |
see saw -                    | voir       | living | living castle boat lake | outdoors near
watch watched watching       | regarder   | living | living            | outdoors front
look looked looking for      | chercher   | people | thing text clothes container | indoors
find found finding           | trouver    | people | thing text clothes | inside under
take took taking             | prendre    | people | thing text food container |
break broke breaking         | casser     | people | cup plate lamp clock window chair |
hide hid hiding              | cacher     | people | thing text food   | inside under behind
give gave giving             | donner     | people | food thing text clothes | to
show showed showing          | montrer    | people | thing text clothes vehicle | to
bring brought bringing       | apporter   | people | food mass drink container | to
speak spoke speaking to      | parler à   | people | people            | public near
wait waited waiting for      | attendre   | people | people            | public near front
play played playing with     | jouer avec | living | ball cat dog      | outdoors indoors
work worked working          | travailler | people |                   | public indoors
walk walked walking          | marcher    | living |                   | outdoors behind near
run ran running              | courir     | living |                   | outdoors behind near
swim swam swimming           | nager      | living |                   | water
sing sang singing            | chanter    | people |                   | outdoors indoors front
go went going to             | aller à    | people | building park market |
arrive arrived arriving at   | arriver à  | people | building market   |
come came coming back from   | revenir de | people | building market   |
enter entered entering       | entrer dans | people | building room    |
stay stayed staying          | rester     | living |                   | indoors outdoors near
leave left leaving           | partir     | people |                   | with
fall fell falling            | tomber     | living |                   | water outdoors behind front
"""
_STATES = """
want wanted -                | vouloir    | people | food mass drink thing clothes vehicle |
have had -                   | avoir      | people | animal thing clothes vehicle container |
wear wore wearing            | porter     | people | clothes           | indoors outdoors
live lived living in         | habiter dans | people | house castle hotel street |
sleep slept sleeping         | dormir     | living |                   | seat under indoors near
sit sat sitting              | être assis | living |                   | seat under indoors front
lie lay lying                | être couché | living |                  | seat under outdoors behind
be - -                       | être       | living |                   | indoors outdoors public near
be - -                       | être       | thing text clothes food |  | seat under inside
"""
_WITH_ETRE = {'aller', 'arriver', 'revenir', 'entrer', 'rester', 'partir', 'tomber'}
# Infinitive, participle, and the present of je, il, nous, vous, ils.
_IRREGULAR = """
être été suis est sommes êtes sont / avoir eu ai a avons avez ont
aller allé vais va allons allez vont / faire fait fais fait faisons faites font
boire bu bois boit buvons buvez boivent / lire lu lis lit lisons lisez lisent
écrire écrit écris écrit écrivons écrivez écrivent / voir vu vois voit voyons voyez voient
ouvrir ouvert ouvre ouvre ouvrons ouvrez ouvrent / courir couru cours court courons courez courent
prendre pris prends prend prenons prenez prennent / dormir dormi dors dort dormons dormez dorment
vouloir voulu veux veut voulons voulez veulent / partir parti pars part partons partez partent
revenir revenu reviens revient revenons revenez reviennent
acheter acheté achète achète achetons achetez achètent
"""

# ----------------------------------------------------------------------------- word forms


class Noun(NamedTuple):
    """A noun: (singular, plural) in both languages, and its kind."""

    english: tuple[str, str]
    french: tuple[str, str]
    feminine: bool
    kind: str


class Verb(NamedTuple):
    """A verb in both languages, with what follows it at once, and who does it to what and where."""

    base: str
    past: str
    ing: str
    particle: str
    infinitive: str
    tail: str
    is_state: bool
    who: str
    what: str
    where: list[str]


class Phrase(NamedTuple):
    """A piece of a sentence in both languages, with what a verb must know to agree with it."""

    english: str
    french: tuple[str, ...]
    person: int = 1  # an index into (je, il, nous, vous, ils)
    feminine: bool = False


def _english_s(word: str) -> str:
    """Adds the -s of plurals and of the third person."""
    if word == 'have':
        return 'has'
    if word[-1] == 'y' and word[-2] not in 'aeou':
        return word[:-1] + 'ies'
    return word + ('es' if word.endswith(('s', 'sh', 'ch', 'x', 'o')) else 's')


def _french_plural(word: str) -> str:
    if word[-1] in 'sx':
        return word
    return word[:-2] + 'aux' if word.endswith('al') else word + ('x' if word[-3:] == 'eau' else 's')


def _read_noun(entry: str, kind: str) -> Noun:
    english, french, gender = entry.split(':')
    singular, _, plural = english.partition('/')
    french, _, french_plural = french.partition('/')
    forms = (french, french_plural or _french_plural(french))
    return Noun((singular, plural or _english_s(singular)), forms, gender == 'f', kind)


def _read_verb(line: str, is_state: bool) -> Verb:
    english, french, who, what, where = (column.strip() for column in line.split('|'))
    base, past, ing, *particle = english.replace('-', '').split(' ')
    infinitive, _, tail = french.partition(' ')
    after = ' '.join(particle)
    return Verb(base, past, ing, after, infinitive, tail, is_state, who, what, where.split())


def _read_pairs(table: str) -> dict[str, str]:
    return dict(entry.split(':') for entry in table.split())


def _read_rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.split('|')] for row in table.strip().splitlines()]


_nouns = [_read_noun(entry, kind) for kind, table in _NOUNS.items() for entry in table.split()]
NOUNS = {noun.english[0]: noun for noun in _nouns}
_FRAMES = [_read_verb(row, False) for row in _ACTIONS.strip().splitlines()]
_FRAMES += [_read_verb(row, True) for row in _STATES.strip().splitlines()]
VERBS = {f'{verb.base} {verb.particle}'.strip(): verb for verb in _FRAMES}
ADJECTIVES = _read_pairs(_BEFORE_NOUN + ' ' + _AFTER_NOUN)
_FEMININE = dict(forms.split('/') for forms in ADJECTIVES.values() if '/' in forms)
DETERMINERS = {
    english: forms.split('/')
    for english, forms in _read_pairs(_DETERMINERS + ' ' + _POSSESSIVES).items()
}
DETERMINERS |= {english: [french] * 3 for english, french in _read_pairs(_NUMBERS).items()}
PLACES = {name: row for name, *row in _read_rows(_PLACES)}
PRONOUNS = {
    'I': Phrase('I', ('je',), 0),
    'he': Phrase('he', ('il',)),
    'she': Phrase('she', ('elle',), feminine=True),
    'we': Phrase('we', ('nous',), 2),
    'you': Phrase('you', ('vous',), 3),
    'they': Phrase('they', ('ils',), 4),
}
WHO = Phrase('who', ('qui',))
_PRESENT = {
    infinitive: forms
    for infinitive, *forms in map(str.split, _IRREGULAR.replace('/', '\n').strip().splitlines())
}


@cache
def conjugation(infinitive: str) -> tuple[str, list[str], list[str]]:
    """The participle, the present and the imparfait of a French verb."""
    stem = infinitive[:-2]
    if infinitive in _PRESENT:
        participle, *present = _PRESENT[infinitive]
    elif infinitive.endswith('er'):
        soft = stem + 'e' * (stem[-1] == 'g')  # 'mangeons' keeps the soft sound of its g
        participle = stem + 'é'
        present = [stem + 'e', stem + 'e', soft + 'ons', stem + 'ez', stem + 'ent']
    else:  # -re
        participle = stem + 'u'
        present = [stem + ending for ending in ('s', '', 'ons', 'ez', 'ent')]
    root = 'ét' if infinitive == 'être' else present[2].removesuffix('ons')
    before_i = root.removesuffix('e')
    imperfect = [root + 'ais', root + 'ait', before_i + 'ions', before_i + 'iez', root + 'aient']
    return participle, present, imperfect


def agree(word: str, feminine: bool, plural: bool) -> str:
    """The form of a masculine French adjective or participle for a gender and number."""
    if word == 'marron':  # a noun (chestnut) that serves as a color, and so never agrees
        return word
    if feminine:
        word = _FEMININE.get(word, word + 'e' * (word[-1] != 'e'))
    return _french_plural(word) if plural else word


# ------------------------------------------------------------------------------- spelling

_ASPIRATED = {'hibou', 'hiboux', 'huit', 'onze'}  # 'le hibou', 'parce que onze chats'
_ELIDED = {'le', 'la', 'je', 'ne', 'de', 'que'}
_CONTRACTED = {'de le': 'du', 'de les': 'des', 'à le': 'au', 'à les': 'aux'}
_BEFORE_VOWEL = {'ma': 'mon', 'sa': 'son', 'ce': 'cet'}
_BEFORE_VOWEL |= {'beau': 'bel', 'vieux': 'vieil', 'nouveau': 'nouvel'}


def _starts_with_vowel(word: str) -> bool:
    return word[0] in 'aeiouhàâéèêœ' and word not in _ASPIRATED


def spell(words: Sequence[str]) -> str:
    """Joins French words: elides before vowels, then contracts what is left ('de le' -> 'du')."""
    out = [words[-1]]
    for word in reversed(words[:-1]):
        if f'{word} {out[-1]}' in _CONTRACTED:
            word = _CONTRACTED[f'{word} {out.pop()}']
        elif word in _ELIDED and _starts_with_vowel(out[-1]):
            word = word[:-1] + "'"
        out.append(word)
    return ' '.join(reversed(out)).replace("' ", "'")


def sentence(phrase: Phrase, mark: str = '.') -> tuple[str, str]:
    """The (English, French) pair of a clause, with '.' or '?' at its end."""
    # French puts a space before a question mark.
    english, french = phrase.english + mark, spell(phrase.french) + ' ' * (mark == '?') + mark
    return english[0].upper() + english[1:], french[0].upper() + french[1:]


# -------------------------------------------------------------------------------- grammar


def noun_phrase(
    determiner: str, name: str, *adjectives: str, plural: bool = False, negated: bool = False
) -> Phrase:
    """A determiner, adjectives in English order, and a noun.

    Args:
      determiner: A key of `DETERMINERS`: 'a' becomes 'some' and 'this' becomes 'these' as needed.
      name: A key of `NOUNS`.
      *adjectives: Keys of `ADJECTIVES`.
      plural: Whether there are several.
      negated: Whether this is the direct object of a negation, where 'a' is 'de'.
    """
    noun = NOUNS[name]
    french = {a: agree(ADJECTIVES[a].split('/')[0], noun.feminine, plural) for a in adjectives}
    preposed = [word for a, word in french.items() if a in _BEFORE_NOUN]
    article = DETERMINERS[determiner][2 if plural else noun.feminine]
    words = [*preposed, noun.french[plural], *(w for w in french.values() if w not in preposed)]
    is_mass = noun.kind in ('mass', 'drink')
    if determiner == 'a' and is_mass and not negated:
        words[:0] = ['de', DETERMINERS['the'][noun.feminine]]
    elif determiner == 'a' and (negated or (plural and preposed)):
        words.insert(0, 'de')  # 'de petits chats', not 'des'
    else:
        words.insert(0, article)
    if not plural:
        words = [
            _BEFORE_VOWEL.get(word, word) if _starts_with_vowel(after) else word
            for word, after in zip(words, [*words[1:], 'fin'], strict=True)
        ]
    english = ' '.join([*adjectives, noun.english[plural]])
    if determiner == 'a' and (plural or is_mass):
        determiner = 'any' if negated else 'some'
    elif determiner == 'a' and english[0] in 'aeiou':
        determiner = 'an'
    elif determiner == 'this' and plural:
        determiner = 'these'
    return Phrase(f'{determiner} {english}', tuple(words), 4 if plural else 1, noun.feminine)


def place(name: str, where: Phrase) -> Phrase:
    """A phrase of place: place('near', ...) is 'near the tree'."""
    english, french, _ = PLACES[name]
    return Phrase(f'{english} {where.english}', (*french.split(), *where.french))


def description(subject: Phrase, adjective: str) -> Phrase:
    """An adjective that agrees with the subject, to follow 'be'."""
    masculine = ADJECTIVES[adjective].split('/')[0]
    return Phrase(adjective, (agree(masculine, subject.feminine, subject.person > 1),))


def _english_clause(subject: Phrase, verb: Verb, tense: str, mood: str) -> list[str]:
    third = subject.person == 1
    if tense.endswith('progressive'):
        was, present = 'was' if subject.person < 2 else 'were', ('am', 'is', 'are', 'are', 'are')
        auxiliary, bare = was if 'past' in tense else present[subject.person], verb.ing
    else:
        auxiliary, bare = {'past': 'did', 'present': 'does' if third else 'do'}[tense], verb.base
    if mood == '?':
        return [auxiliary, subject.english, bare]
    if mood == 'not':
        return [subject.english, auxiliary, 'not', bare]
    if tense.endswith('progressive'):
        return [subject.english, auxiliary, bare]
    present = _english_s(verb.base) if third else verb.base
    return [subject.english, verb.past if tense == 'past' else present]


def clause(subject: Phrase, verb: Verb, tense: str, *rest: Phrase, mood: str = '') -> Phrase:
    """A clause in 'present', 'progressive', 'past' or 'past progressive'.

    The mood is '' for a statement, 'not' for its negation and '?' for a yes-no question. The verb
    'be' has only the progressive tenses, because it needs no auxiliary but itself.
    """
    participle, present, imperfect = conjugation(verb.infinitive)
    feminine, plural = subject.feminine, subject.person > 1
    finite, after = (imperfect if 'past' in tense else present)[subject.person], []
    if tense == 'past' and not verb.is_state:
        with_etre = verb.infinitive in _WITH_ETRE
        finite = conjugation('être' if with_etre else 'avoir')[1][subject.person]
        after.append(agree(participle, feminine, plural) if with_etre else participle)
    if verb.tail:  # 'assis' after 'être', or a preposition
        is_posture = verb.infinitive == 'être'
        after.append(agree(verb.tail, feminine, plural) if is_posture else verb.tail)
    french = [*subject.french, *(['ne', finite, 'pas'] if mood == 'not' else [finite]), *after]
    if mood == '?':
        french[:0] = ['est-ce', 'que']
    english = [*_english_clause(subject, verb, tense, mood), verb.particle]
    english += [phrase.english for phrase in rest]
    french += [word for phrase in rest for word in phrase.french]
    return Phrase(' '.join(filter(None, english)), tuple(french))


def where_is(subject: Phrase, tense: str) -> Phrase:
    """'Where is the cat', where French has the verb before the subject."""
    asked = clause(subject, VERBS['be'], tense, mood='?')
    verb = conjugation('être')[2 if 'past' in tense else 1][subject.person]
    return Phrase(f'where {asked.english}', ('où', verb, *subject.french))


_LINKS = {'and': ('et',), 'but': ('mais',), 'because': ('parce', 'que')}


def join(first: Phrase, link: str, second: Phrase) -> Phrase:
    """Two clauses with a word of `_LINKS` between them."""
    french = (*first.french, *_LINKS[link], *second.french)
    return Phrase(f'{first.english} {link} {second.english}', french)


# ----------------------------------------------------------------------------------- dice

# What determiners to draw from for one thing and for several.
_MIXES = {
    'any': ('the the the a a a this own own', 'the the the a a this own own number number'),
    'place': ('the the the the a this own', 'the the the this own'),
    'known': ('the the this own own', 'the the this own own'),
}
_DETERMINER_SETS = {'own': list(_read_pairs(_POSSESSIVES)), 'number': list(_read_pairs(_NUMBERS))}
_ADJECTIVES_OF = {
    kind: (before.split(), after.split())
    for kinds, before, after in _read_rows(_DESCRIPTIONS)
    for kind in kinds.split()
}
_FEELINGS = _ADJECTIVES_OF['person'][1]
_STAND_INS = {(p.person, p.feminine): p for p in PRONOUNS.values()}
_PERSONAL = [verb for verb in _FRAMES if verb.who in ('people', 'living')]


@cache
def _members(groups: str) -> list[str]:
    """The nouns of a list of kinds and single nouns."""
    kinds = groups.replace('living', 'people animal').replace('people', 'person kin').split()
    by_kind = {kind: [name for name in NOUNS if NOUNS[name].kind == kind] for kind in kinds}
    return [name for kind, names in by_kind.items() for name in names or [kind]]


class _Speaker:
    """Makes up one sentence, in which no noun comes twice."""

    def __init__(self, rng: random.Random):
        self._random = rng.random
        self._said: set[str] = set()

    def pick(self, choices: Sequence[T]) -> T:
        # Not rng.choice: only rng.random is promised to give the same numbers in every Python.
        return choices[int(self._random() * len(choices))]

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def phrase(self, groups: str, mix: str, plain: bool = False, negated: bool = False) -> Phrase:
        """A noun of the groups with a determiner of the mix and, unless plain, adjectives."""
        name = self.pick([name for name in _members(groups) if name not in self._said])
        self._said.add(name)
        kind = NOUNS[name].kind
        plural = kind not in _SINGULAR and self.chance(0.27)
        determiner = 'own' if kind == 'kin' else self.pick(_MIXES[mix][plural].split())
        if determiner == 'own' and kind not in _OWNED:
            determiner = 'the'
        determiner = self.pick(_DETERMINER_SETS.get(determiner, [determiner]))
        options = () if plain else _ADJECTIVES_OF[kind]
        adjectives = [self.pick(adjectives) for adjectives in options if self.chance(0.25)]
        return noun_phrase(determiner, name, *adjectives, plural=plural, negated=negated)

    def subject(self, groups: str, pronouns: bool) -> Phrase:
        if pronouns and groups in ('people', 'living') and self.chance(0.35):
            return self.pick(list(PRONOUNS.values()))
        return self.phrase(groups, 'any')

    def tense(self, verb: Verb, past: bool) -> str:
        simple, ongoing = ('past', 'past progressive') if past else ('present', 'progressive')
        # 'I read' could be present or past; so it is past.
        if verb.base == 'be' or (verb.base == verb.past and not past):
            return ongoing
        return simple if not verb.ing or self.chance(0.65) else ongoing

    def clause(self, verb: Verb, subject: Phrase, past: bool, mood: str = '') -> Phrase:
        """A clause with an object if the verb takes one, and else with a place."""
        rest = []
        if verb.what:
            mix, negated = ('place', False) if verb.tail else ('any', mood == 'not')
            rest.append(self.phrase(verb.what, mix, negated=negated))
        if verb.where and (not verb.what or self.chance(0.4)):
            where = self.pick(verb.where)
            rest.append(place(where, self.phrase(PLACES[where][2], 'place')))
        return clause(subject, verb, self.tense(verb, past), *rest, mood=mood)

    def simple(self, past: bool, mood: str, pronouns: bool = True) -> Phrase:
        """A clause of any verb: 'the cat did not eat the pear in the garden'."""
        verb = self.pick(_FRAMES)
        return self.clause(verb, self.subject(verb.who, pronouns), past, mood)

    def being(self, past: bool, mood: str) -> Phrase:
        """'The old house was empty.'"""
        kind = self.pick(list(_ADJECTIVES_OF))
        subject = self.phrase(kind, 'known', plain=True)
        return self.feeling(subject, self.pick(_ADJECTIVES_OF[kind][1]), past, mood)

    def feeling(self, subject: Phrase, adjective: str, past: bool, mood: str = '') -> Phrase:
        tense = 'past progressive' if past else 'progressive'
        return clause(subject, VERBS['be'], tense, description(subject, adjective), mood=mood)

    def reason(self, past: bool, mood: str) -> Phrase:
        """'The old man stayed in the house because he was tired.'"""
        verb, subject = self.pick(_PERSONAL), self.subject('people', pronouns=True)
        first = self.clause(verb, subject, past, mood)
        # No 'elles' here: that 'they' is 'ils' has no exceptions.
        who = _STAND_INS.get((subject.person, subject.feminine)) or self.subject('people', False)
        return join(first, 'because', self.feeling(who, self.pick(_FEELINGS), past))


def sentence_pair(rng: random.Random) -> tuple[str, str]:
    """One random (English, French) pair."""
    speaker = _Speaker(rng)
    past, mood = speaker.chance(0.55), speaker.pick(['', '', '', '', 'not'])
    form = rng.random()
    if form < 0.3:
        return sentence(speaker.simple(past, mood))
    if form < 0.62:
        first = speaker.simple(past, mood)
        # A pronoun here could be taken for the subject of the first clause.
        second = speaker.simple(past, '', pronouns=False)
        return sentence(join(first, speaker.pick(['and', 'and', 'but']), second))
    if form < 0.75:
        return sentence(speaker.reason(past, mood))
    if form < 0.81:
        return sentence(speaker.being(past, mood))
    if form < 0.92:
        return sentence(speaker.simple(past, '?'), '?')
    if form < 0.94:
        return sentence(speaker.being(past, '?'), '?')
    if form < 0.98:
        return sentence(speaker.clause(speaker.pick(_PERSONAL), WHO, past), '?')
    asked = speaker.phrase('living thing text clothes food', 'known')
    return sentence(where_is(asked, 'past progressive' if past else 'progressive'), '?')


def generate(*, seed: int, train: int, dev: int, test: int) -> dict[str, list[tuple[str, str]]]:
    """Draws splits in which no English sentence comes twice.

    The dev and test sentences do not depend on the size of the training split, so that models
    trained on more or less of the language can be compared.

    Args:
      seed: Where the dice start.
      train: How many training pairs to draw.
      dev: How many development pairs to draw.
      test: How many test pairs to draw; the last of them is the one in `HELD_OUT`.

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
