"""Words and grammar of the phrasebook: phrases and clauses in English and French.

Each English phrase has one translation. When English says less than French, a convention decides:

* 'I' is one man, 'we' and 'you' (vous) are several people, 'they' is 'ils'.
* 'child', 'doctor', 'teacher' and 'friend' are masculine.
* The simple past is the passé composé ('ate' -> 'a mangé'), but the imparfait for the verbs of
  state ('slept' -> 'dormait'); 'was eating' is always the imparfait.
* 'it' is the animal that acts if the living are like that ('it was tired'), and the thing if things
  are ('it was dry-cleaned').

Every phrase is built in both languages at once. Its French is a tuple of uncontracted words ('de',
'le', 'homme') until `spell` joins them ("de l'homme"). Elision and contraction need no grammar,
because they depend only on the next word.
"""

from collections import namedtuple
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

Noun = namedtuple('Noun', 'plural french feminine kind')
Verb = namedtuple('Verb', 'english french who what where')


def _pairs(table: str) -> dict[str, str]:
    return dict(entry.split(':') for entry in table.split())


def _rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.split('|')] for row in table.strip().splitlines()]


# Kind: 'english:french:gender'; an irregular English plural follows a slash.
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
    'speech': 'language:langue:f word:mot:m',
    'tool': 'computer:ordinateur:m dictionary:dictionnaire:m transformer:transformer:m',
    'clothes': 'hat:chapeau:m coat:manteau:m shirt:chemise:f dress:robe:f scarf/scarves:écharpe:f',
    'thing': 'key:clé:f cup:tasse:f plate:assiette:f lamp:lampe:f ball:ballon:m clock:horloge:f',
    'container': 'box:boîte:f bag:sac:m basket:panier:m suitcase:valise:f',
    'furniture': """couch:canapé:m rug:tapis:m mat:natte:f table:table:f bed:lit:m chair:chaise:f
        bench:banc:m""",
    'vehicle': 'car:voiture:f boat:bateau:m bicycle:vélo:m',
    'room': 'house:maison:f kitchen:cuisine:f bedroom:chambre:f office:bureau:m',
    'building': """castle:château:m church:église:f hotel:hôtel:m school:école:f station:gare:f
        hospital:hôpital:m museum:musée:m market:marché:m""",
    'outdoors': 'garden:jardin:m park:parc:m forest:forêt:f field:champ:m street:rue:f',
    'landmark': 'tree:arbre:m bridge:pont:m wall:mur:m door:porte:f window:fenêtre:f lake:lac:m',
}
# Kinds that are used in the singular only, and kinds that belong to nobody.
SINGULAR = {'mass', 'drink', 'room', 'building', 'outdoors'}
PUBLIC = {'person', 'building', 'outdoors', 'landmark'}

_BEFORE_NOUN = _pairs("""big:grand small:petit young:jeune good:bon bad:mauvais pretty:joli
    long:long old:vieux new:nouveau beautiful:beau""")
ADJECTIVES = _BEFORE_NOUN | _pairs("""black:noir white:blanc brown:marron gray:gris red:rouge
    blue:bleu green:vert yellow:jaune happy:heureux sad:triste tired:fatigué sick:malade hot:chaud
    cold:froid fresh:frais clean:propre dirty:sale heavy:lourd empty:vide quiet:tranquille""")
_FEMININE = _pairs("""bon:bonne long:longue vieux:vieille nouveau:nouvelle beau:belle blanc:blanche
    heureux:heureuse frais:fraîche""")
_BEFORE_VOWEL = _pairs('ma:mon sa:son vieux:vieil nouveau:nouvel beau:bel')
# Kinds of noun | French adjectives before the noun | after the noun.
DESCRIPTIONS = _rows("""
person                 | small young                   | happy sad tired sick
kin                    | young old                     | happy sad tired sick
animal                 | big small young old beautiful | black white brown gray
food mass              | good bad                      | fresh cold
drink                  | good bad                      | hot cold
text                   | good bad long old new         | sad
speech                 | old new                       |
tool                   | good bad old new              |
clothes thing          | old new pretty                | red blue green yellow white clean dirty
container              | big small old new             | red blue green brown empty heavy
vehicle furniture      | big small old new             | red blue yellow white gray heavy
room building outdoors | big small old new beautiful   | empty clean quiet
landmark               | big small beautiful           | white gray green
""")
# 'english:masculine/feminine/plural'.
POSSESSIVES = _pairs("""my:mon/ma/mes his:son/sa/ses her:son/sa/ses our:notre/notre/nos
    your:votre/votre/vos their:leur/leur/leurs""")
