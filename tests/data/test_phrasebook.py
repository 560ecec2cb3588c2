"""Tests of the embedded English-French corpus."""

import itertools
import random
import re

import pytest

from transformer_jax.data import phrasebook
from transformer_jax.data.phrasebook import (
    PRONOUNS,
    both,
    clause,
    description,
    noun_phrase,
    place,
    question,
    statement,
    there_is,
    where_is,
)

SIZES = {'train': 2000, 'dev': 50, 'test': 50}


def the(noun, *adjectives, **more):
    return noun_phrase('the', noun, *adjectives, **more)


def say(subject, verb, tense, *rest, **more):
    subject = PRONOUNS.get(subject, subject)
    return statement(clause(subject, verb, tense, *rest, **more))


def ask(subject, verb, tense, *rest, word=''):
    return question(clause(PRONOUNS.get(subject, subject), verb, tense, *rest), word)


@pytest.fixture(scope='module')
def drawn():
    rng = random.Random(7)
    return [phrasebook.sentence_pair(rng) for _ in range(20_000)]


def test_the_held_out_sentence_follows_from_the_grammar():
    sat = clause(the('cat', 'black'), 'sit', 'past', place('seat', the('couch')))
    slept = clause(the('dog', 'brown'), 'sleep', 'past', place('seat', the('rug')))
    pair = statement(sat, 'and', slept)
    assert pair == (
        'The black cat sat on the couch and the brown dog slept on the rug.',
        'Le chat noir était assis sur le canapé et le chien marron dormait sur le tapis.',
    )
    assert list(phrasebook.HELD_OUT) == [pair]


def test_the_held_out_sentence_is_the_last_of_test_and_nowhere_else():
    splits = phrasebook.generate(seed=0, **SIZES)
    held_out = phrasebook.HELD_OUT[0]
    assert held_out not in splits['train'] + splits['dev'] + splits['test'][:-1]
    assert splits['test'][-1] == held_out


def test_elision():
    pair = say('I', 'like', 'present', the('school'))
    assert pair == ('I like the school.', "J'aime l'école.")


def test_no_elision_before_an_aspirated_h():
    pair = say(the('man'), 'speak to', 'past', the('owl'))
    assert pair == ('The man spoke to the owl.', "L'homme a parlé au hibou.")


def test_contraction_of_a_and_the_article():
    children = place('to', the('child', plural=True))
    pair = say('she', 'give', 'past', noun_phrase('a', 'egg'), children)
    assert pair == ('She gave an egg to the children.', 'Elle a donné un œuf aux enfants.')


def test_contraction_of_de_and_the_article():
    pair = say('we', 'live', 'past', place('near', the('bridge')))
    assert pair == ('We lived near the bridge.', 'Nous habitions près du pont.')


def test_contraction_of_de_and_the_plural_article():
    pair = say('we', 'stay', 'past', place('near', the('tree', 'old', plural=True)))
    assert pair == ('We stayed near the old trees.', 'Nous sommes restés près des vieux arbres.')


def test_an_owner():
    pair = say('he', 'wear', 'past', the('hat', 'red', owner=the('doctor')))
    assert pair == ("He wore the doctor's red hat.", 'Il portait le chapeau rouge du médecin.')


@pytest.mark.parametrize(
    ('noun', 'french'),
    [
        ('bread', 'Il mange du pain.'),
        ('meat', 'Il mange de la viande.'),
    ],
)
def test_partitive(noun, french):
    pair = say('he', 'eat', 'present', noun_phrase('some', noun))
    assert pair == (f'He eats some {noun}.', french)


def test_partitive_before_a_vowel():
    pair = say('he', 'drink', 'progressive', noun_phrase('some', 'water', 'cold'))
    assert pair == ('He is drinking some cold water.', "Il boit de l'eau froide.")


def test_des_is_de_before_an_adjective():
    pair = say('they', 'have', 'present', noun_phrase('some', 'cat', 'small', plural=True))
    assert pair == ('They have some small cats.', 'Ils ont de petits chats.')


