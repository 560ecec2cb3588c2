"""The phrasebook: an endless English-French corpus from a small bilingual grammar.

A seed and the tables below are all it takes to train and test a translator, with nothing to
download. The French is correct (agreement, elision, contraction, choice of past tense), and the
mapping from English to French is a function: every English sentence has exactly one translation
and holds everything needed to find it. Where English says less than French, a convention decides:

* 'I' is one man, 'we' and 'you' (vous) are several people, 'they' is 'ils'. Only after 'because',
  where 'they' takes up a feminine plural subject, is it 'elles'.
* 'child', 'doctor', 'teacher', 'baker', 'farmer' and 'friend' are masculine.
* The simple past is the passé composé ('ate' -> 'a mangé'), but the imparfait for the verbs of
  state in `STATES` ('slept' -> 'dormait'); 'was eating' is always the imparfait.

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


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# ---------------------------------------------------------------------------- the dictionary

# kind: 'english french gender', with '/plural' where the plural is irregular.
_NOUNS = {
    'adult': 'man/men homme m, woman/women femme f, queen reine f, doctor médecin m, '
    'teacher professeur m, baker boulanger m, nurse infirmière f, farmer fermier m',
    'child': 'boy garçon m, girl fille f, child/children enfant m',
    'kin': 'brother frère m, sister sœur f, uncle oncle m, aunt tante f, friend ami m',
    'animal': 'cat chat m, dog chien m, horse cheval m, bird oiseau m, rabbit lapin m, '
    'mouse/mice souris f, cow vache f, duck canard m, donkey âne m, wolf/wolves loup m, '
    'owl hibou/hiboux m',
    'food': 'apple pomme f, orange orange f, pear poire f, egg œuf m, cake gâteau m, pie tarte f',
    'mass': 'bread pain m, cheese fromage m, meat viande f',
    'drink': 'water eau f, milk lait m, tea thé m, coffee café m',
    'text': 'book livre m, letter lettre f, newspaper journal m, story histoire f, poem poème m',
    'clothes': 'hat chapeau m, coat manteau m, shirt chemise f, dress robe f, '
    'scarf/scarves écharpe f',
    'thing': 'key clé f, cup tasse f, plate assiette f, knife/knives couteau m, lamp lampe f, '
    'ball ballon m, umbrella parapluie m, clock horloge f, flower fleur f',
    'container': 'box boîte f, bag sac m, basket panier m, suitcase valise f',
    'furniture': 'couch canapé m, rug tapis m, table table f, bed lit m, chair chaise f, '
    'bench banc m',
    'opening': 'door porte f, window fenêtre f',
    'vehicle': 'car voiture f, boat bateau m, bicycle vélo m',
    'building': 'house maison f, castle château m, church église f, hotel hôtel m, '
    'school école f, hospital hôpital m, station gare f, museum musée m, shop magasin m',
    'room': 'kitchen cuisine f, bedroom chambre f, office bureau m',
    'outdoors': 'garden jardin m, park parc m, forest forêt f, field champ m, street rue f, '
    'market marché m',
    'waterside': 'river rivière f, lake lac m',
    'landmark': 'tree arbre m, bridge pont m, wall mur m',
}
PEOPLE = _set('adult child kin')
# There is one of each in the stories told here, so that fewer words are rare.
_ONLY_SINGULAR = _set('mass drink building room outdoors waterside')
# The kinds and single nouns of what one can call one's own.
OWNED = _set(
    'kin cat dog horse bird rabbit cow duck donkey food mass drink text clothes thing container '
    'furniture vehicle room doctor teacher house garden school'
)

# 'english masculine/feminine/masculine plural/feminine plural/masculine before a vowel'; what is
# left out is regular. 'marron' (a chestnut) never agrees: it is a noun that serves as a color.
_ADJECTIVES = (
    'big grand, small petit, young jeune, good bon/bonne, bad mauvais, pretty joli, '
    'long long/longue, old vieux/vieille/vieux/vieilles/vieil, '
    'new nouveau/nouvelle/nouveaux/nouvelles/nouvel, beautiful beau/belle/beaux/belles/bel, '
    'black noir, white blanc/blanche, brown marron/marron/marron/marron, gray gris, red rouge, '
    'blue bleu, green vert, yellow jaune, happy heureux/heureuse, sad triste, tired fatigué, '
    'sick malade, fresh frais/fraîche, hot chaud, cold froid, dirty sale, clean propre, '
    'expensive cher/chère, heavy lourd, empty vide, quiet tranquille, '
    'sitting assis, lying couché'
)
BEFORE_NOUN = _set('big small young good bad pretty long old new beautiful')
COLORS = _set('black white brown gray red blue green yellow')
# What can be said of which kind of noun.
_DESCRIPTIONS = {
    'adult': 'young young old old happy sad tired sick',
    'child': 'small small young happy sad tired sick',
    'kin': 'happy sad tired sick',
    'animal': 'big small young old beautiful black white brown gray black white brown gray',
    'food': 'good bad small fresh cold',
    'mass': 'fresh expensive',
    'drink': 'hot cold',
    'text': 'good bad long old new',
    'clothes': 'old new pretty beautiful red blue green yellow black white dirty clean expensive',
    'thing': 'old new pretty big small red blue green yellow gray white dirty clean expensive',
    'container': 'big small old new red blue green yellow brown empty heavy heavy',
    'furniture': 'big small old new red blue brown gray green heavy expensive',
    'opening': 'big small old red blue green white',
    'vehicle': 'big small old new red blue green yellow expensive dirty',
    'building': 'big small old new beautiful quiet empty',
    'room': 'big small clean dirty empty quiet',
    'outdoors': 'big small beautiful quiet',
    'waterside': 'big small beautiful',
    'landmark': 'big small old',
}

_THE, _A, _THIS = ('le', 'la', 'les'), ('un', 'une', 'des'), ('ce', 'cette', 'ces')
_MON, _SON, _NOTRE = ('mon', 'ma', 'mes'), ('son', 'sa', 'ses'), ('notre', 'notre', 'nos')
_VOTRE, _LEUR = ('votre', 'votre', 'vos'), ('leur', 'leur', 'leurs')
# English: French for a masculine, a feminine and a plural noun.
POSSESSIVES = {'my': _MON, 'his': _SON, 'her': _SON, 'our': _NOTRE, 'your': _VOTRE, 'their': _LEUR}
DETERMINERS = {'the': _THE, 'a': _A, 'some': _A, 'this': _THIS, 'these': _THIS, **POSSESSIVES}
_NUMBERS = (
    'two deux, three trois, four quatre, five cinq, six six, seven sept, eight huit, nine neuf, '
    'ten dix, eleven onze, twelve douze'
)
NUMBERS = dict(entry.split(' ') for entry in _NUMBERS.split(', '))
DETERMINERS |= {english: (french,) * 3 for english, french in NUMBERS.items()}

# place: the preposition and what may follow it.
_LANDMARKS = 'house church school hotel castle museum station tree bridge wall car door window'
_SPOTS = {
    'indoors': ('in=dans', 'kitchen bedroom house school hotel castle office shop'),
    'outdoors': ('in=dans', 'garden park forest field street'),
    'home': ('in=dans', 'house castle hotel street forest'),
    'shop': ('at=à', 'market shop'),
    'public': ('at=à', 'market station museum school hospital hotel'),
    'vehicle': ('in=dans', 'car boat'),
    'water': ('in=dans', 'river lake'),
    'seat': ('on=sur', 'couch rug bed chair bench'),
    'top': ('on=sur', 'table chair bed bench rug couch'),
    'under': ('under=sous', 'table bed chair bench tree bridge'),
    'inside': ('in=dans', 'container'),
    'to': ('to=à', 'people'),
    'near': ('near=près de', _LANDMARKS + ' river lake forest'),
    'behind': ('behind=derrière', _LANDMARKS),
    'front': ('in front of=devant', _LANDMARKS),
    'town': ('near=près de', 'church school station bridge river lake forest park market'),
}
_AROUND = 'near behind front'

# 'base past -ing particle = infinitive what-follows: who: what: where', or '-' for the verb above.
# These are also the only combinations the dice can make: no table reads a book.
_VERBS = f"""
eat ate eating = manger: people: food mass: indoors outdoors
-: animal: apple pear bread cheese meat: outdoors near
drink drank drinking = boire: people: drink: indoors outdoors
-: animal: water milk: outdoors near
buy bought buying = acheter: people: food mass clothes thing text vehicle furniture: shop
make made making = faire: people: cake pie tea coffee bread cheese: indoors
read read reading = lire: people: text: indoors outdoors seat under
write wrote writing = écrire: people: letter story poem book: indoors
begin began beginning = commencer: people: text:
open opened opening = ouvrir: people: opening container letter umbrella:
close closed closing = fermer: people: opening container book umbrella:
see saw seeing = voir: living: animal people castle river lake bridge: outdoors {_AROUND}
watch watched watching = regarder: living: animal people: outdoors
look looked looking for = chercher: people: thing text clothes animal child container:
take took taking = prendre: people: thing text food container clothes:
call called calling = appeler: people: people dog:
like liked liking = aimer: people: mass drink animal text building room outdoors clothes:
want wanted wanting = vouloir: people: food mass drink thing clothes vehicle:
have had having = avoir: people: animal thing clothes vehicle house container:
wear wore wearing = porter: people: clothes: outdoors
break broke breaking = casser: people: cup plate lamp clock window chair:
give gave giving = donner: people: food thing text clothes animal: to
put put putting = mettre: people: thing text container clothes food: top inside under
speak spoke speaking to = parler à: people: people: public outdoors
wait waited waiting for = attendre: people: people: indoors public {_AROUND}
play played playing = jouer: living: : outdoors {_AROUND}
play played playing with = jouer avec: living: ball: outdoors indoors
-: people: dog cat rabbit ball horse: outdoors
work worked working = travailler: people: : public indoors
run ran running = courir: living: : outdoors {_AROUND}
swim swam swimming = nager: living: : water
sing sang singing = chanter: people: : outdoors indoors
-: bird: : outdoors near
sit sat sitting = être assis: living: : seat seat under indoors outdoors vehicle {_AROUND}
lie lay lying = être couché: living: : seat under outdoors {_AROUND}
stand stood standing = être debout: people: : indoors outdoors {_AROUND}
sleep slept sleeping = dormir: living: : seat seat under indoors outdoors vehicle {_AROUND}
live lived living = habiter: people: : home town
-: animal: : outdoors town
go went going to = aller à: people: building park market:
arrive arrived arriving at = arriver à: people: building market:
come came coming back from = revenir de: people: building market:
enter entered entering = entrer dans: people: building room garden forest park:
stay stayed staying = rester: living: : indoors outdoors vehicle near under
leave left leaving with = partir avec: people: people animal:
fall fell falling = tomber: living: : water outdoors {_AROUND}
"""
_POSTURES = {'assis': 'sitting', 'couché': 'lying'}
STATES = _set('like want have wear sit lie stand sleep live be') | {'wait for'}
NO_PROGRESSIVE = _set('see like want have live')
# The other verbs that appear in the simple present.
_HABITS = _set('eat drink write work run swim sing play sit stand sleep wear')
_HABITS |= {'go to', 'speak to', 'wait for'}
# After these the noun is one we know: 'aller au marché', but hardly 'aller à un marché'.
_DEFINITE = _set('like') | {'go to', 'arrive at', 'come back from', 'speak to'}
_ONE_THING = _set('wear begin')
# These never go without a place.
_SOMEWHERE = _set('put give live sit lie stand stay fall play run swim')

WITH_ETRE = _set('aller arriver revenir entrer rester partir tomber')
# 'infinitive participle', and the present of je, il, nous, vous, ils.
_IRREGULAR = """
être été suis est sommes êtes sont; avoir eu ai a avons avez ont
aller allé vais va allons allez vont; faire fait fais fait faisons faites font
boire bu bois boit buvons buvez boivent; lire lu lis lit lisons lisez lisent
écrire écrit écris écrit écrivons écrivez écrivent
ouvrir ouvert ouvre ouvre ouvrons ouvrez ouvrent; voir vu vois voit voyons voyez voient
vouloir voulu veux veut voulons voulez veulent
prendre pris prends prend prenons prenez prennent; mettre mis mets met mettons mettez mettent
courir couru cours court courons courez courent; dormir dormi dors dort dormons dormez dorment
partir parti pars part partons partez partent
revenir revenu reviens revient revenons revenez reviennent
acheter acheté achète achète achetons achetez achètent
appeler appelé appelle appelle appelons appelez appellent
pleuvoir plu - pleut pleuvons - -
"""

# Feelings that explain what people do, and what they do not do.
_REASONS = {
    'raining': ('sleep, sit, run, stand, enter, stay', 'work, swim, play, sing'),
    'hungry': ('eat', 'sleep, sing, play'),
    'thirsty': ('drink', 'eat, sing, run'),
    'afraid': ('close, run, call', 'sleep, swim, speak to, open, enter'),
    'tired': ('sit, lie, sleep, stay, come back from', 'work, swim, play, run, read, write'),
    'sick': ('lie, sleep, stay, call, come back from', 'work, swim, play, eat, sing, go to'),
    'sad': ('call, write, leave with', 'eat, sing, play, sleep'),
    'happy': ('sing, play, give, run, speak to', 'leave with, sleep'),
}
_FEELINGS = [feeling for feeling in _REASONS if feeling != 'raining']
_DESCRIBED = (
    'adult animal food mass drink text clothes thing container furniture opening vehicle '
    'building room outdoors landmark'
)
_WHEREABOUTS = {
    'people': 'indoors outdoors public near',
    'animal': 'outdoors indoors under near behind front',
    'thing text clothes': 'top under inside',
    'container': 'top under',
    'food': 'top inside',
    'vehicle': 'near behind front',
    'furniture': 'indoors',
}
_ADVERBS = {
    'past': ('yesterday=hier', 'this morning=ce matin'),
    'past progressive': ('yesterday=hier', 'this morning=ce matin'),
    'progressive': ('now=maintenant', "today=aujourd'hui"),
    'present': ('every day=tous les jours',),
    'future': ('tomorrow=demain', 'tonight=ce soir'),
}

# ------------------------------------------------------------------------------- word forms


class Noun(NamedTuple):
    """A noun: (singular, plural) in both languages, and its kind."""

    english: tuple[str, str]
    french: tuple[str, str]
    feminine: bool
    kind: str


class Verb(NamedTuple):
    """A verb: English forms and particle, French infinitive and the word that follows it."""

    base: str
    past: str
    ing: str
    particle: str
    infinitive: str
    tail: str = ''


class Frame(NamedTuple):
    """Who can do what to what, and where."""

    verb: str
    who: str
    what: str
    where: list[str]


class Phrase(NamedTuple):
    """A piece of a sentence in both languages, with what a verb must know to agree with it."""

    english: str
    french: tuple[str, ...]
    person: int = 1  # an index into (je, il, nous, vous, ils)
    feminine: bool = False
    plural: bool = False


class Clause(NamedTuple):
    """A clause: in English the predicate of a statement and what a question has in its place."""

    subject: str
    predicate: str
    auxiliary: str
    asked: str
    french: tuple[str, ...]


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
    english, french, gender = entry.split()
    singular, _, plural = english.partition('/')
    french, _, french_plural = french.partition('/')
    return Noun(
        (singular, plural or _english_s(singular)),
        (french, french_plural or _french_plural(french)),
        gender == 'f',
        kind,
    )


def _read_adjective(forms: str) -> tuple[str, ...]:
    """Fills in the regular forms: (m, f, m plural, f plural, m before a vowel)."""
    masculine, *rest = forms.split('/')
    feminine = rest[0] if rest else masculine + 'e' * (not masculine.endswith('e'))
    plurals = rest[1:3] or [_french_plural(masculine), feminine + 's']
    return masculine, feminine, *plurals, *(rest[3:] or [masculine])


def _read_verbs(table: str) -> tuple[dict[str, Verb], tuple[Frame, ...]]:
    verbs, frames, name = {}, [], ''
    for line in table.strip().splitlines():
        forms, who, what, where = (part.strip() for part in line.split(':'))
        if forms != '-':
            english, french = forms.split(' = ')
            base, past, ing, *particle = english.split()
            infinitive, _, tail = french.partition(' ')
            name = ' '.join([base, *particle])
            verbs[name] = Verb(base, past, ing, ' '.join(particle), infinitive, tail)
        frames.append(Frame(name, who, what, where.split()))
    return verbs, tuple(frames)


NOUNS = {
    entry.split('/')[0].split()[0]: _read_noun(entry, kind)
    for kind, entries in _NOUNS.items()
    for entry in entries.split(', ')
}
ADJECTIVES = {
    english: _read_adjective(forms)
    for english, forms in (entry.split(' ') for entry in _ADJECTIVES.split(', '))
}
VERBS, FRAMES = _read_verbs(_VERBS)
# 'is hungry' is 'a faim' and 'is raining' is 'pleut', but to English these are all forms of 'be':
# what follows 'be' stands in the place of the -ing form.
VERBS |= {
    'be': Verb('be', '', '', '', 'être'),
    'hungry': Verb('be', '', 'hungry', '', 'avoir', 'faim'),
    'thirsty': Verb('be', '', 'thirsty', '', 'avoir', 'soif'),
    'afraid': Verb('be', '', 'afraid', '', 'avoir', 'peur'),
    'raining': Verb('be', '', 'raining', '', 'pleuvoir'),
}
PRONOUNS = {
    'I': Phrase('I', ('je',), 0),
    'he': Phrase('he', ('il',)),
    'she': Phrase('she', ('elle',), feminine=True),
    'we': Phrase('we', ('nous',), 2, plural=True),
    'you': Phrase('you', ('vous',), 3, plural=True),
    'they': Phrase('they', ('ils',), 4, plural=True),
}
IT, WHO = Phrase('it', ('il',)), Phrase('who', ('qui',))
ELLES = Phrase('they', ('elles',), 4, True, True)
_PRESENT = {
    infinitive: forms
    for infinitive, *forms in map(str.split, _IRREGULAR.strip().replace(';', '\n').splitlines())
}


@cache
def conjugation(infinitive: str) -> tuple[str, list[str], list[str]]:
    """The participle, the present and the imparfait of a French verb."""
    stem, soft = infinitive[:-2], infinitive[:-2]
    if infinitive in _PRESENT:
        participle, *present = _PRESENT[infinitive]
    elif infinitive.endswith('er'):
        # 'mangeons' and 'commençons' keep the soft sound of their consonant.
        soft = stem + 'e' if stem[-1] == 'g' else stem[:-1] + 'ç' if stem[-1] == 'c' else stem
        participle = stem + 'é'
        present = [stem + 'e', stem + 'e', soft + 'ons', stem + 'ez', stem + 'ent']
    else:  # -re
        participle = stem + 'u'
        present = [stem + ending for ending in ('s', '', 'ons', 'ez', 'ent')]
    root = 'ét' if infinitive == 'être' else present[2][:-3]
    before_i = stem if soft != stem else root
    imperfect = [root + 'ais', root + 'ait', before_i + 'ions', before_i + 'iez', root + 'aient']
    return participle, present, imperfect


def agree(adjective: str, feminine: bool, plural: bool) -> str:
    """The French form of an English adjective for a gender and number."""
    return ADJECTIVES[adjective][feminine + 2 * plural]


# --------------------------------------------------------------------------------- spelling

_VOWELS = frozenset('aeiouyhàâéèêœ')
_ASPIRATED = _set('hibou hiboux huit onze')  # 'le hibou', 'parce que onze chats'
_ELIDED = _set('le la je ne de que')
# Feminine possessives turn masculine before a vowel ('mon école'), to keep the vowels apart.
_BEFORE_VOWEL = {'ma': 'mon', 'sa': 'son', 'ce': 'cet'}
_CONTRACTED = {'de le': 'du', 'de les': 'des', 'à le': 'au', 'à les': 'aux'}


def _starts_with_vowel(word: str) -> bool:
    return word[0] in _VOWELS and word not in _ASPIRATED


def spell(words: Sequence[str]) -> str:
    """Joins French words: elides before vowels, then contracts what is left ('de le' -> 'du')."""
    out = [words[-1]]
    for word in reversed(words[:-1]):
        if f'{word} {out[-1]}' in _CONTRACTED:
            word = _CONTRACTED[f'{word} {out.pop()}']
        elif _starts_with_vowel(out[-1]):
            word = word[:-1] + "'" if word in _ELIDED else _BEFORE_VOWEL.get(word, word)
        out.append(word)
    return ' '.join(reversed(out)).replace("' ", "'")


def _sentence(english: str, french: Sequence[str], mark: str = '.') -> tuple[str, str]:
    # French puts a space before a question mark.
    translated = spell(french) + {'.': '.', '?': ' ?'}[mark]
    return english[0].upper() + english[1:] + mark, translated[0].upper() + translated[1:]


# ---------------------------------------------------------------------------------- grammar


def noun_phrase(
    determiner: str,
    noun: str,
    *adjectives: str,
    plural: bool = False,
    negated: bool = False,
    owner: Phrase | None = None,
) -> Phrase:
    """A determiner, adjectives in English order, and a noun.

    Args:
      determiner: A key of `DETERMINERS`, or 'no' in a negated phrase.
      noun: A key of `NOUNS`.
      *adjectives: Keys of `ADJECTIVES`.
      plural: Whether there are several.
      negated: Whether this is the direct object of a negation, which turns 'a' and 'some' to 'de'.
      owner: The baker of "the baker's dog"; the determiner must be 'the'.
    """
    english_forms, french_forms, feminine, _ = NOUNS[noun]
    words = [agree(a, feminine, plural) for a in adjectives if a in BEFORE_NOUN]
    preposed = bool(words)
    if preposed and not (feminine or plural) and _starts_with_vowel(french_forms[0]):
        words[-1] = next(ADJECTIVES[a][4] for a in adjectives if a in BEFORE_NOUN)
    words.append(french_forms[plural])
    words += [agree(a, feminine, plural) for a in adjectives if a not in BEFORE_NOUN]
    if negated and determiner in ('a', 'some', 'no'):
        words.insert(0, 'de')
        determiner = 'any' if determiner == 'some' else determiner
    elif determiner == 'some' and not plural:
        words[:0] = ['de', _THE[feminine]]
    elif determiner == 'some' and preposed:
        words.insert(0, 'de')  # 'de petits chats', not 'des'
    else:
        words.insert(0, DETERMINERS[determiner][2 if plural else feminine])
    english = ' '.join([*adjectives, english_forms[plural]])
    if owner:
        determiner = owner.english + "'s"
        words += ['de', *owner.french]
    elif determiner == 'a' and english[0] in 'aeiou':
        determiner = 'an'
    return Phrase(f'{determiner} {english}', tuple(words), 4 if plural else 1, feminine, plural)


def both(first: Phrase, second: Phrase) -> Phrase:
    """Two subjects joined by 'and': feminine in French only if both are."""
    french = (*first.french, 'et', *second.french)
    feminine = first.feminine and second.feminine
    return Phrase(f'{first.english} and {second.english}', french, 4, feminine, True)


def place(spot: str, noun: Phrase) -> Phrase:
    """A phrase of place: place('near', ...) is 'near the tree'."""
    english, french = _SPOTS[spot][0].split('=')
    return Phrase(f'{english} {noun.english}', (*french.split(), *noun.french))


def description(subject: Phrase, *adjectives: str, very: bool = False) -> Phrase:
    """Adjectives that agree with the subject, to follow 'be'."""
    french = ' et '.join(agree(a, subject.feminine, subject.plural) for a in adjectives)
    english = ' and '.join(adjectives)
    return Phrase('very ' * very + english, tuple(('très ' * very + french).split()))


def _english_verb(verb: Verb, tense: str, person: int) -> tuple[str, str, str]:
    """The auxiliary of questions, the verb with no auxiliary ('' if it needs one), and with it."""
    be, was = ('am', 'is', 'are', 'are', 'are')[person], 'was' if person < 2 else 'were'
    do = 'does' if person == 1 else 'do'
    return {
        'present': (do, _english_s(verb.base) if person == 1 else verb.base, verb.base),
        'progressive': (be, '', verb.ing),
        'past': ('did', verb.past, verb.base),
        'past progressive': (was, '', verb.ing),
        'future': ('will', '', verb.base),
    }[tense]


def _french_verb(verb: Verb, state: bool, tense: str, subject: Phrase, negated: bool) -> list[str]:
    """The verb with its negation around the conjugated word, and what follows it."""
    participle, present, imperfect = conjugation(verb.infinitive)
    rest = []
    if tense == 'past progressive' or (tense == 'past' and state):
        finite = imperfect[subject.person]
    elif tense == 'past':
        with_etre = verb.infinitive in WITH_ETRE
        finite = conjugation('être' if with_etre else 'avoir')[1][subject.person]
        ending = 'e' * subject.feminine + 's' * subject.plural if with_etre else ''
        rest.append(participle + ending)
    elif tense == 'future':
        finite = conjugation('aller')[1][subject.person]
        rest.append(verb.infinitive)
    else:
        finite = present[subject.person]
    if verb.tail in _POSTURES:
        rest.append(agree(_POSTURES[verb.tail], subject.feminine, subject.plural))
    elif verb.tail:
        rest.append(verb.tail)
    return ['ne', finite, 'pas', *rest] if negated else [finite, *rest]


def clause(subject: Phrase, verb: str, tense: str, *rest: Phrase, negated: bool = False) -> Clause:
    """A clause in 'present', 'progressive', 'past', 'past progressive' or 'future'."""
    entry = VERBS[verb]
    auxiliary, alone, asked = _english_verb(entry, tense, subject.person)
    after = [entry.particle, *(phrase.english for phrase in rest)]
    asked = ' '.join(filter(None, [asked, *after]))
    predicate = f'{auxiliary} {"not " if negated else ""}{asked}'
    if alone and not negated:
        predicate = ' '.join(filter(None, [alone, *after]))
    french = _french_verb(entry, verb in STATES, tense, subject, negated)
    french += [word for phrase in rest for word in phrase.french]
    return Clause(subject.english, predicate, auxiliary, asked, (*subject.french, *french))


_LINKS = {'and': 'et', 'but': 'mais', 'while': 'pendant que', 'because': 'parce que'}
_QUESTIONS = {'': '', 'where': 'où', 'when': 'quand', 'why': 'pourquoi'}


def statement(first: Clause, link: str = '', second: Clause | None = None) -> tuple[str, str]:
    """One clause, or two of them with a word of `_LINKS` between."""
    english, french = f'{first.subject} {first.predicate}', first.french
    if second:
        english += f' {link} {second.subject} {second.predicate}'
        french += (*_LINKS[link].split(), *second.french)
    return _sentence(english, french, '?' if first.subject == WHO.english else '.')


def question(asked: Clause, word: str = '') -> tuple[str, str]:
    """A yes-no question, or one that begins with a word of `_QUESTIONS`."""
    english = f'{word} {asked.auxiliary} {asked.subject} {asked.asked}'.strip()
    return _sentence(english, (*_QUESTIONS[word].split(), 'est-ce', 'que', *asked.french), '?')


def where_is(subject: Phrase, past: bool) -> tuple[str, str]:
    """'Where is the cat?', where French has the verb before the subject."""
    asked = clause(subject, 'be', 'past progressive' if past else 'progressive')
    english = f'where {asked.auxiliary} {subject.english}'
    return _sentence(english, ('où', asked.french[-1], *subject.french), '?')


def there_is(what: Phrase, spot: Phrase, past: bool, negated: bool = False) -> tuple[str, str]:
    """'There is a cat on the couch'; the negated phrase is one with 'no' for a determiner."""
    english = (('is', 'are'), ('was', 'were'))[past][what.plural]
    verb = 'avait' if past else 'a'
    french = ('il', 'ne', 'y', verb, 'pas') if negated else ('il', 'y', verb)
    english = f'there {english} {what.english} {spot.english}'
    return _sentence(english, french + what.french + spot.french)


# ------------------------------------------------------------------------------------- dice

_ONGOING_TENSES = {'past': 'past progressive', 'present': 'progressive'}
_EVENTS = [f for f in FRAMES if f.verb not in STATES]
_ONGOING = [f for f in FRAMES if f.verb not in NO_PROGRESSIVE]
_OF_PEOPLE = [f for f in FRAMES if f.who in ('people', 'living')]
_WHERE = [f for f in FRAMES if f.where and f.verb not in ('stay', 'fall', 'see', 'give', 'wear')]
_EXPLAINED = [
    (feeling, negated, [f for f in _OF_PEOPLE if f.verb in verbs.split(', ')])
    for feeling, (done, not_done) in _REASONS.items()
    for negated, verbs in ((False, done), (True, not_done))
]
# What determiners to draw from; 'own' is a possessive and 'number' a number.
_MIXES = {
    mix: determiners.split()
    for mix, determiners in {
        'subject': 'the the the the the the a this own own number',
        'object': 'the the the a a a this own own number',
        'few': 'the the the a a a this own own',
        'known': 'the the the the this own',
        'place': 'the the the the the the the a this own',
        'new': 'a a number',
    }.items()
}


def _pick(rng: random.Random, choices: Sequence[T]) -> T:
    # Not rng.choice: only rng.random is promised to give the same numbers in every Python.
    return choices[int(rng.random() * len(choices))]


@cache
def _nouns(groups: str) -> list[str]:
    """The nouns of a list of kinds and single nouns."""
    groups = groups.replace('living', 'people animal').replace('people', 'adult child kin')
    by_group = {g: [n for n in NOUNS if NOUNS[n].kind == g] or [g] for g in groups.split()}
    return [noun for nouns in by_group.values() for noun in nouns]


def _pick_noun(rng: random.Random, groups: str, avoid: str = '') -> str:
    """A noun of the groups that is not the one to avoid."""
    nouns = _nouns(groups)
    index = int(rng.random() * len(nouns))
    return nouns[index] if nouns[index] != avoid else nouns[index - 1]


def _pick_adjectives(rng: random.Random, kind: str) -> list[str]:
    if rng.random() < 0.62:
        return []
    choices = _DESCRIPTIONS[kind].split()
    first, second = _pick(rng, choices), _pick(rng, choices)
    two = first in BEFORE_NOUN and second in COLORS and rng.random() < 0.5
    return [first, second] if two else [first]


def _dress(
    rng: random.Random, name: str, mix: str, plural_chance: float = 0.3, negated: bool = False
) -> Phrase:
    """A noun with a determiner of the mix and perhaps adjectives or an owner."""
    kind = NOUNS[name].kind
    owned = kind in OWNED or name in OWNED
    determiner = 'own' if kind == 'kin' else _pick(rng, _MIXES[mix])
    if determiner == 'own' and not owned:
        determiner = 'the'
    if determiner == 'number' and (negated or kind in _ONLY_SINGULAR):
        determiner = 'a'
    plural = determiner == 'number' or rng.random() < plural_chance
    plural = plural and kind not in _ONLY_SINGULAR
    owner = None
    if determiner == 'own':
        determiner = _pick(rng, tuple(POSSESSIVES))
    elif determiner == 'the' and owned and kind not in PEOPLE and rng.random() < 0.12:
        owner = _dress_plainly(rng, _pick_noun(rng, 'people'))
    elif determiner == 'this' and plural:
        determiner = 'these'
    elif determiner == 'a' and (plural or kind in ('mass', 'drink')):
        # 'Des chats dorment' is not how French begins, and 'près de' takes no 'des'.
        determiner = {'subject': 'number', 'place': 'the'}.get(mix, 'some')
    if determiner == 'number':
        determiner = _pick(rng, tuple(NUMBERS))
    adjectives = _pick_adjectives(rng, kind)
    return noun_phrase(determiner, name, *adjectives, plural=plural, negated=negated, owner=owner)


def _dress_plainly(rng: random.Random, name: str) -> Phrase:
    return noun_phrase(_pick(rng, tuple(POSSESSIVES)) if NOUNS[name].kind == 'kin' else 'the', name)


def _subject(
    rng: random.Random, groups: str, avoid: str = '', pronouns: bool = True
) -> tuple[Phrase, str]:
    """A subject and its noun or pronoun, which is not the one to avoid."""
    if pronouns and groups in ('people', 'living') and rng.random() < 0.33:
        name = _pick(rng, [pronoun for pronoun in PRONOUNS if pronoun != avoid])
        return PRONOUNS[name], name
    name = _pick_noun(rng, groups, avoid)
    if NOUNS[name].kind in PEOPLE and rng.random() < 0.06:
        other = _pick_noun(rng, 'people', name)
        return both(_dress_plainly(rng, name), _dress_plainly(rng, other)), name
    return _dress(rng, name, 'subject'), name


def _spot(rng: random.Random, spots: Sequence[str], avoid: str = '') -> Phrase:
    spot = _pick(rng, spots)
    name = _pick_noun(rng, _SPOTS[spot][1], avoid)
    # One sits near the trees, but hardly on the couches.
    plural_chance = 0.25 if spot in ('to', 'near', 'behind', 'front') else 0.0
    mix = 'known' if spot in ('public', 'shop', 'to') else 'place'
    return place(spot, _dress(rng, name, mix, plural_chance))


def _tense(rng: random.Random, verb: str, period: str) -> str:
    # 'I put' and 'I read' could be present or past; so they are past, and only habits are present.
    simple_chance = {'past': 0.65, 'present': 0.65 if verb in _HABITS else 0.0, 'future': 1.0}
    simple = verb in NO_PROGRESSIVE or rng.random() < simple_chance[period]
    return period if simple else _ONGOING_TENSES[period]


def _clause(
    rng: random.Random,
    period: str,
    frame: Frame,
    subject: tuple[Phrase, str],
    *,
    tense: str = '',
    negated: bool = False,
    spot_chance: float = 0.5,
    adverb_chance: float = 0.0,
) -> Clause:
    """A frame filled in for a subject."""
    verb, name, rest = frame.verb, subject[1], []
    tense = tense or _tense(rng, verb, period)
    if frame.what:
        direct = not VERBS[verb].tail
        mix = 'object' if direct and verb not in _DEFINITE else 'known'
        name = _pick_noun(rng, frame.what, name)
        plural_chance = 0.0 if verb in _ONE_THING else 0.3
        if mix == 'object' and (verb in _ONE_THING or NOUNS[name].kind in PEOPLE):
            mix = 'few'  # no numbers: nobody wears six hats
        rest.append(_dress(rng, name, mix, plural_chance, negated and direct))
    if frame.where and spot_chance and (verb in _SOMEWHERE or rng.random() < spot_chance):
        rest.append(_spot(rng, frame.where, name))
    timeless = verb in STATES and (tense == 'present' or verb in NO_PROGRESSIVE)
    if not timeless and rng.random() < adverb_chance:
        english, french = _pick(rng, _ADVERBS[tense]).split('=')
        rest.append(Phrase(english, tuple(french.split())))
    return clause(subject[0], verb, tense, *rest, negated=negated)


def _any_clause(rng: random.Random, period: str, frames: Sequence[Frame], **more) -> Clause:
    frame = _pick(rng, frames)
    return _clause(rng, period, frame, _subject(rng, frame.who), **more)


def _one_action(rng: random.Random) -> tuple[str, str]:
    """'The cat did not eat the pear in the garden this morning.'"""
    period = _pick(rng, ('past', 'past', 'past', 'present', 'present', 'future'))
    frames, negated = _EVENTS if period == 'future' else FRAMES, rng.random() < 0.2
    return statement(_any_clause(rng, period, frames, negated=negated, adverb_chance=0.3))


def _two_actions(rng: random.Random) -> tuple[str, str]:
    """'The black cat sat on the couch and the brown dog slept on the rug.'"""
    period = _pick(rng, ('past', 'past', 'present'))
    link = _pick(rng, ('and', 'and', 'and', 'and', 'but', 'while', 'while'))
    frame = _pick(rng, FRAMES)
    subject = _subject(rng, frame.who)
    first = _clause(rng, period, frame, subject, spot_chance=0.35)
    frame = _pick(rng, _ONGOING if link == 'while' else FRAMES)
    # After a noun, 'he' and 'they' would mean that noun; after another pronoun they need not.
    other = _subject(rng, frame.who, subject[1], pronouns=subject[1] in PRONOUNS)
    tense = _ONGOING_TENSES[period] if link == 'while' else ''
    negated = link == 'but' and rng.random() < 0.5
    second = _clause(rng, period, frame, other, tense=tense, negated=negated, spot_chance=0.35)
    return statement(first, link, second)


def _reason(rng: random.Random) -> tuple[str, str]:
    """'My sister stayed in the house because she was tired.'"""
    feeling, negated, frames = _pick(rng, _EXPLAINED)
    frame, period = _pick(rng, frames), _pick(rng, ('past', 'past', 'present'))
    subject, name = _subject(rng, frame.who if feeling == 'raining' else 'people')
    first = _clause(rng, period, frame, (subject, name), negated=negated)
    if feeling == 'raining':
        subject = IT
    elif name not in PRONOUNS:
        he, they = PRONOUNS['he'], PRONOUNS['they']
        she, elles = PRONOUNS['she'], ELLES
        subject = ((he, she), (they, elles))[subject.plural][subject.feminine]
    return statement(first, 'because', _feel(subject, feeling, period == 'past', False))


def _feel(subject: Phrase, feeling: str, past: bool, negated: bool) -> Clause:
    tense = 'past progressive' if past else 'progressive'
    if feeling in VERBS:
        return clause(subject, feeling, tense, negated=negated)
    return clause(subject, 'be', tense, description(subject, feeling), negated=negated)


def _being(rng: random.Random, negated: bool = False) -> Clause:
    """'She is hungry'; 'the key is in the box'; 'the house was very quiet'."""
    past, dice = rng.random() < 0.5, rng.random()
    if dice < 0.3:
        return _feel(_subject(rng, 'people')[0], _pick(rng, _FEELINGS), past, negated)
    if dice < 0.55:
        things = _pick(rng, tuple(_WHEREABOUTS))
        name = _pick_noun(rng, things)
        subject = _dress(rng, name, 'known')
        rest = _spot(rng, _WHEREABOUTS[things].split(), name)
    else:
        name = _pick_noun(rng, _DESCRIBED)
        kind = NOUNS[name].kind
        plural = kind not in _ONLY_SINGULAR and rng.random() < 0.3
        own = kind in OWNED and rng.random() < 0.4
        subject = noun_phrase(_pick(rng, tuple(POSSESSIVES)) if own else 'the', name, plural=plural)
        # What is 'new' after 'be' is 'neuf'; 'nouveau' would be another one.
        choices = [a for a in _DESCRIPTIONS[kind].split() if a != 'new']
        first, second = _pick(rng, choices), _pick(rng, choices)
        if first in BEFORE_NOUN and second not in BEFORE_NOUN:
            rest = description(subject, first, second)
        else:
            very = first not in COLORS | {'empty'} and rng.random() < 0.5
            rest = description(subject, first, very=very)
    return clause(
        subject, 'be', 'past progressive' if past else 'progressive', rest, negated=negated
    )


def _quality(rng: random.Random) -> tuple[str, str]:
    return statement(_being(rng, negated=rng.random() < 0.2))


def _question(rng: random.Random) -> tuple[str, str]:
    """'Did the boys eat the cake?', perhaps with 'where', 'when' or 'why'."""
    word = _pick(rng, ('', '', '', '', '', 'where', 'where', 'when', 'why'))
    if not word and rng.random() < 0.4:
        return question(_being(rng))
    period = _pick(rng, ('past', 'past', 'present'))
    if word == 'where':
        return question(_any_clause(rng, period, _WHERE, spot_chance=0.0), word)
    if word == 'when' or not word and rng.random() < 0.3:
        tense = _pick(rng, ('past', 'future'))
        return question(_any_clause(rng, tense, _EVENTS, tense=tense), word)
    return question(_any_clause(rng, period, FRAMES, spot_chance=0.7), word)


def _who(rng: random.Random) -> tuple[str, str]:
    """'Who broke the cup?'"""
    period = _pick(rng, ('past', 'past', 'present', 'future'))
    frame = _pick(rng, _EVENTS if period == 'future' else FRAMES)
    return statement(_clause(rng, period, frame, (WHO, ''), spot_chance=0.7))


def _where_is(rng: random.Random) -> tuple[str, str]:
    things = _pick(rng, tuple(_WHEREABOUTS))
    return where_is(_dress(rng, _pick_noun(rng, things), 'known'), past=rng.random() < 0.4)


def _there_is(rng: random.Random) -> tuple[str, str]:
    """'There are three birds near the tree.'"""
    things = _pick(rng, tuple(_WHEREABOUTS))
    name = _pick_noun(rng, things.replace('people', 'adult child'))
    past, negated = rng.random() < 0.5, rng.random() < 0.2
    if negated:
        adjectives = _pick_adjectives(rng, NOUNS[name].kind)
        plural = rng.random() < 0.5
        what = noun_phrase('no', name, *adjectives, plural=plural, negated=True)
    else:
        what = _dress(rng, name, 'new', plural_chance=0.4)
    return there_is(what, _spot(rng, _WHEREABOUTS[things].split(), name), past, negated)


_SENTENCES = (
    *(_one_action, _one_action, _one_action, _one_action, _two_actions, _two_actions, _two_actions),
    *(_reason, _reason, _quality, _question, _question, _there_is),
)


def sentence_pair(rng: random.Random) -> tuple[str, str]:
    """One random (English, French) pair."""
    if rng.random() < 0.06:
        return _pick(rng, (_who, _where_is))(rng)
    return _pick(rng, _SENTENCES)(rng)


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