NUMBERS = _pairs("""two:deux three:trois four:quatre five:cinq six:six seven:sept eight:huit
    nine:neuf ten:dix eleven:onze twelve:douze""")
_DETERMINERS = _pairs('the:le/la/les a:un/une/des') | POSSESSIVES | NUMBERS

# What the living may be too tired for | what is done to things, and to which of them.
TOO_TIRED_TO = _pairs('eat:manger run:courir play:jouer sleep:dormir drink:boire speak:parler')
DONE_TO = _rows("""
dry-cleaned | nettoyé à sec | couch rug mat chair
repaired    | réparé        | couch table bed chair bench
painted     | peint         | table bed chair bench
""")
# Place | English preposition | French preposition | nouns that can follow.
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
# English | French | subjects | objects ('be': adjectives) | places; '-' is a form that is not used.
_VERBS = """
eat ate eating             | manger       | living | food mass | indoors outdoors
drink drank drinking       | boire        | people | drink | indoors outdoors
buy bought buying          | acheter      | people | food drink text thing tool vehicle | public
write wrote writing        | écrire       | people | letter story poem book | indoors seat
translate translated translating | traduire | people | text word | indoors
learn learned learning     | apprendre    | people | language word poem | indoors
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
want wanted -              | vouloir      | people | food mass drink text thing tool clothes |
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
FRAMES = [Verb(*row) for row in _rows(_VERBS)]
_STATES = {'vouloir', 'avoir', 'porter', 'habiter', 'dormir', 'être'}  # 'dormait'
_WITH_ETRE = {'aller', 'revenir', 'entrer', 'rester', 'partir', 'tomber'}
# Infinitive, participle, and the present of je, il, nous, vous, ils.
_IRREGULAR = """
être été suis est sommes êtes sont, acheter acheté achète achète achetons achetez achètent, avoir eu
ai a avons avez ont, attendre attendu attends attend attendons attendez attendent, aller allé vais
va allons allez vont, revenir revenu reviens revient revenons revenez reviennent, boire bu bois boit
buvons buvez boivent, traduire traduit traduis traduit traduisons traduisez traduisent, apprendre
appris apprends apprend apprenons apprenez apprennent, écrire écrit écris écrit écrivons écrivez
écrivent, courir couru cours court courons courez courent, dormir dormi dors dort dormons dormez
dorment, vouloir voulu veux veut voulons voulez veulent, partir parti pars part partons partez
partent, ouvrir ouvert ouvre ouvre ouvrons ouvrez ouvrent"""
_CONJUGATED = {verb: forms for verb, *forms in map(str.split, _IRREGULAR.split(','))}


class Phrase(NamedTuple):
    """A piece of a sentence in both languages, with the person and gender for agreement."""

    english: str
    french: tuple[str, ...]
    person: int = 1  # an index into (je, il, nous, vous, ils)
    feminine: bool = False


def _english_s(word: str) -> str:
    """Return a word with the -s of the plural or of the third person."""
    if word[-1] == 'y' and word[-2] not in 'aeou':
        return word[:-1] + 'ies'
    return 'has' if word == 'have' else word + 'e' * word.endswith(('s', 'ch', 'x', 'o')) + 's'


def agree(word: str, feminine: bool, plural: bool) -> str:
    """Return the form of a French noun, or of a masculine adjective or participle."""
    if word == 'marron':  # invariable, because it is a noun (chestnut)
        return word
    if feminine:
        word = _FEMININE.get(word, word + 'e' * (word[-1] != 'e'))
    if not plural or word[-1] in 'sx':
        return word
    return word[:-2] + 'aux' if word.endswith('al') else word + 'sx'[word.endswith('eau')]


@cache
def conjugation(infinitive: str) -> tuple[str, list[str], list[str]]:
    """Return the participle, the present and the imparfait of a French verb."""
    stem = infinitive[:-2]
    soft = stem + 'e' * stem.endswith('g')  # 'mangeons' keeps its soft g
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
VERBS = {verb.english.split()[0]: verb for verb in FRAMES}
_links = _pairs('and:et but:mais because:parce_que').items()
LINKS = {english: Phrase(english, tuple(french.split('_'))) for english, french in _links}
_pronouns = enumerate(_pairs('I:je he:il we:nous you:vous they:ils').items())
PRONOUNS = {english: Phrase(english, (french,), person) for person, (english, french) in _pronouns}
PRONOUNS['she'] = Phrase('she', ('elle',), feminine=True)
IT = {False: Phrase('it', ('il',)), True: Phrase('it', ('elle',), feminine=True)}
WHO = Phrase('who', ('qui',))


def _starts_with_vowel(word: str) -> bool:
    return word[0] in 'aeiouhâéêœ' and word not in ('huit', 'onze')  # 'que huit rois'


def spell(words: Sequence[str]) -> str:
    """Join French words: elide before vowels, then contract the rest ('de le' -> 'du')."""
    out = [words[-1]]
    for word in reversed(words[:-1]):
        if word in ('le', 'la', 'je', 'ne', 'de', 'que') and _starts_with_vowel(out[-1]):
            word = word[:-1] + "'"
        elif word in ('à', 'de') and out[-1] in ('le', 'les'):
            word = {'àle': 'au', 'àles': 'aux', 'dele': 'du', 'deles': 'des'}[word + out.pop()]
        out.append(word)
    return ' '.join(reversed(out)).replace("' ", "'")


def chain(*phrases: Phrase) -> Phrase:
    """Concatenate phrases: chain(clause(...), LINKS['and'], clause(...))."""
    english = ' '.join(phrase.english for phrase in phrases)
    return Phrase(english, tuple(word for phrase in phrases for word in phrase.french))


def sentence(phrase: Phrase, mark: str = '.') -> tuple[str, str]:
    """Return the (English, French) pair of a clause; the mark is '.' or '?'."""
    english, french = phrase.english + mark, spell(phrase.french) + ' ' * (mark == '?') + mark
    return english[0].upper() + english[1:], french[0].upper() + french[1:]


def noun_phrase(
    determiner: str, name: str, *adjectives: str, plural: bool = False, negated: bool = False
) -> Phrase:
    """Return a phrase of a determiner, adjectives in English order, and a noun.

    The determiner 'a' becomes 'some' before plurals and mass nouns, or 'any' if negated.
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
    """Return the auxiliary, the verb after it, and the verb of a plain statement."""
    base, past, ing = forms
    if base == 'be' or tense.endswith('progressive'):
        was, be = 'was' if person < 2 else 'were', ('am', 'is', 'are', 'are', 'are')[person]
        auxiliary, ing = was if tense.startswith('past') else be, ing.strip('-')
        return auxiliary, ing, f'{auxiliary} {ing}'.strip()
    if tense == 'past':
        return 'did', base, past
    return ('does', base, _english_s(base)) if person == 1 else ('do', base, base)