@pytest.mark.parametrize(
    ('noun', 'adjectives', 'english', 'french'),
    [
        ('bird', ['beautiful', 'white'], 'the beautiful white bird', 'le bel oiseau blanc'),
        ('friend', ['old'], 'the old friend', 'le vieil ami'),
        ('hotel', ['new'], 'the new hotel', 'le nouvel hôtel'),
        ('owl', ['beautiful'], 'the beautiful owl', 'le beau hibou'),
        ('cow', ['old', 'brown'], 'the old brown cow', 'la vieille vache marron'),
        ('orange', ['fresh'], 'the fresh orange', "l'orange fraîche"),
    ],
)
def test_adjectives(noun, adjectives, english, french):
    phrase = the(noun, *adjectives)
    assert (phrase.english, phrasebook.spell(phrase.french)) == (english, french)


@pytest.mark.parametrize(
    ('determiner', 'noun', 'french'),
    [
        ('my', 'orange', 'mon orange'),
        ('my', 'sister', 'ma sœur'),
        ('her', 'school', 'son école'),
        ('this', 'donkey', 'cet âne'),
        ('this', 'owl', 'ce hibou'),
        ('this', 'plate', 'cette assiette'),
    ],
)
def test_determiners_before_vowels(determiner, noun, french):
    assert phrasebook.spell(noun_phrase(determiner, noun).french) == french


@pytest.mark.parametrize(
    ('noun', 'english', 'french'),
    [
        ('horse', 'three horses', 'trois chevaux'),
        ('bird', 'three birds', 'trois oiseaux'),
        ('newspaper', 'three newspapers', 'trois journaux'),
        ('owl', 'three owls', 'trois hiboux'),
        ('mouse', 'three mice', 'trois souris'),
    ],
)
def test_plurals_after_a_number(noun, english, french):
    phrase = noun_phrase('three', noun, plural=True)
    assert (phrase.english, phrasebook.spell(phrase.french)) == (english, french)


def test_participle_agrees_with_etre():
    girls = noun_phrase('two', 'girl', plural=True)
    pair = say(girls, 'leave with', 'past', noun_phrase('my', 'uncle'))
    assert pair == ('Two girls left with my uncle.', 'Deux filles sont parties avec mon oncle.')


def test_participle_does_not_agree_with_avoir():
    pair = say('she', 'open', 'past', the('window'))
    assert pair == ('She opened the window.', 'Elle a ouvert la fenêtre.')


def test_posture_agrees():
    pair = say(the('queen', plural=True), 'sit', 'past', place('seat', the('bench')))
    assert pair == ('The queens sat on the bench.', 'Les reines étaient assises sur le banc.')


def test_a_mixed_pair_is_masculine():
    pair = say(both(noun_phrase('my', 'sister'), the('man')), 'lie', 'progressive')
    assert pair == ('My sister and the man are lying.', "Ma sœur et l'homme sont couchés.")


def test_past_progressive_keeps_the_soft_consonant():
    pair = say('I', 'begin', 'past progressive', the('book'))
    assert pair == ('I was beginning the book.', 'Je commençais le livre.')


def test_future():
    pair = say('you', 'buy', 'future', noun_phrase('your', 'coat'))
    assert pair == ('You will buy your coat.', 'Vous allez acheter votre manteau.')


def test_negated_indefinite_object_takes_de():
    oranges = noun_phrase('some', 'orange', plural=True, negated=True)
    pair = say('I', 'buy', 'past', oranges, negated=True)
    assert pair == ('I did not buy any oranges.', "Je n'ai pas acheté d'oranges.")


def test_negated_definite_object_keeps_its_article():
    pair = say('he', 'eat', 'present', the('apple'), negated=True)
    assert pair == ('He does not eat the apple.', 'Il ne mange pas la pomme.')


def test_because_elides():
    tired = clause(PRONOUNS['he'], 'be', 'past progressive', description(PRONOUNS['he'], 'tired'))
    pair = statement(clause(PRONOUNS['he'], 'sleep', 'past'), 'because', tired)
    assert pair == ('He slept because he was tired.', "Il dormait parce qu'il était fatigué.")


def test_being_hungry_is_having_hunger():
    pair = say('she', 'hungry', 'progressive', negated=True)
    assert pair == ('She is not hungry.', "Elle n'a pas faim.")


def test_question():
    pair = ask('he', 'read', 'past', the('newspaper'))
    assert pair == ('Did he read the newspaper?', "Est-ce qu'il a lu le journal ?")


def test_question_with_a_question_word():
    pair = ask(the('cat'), 'sleep', 'progressive', word='where')
    assert pair == ('Where is the cat sleeping?', 'Où est-ce que le chat dort ?')