def clause(subject: Phrase, verb: Verb, tense: str, *rest: Phrase, mood: str = '') -> Phrase:
    """Return a clause.

    Args:
      subject: who acts.
      verb: the verb.
      tense: 'present' or 'past', or, if the verb is not 'be', either with ' progressive'.
      rest: object and place.
      mood: '' for a statement, 'not' for a negation, '?' for a yes-no question, 'where' for a
        question with 'be'.
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


def feeling(adjective: str, subject: Phrase, cannot: str = '') -> Phrase:
    """Return how a subject feels: 'tired', or 'too tired to' do what it cannot do ('get up')."""
    french = agree(ADJECTIVES[adjective], subject.feminine, subject.person > 1)
    if not cannot:
        return Phrase(adjective, (french,))
    if cannot == 'get up':
        action = (('me', 'se', 'nous', 'vous', 'se')[subject.person], 'lever')
    else:
        action = (TOO_TIRED_TO[cannot],)
    return Phrase(f'too {adjective} to {cannot}', ('trop', french, 'pour', *action))


def passive(subject: Phrase, done: str) -> Phrase:
    """Return the clause that something was done to a subject, with a word of `DONE_TO`."""
    plural = subject.person > 1
    participle, *after = next(french for english, french, _ in DONE_TO if english == done).split()
    was, has = ('were', 'ont') if plural else ('was', 'a')
    agreed = agree(participle, subject.feminine, plural)
    return Phrase(f'{subject.english} {was} {done}', (*subject.french, has, 'été', agreed, *after))


def judgement(adjective: str, infinitive: str, *rest: Phrase) -> Phrase:
    """Return 'it is easy to' do something, with a verb of `VERBS` and what follows the verb."""
    french = {'easy': 'facile', 'hard': 'difficile'}[adjective]
    verb = VERBS[infinitive]
    act = Phrase(infinitive, ('de', *verb.french.split()))
    return chain(Phrase(f'it is {adjective} to', ('il', 'est', french)), act, *rest)