def test_who():
    pair = statement(clause(phrasebook.WHO, 'break', 'past', noun_phrase('our', 'cup')))
    assert pair == ('Who broke our cup?', 'Qui a cassé notre tasse ?')


def test_where_is():
    pair = where_is(the('key', plural=True), past=False)
    assert pair == ('Where are the keys?', 'Où sont les clés ?')


def test_there_is_no():
    orange = noun_phrase('no', 'orange', negated=True)
    pair = there_is(orange, place('top', the('table')), past=True, negated=True)
    assert pair == ('There was no orange on the table.', "Il n'y avait pas d'orange sur la table.")


def test_the_seed_decides():
    first = phrasebook.generate(seed=3, **SIZES)
    assert phrasebook.generate(seed=3, **SIZES) == first
    assert phrasebook.generate(seed=4, **SIZES)['train'][:5] != first['train'][:5]


def test_the_first_sentence_of_a_seed_never_changes():
    # Whoever compares two models must be able to rely on the same corpus in every Python.
    assert phrasebook.sentence_pair(random.Random(2024)) == (
        'The car is in front of the window.',
        'La voiture est devant la fenêtre.',
    )


def test_splits_have_their_sizes_and_share_no_sentence():
    splits = phrasebook.generate(seed=5, **SIZES)
    assert {split: len(pairs) for split, pairs in splits.items()} == SIZES
    assert len({english for pairs in splits.values() for english, _ in pairs}) == 2100


def test_test_sentences_do_not_depend_on_the_size_of_train():
    small = phrasebook.generate(seed=5, train=10, dev=50, test=50)
    assert small['test'] == phrasebook.generate(seed=5, **SIZES)['test']


def test_empty_splits():
    assert phrasebook.generate(seed=0, train=0, dev=0, test=0) == {s: [] for s in SIZES}


@pytest.mark.parametrize('split', SIZES)
def test_negative_sizes_are_refused(split):
    with pytest.raises(ValueError, match=f'{split} split cannot have -3 pairs'):
        phrasebook.generate(seed=0, **(SIZES | {split: -3}))


def test_translation_is_a_function(drawn):
    assert len(dict(drawn)) == len(set(drawn))


_SOUNDS_LIKE_A_VOWEL = '(?!hibou|huit|onze|et )[aeiouyhàâéèêœAEIOUYHÉ]'


@pytest.mark.parametrize(
    'forbidden',
    [
        r'\b[dD]e les? ',
        r'\bà les? ',
        rf'\b([lL][ea]|[jJ]e|ne|de|que|[cC]e|[mMsS]a) {_SOUNDS_LIKE_A_VOWEL}',
        rf'\b(nouveau|beau) {_SOUNDS_LIKE_A_VOWEL}',
        r"\b(l|d|qu|n|j)'(?!aujourd)[^aeiouyhâéèêœ]",
        r"'(hibou|huit|onze)",
        r'^(?!.*\brev[ie]).*\bpas (un|une|des|du) ',
        r'(?<!près) des (petit|grand|vieux|vieilles|beaux|belles|nouve|joli|bon|mauvais)',
        '  ',
        '^[^A-ZÀÉ]',
        r'[^ ]\?',
        r'[^.?]$',
        r' \.',
    ],
)
def test_no_misspelling(drawn, forbidden):
    assert [french for _, french in drawn if re.search(forbidden, french)] == []


def test_english_is_well_formed(drawn):
    bad = re.compile(r'  |^[^A-Z]|[^.?]$|\b[aA] [aeiou]|\b[aA]n [^aeiou]')
    assert [english for english, _ in drawn if bad.search(english)] == []


def test_there_are_millions_of_sentences():
    # Some of the sentences with 'and': any two of these clauses can be joined.
    animals = [name for name, noun in phrasebook.NOUNS.items() if noun.kind == 'animal']
    clauses = {
        clause(the(animal, color), verb, tense, place('seat', the(seat)))
        for animal, color, verb, tense, seat in itertools.product(
            animals,
            ['black', 'white', 'brown', 'gray'],
            ['sit', 'lie', 'sleep'],
            ['past', 'past progressive'],
            ['couch', 'rug', 'bed', 'chair', 'bench'],
        )
    }
    assert len(clauses) == 11 * 4 * 3 * 2 * 5
    assert len(clauses) ** 2 > 1_000_000
