"""The embedded corpus: correct French, one translation for each English sentence, clean splits."""

import itertools
import random
import re

import pytest

from transformer_jax.data import phrasebook
from transformer_jax.data.phrasebook import (
    PRONOUNS,
    VERBS,
    WHO,
    clause,
    description,
    join,
    noun_phrase,
    place,
    sentence,
    where_is,
)

SIZES = {'train': 2000, 'dev': 50, 'test': 50}


def the(noun, *adjectives, **more):
    return noun_phrase('the', noun, *adjectives, **more)


def a(noun, *adjectives, **more):
    return noun_phrase('a', noun, *adjectives, **more)


def say(subject, verb, tense, *rest, mood=''):
    subject = PRONOUNS.get(subject, subject)
    mark = '?' if mood == '?' or subject is WHO else '.'
    return sentence(clause(subject, VERBS[verb], tense, *rest, mood=mood), mark)


@pytest.fixture(scope='module')
def drawn():
    rng = random.Random(7)
    return [phrasebook.sentence_pair(rng) for _ in range(20_000)]


def test_the_held_out_sentence_follows_from_the_grammar():
    sat = clause(the('cat', 'black'), VERBS['sit'], 'past', place('seat', the('couch')))
    slept = clause(the('dog', 'brown'), VERBS['sleep'], 'past', place('seat', the('rug')))
    pair = sentence(join(sat, 'and', slept))
    assert pair == (
        'The black cat sat on the couch and the brown dog slept on the rug.',
        'Le chat noir était assis sur le canapé et le chien marron dormait sur le tapis.',
    )
    assert list(phrasebook.HELD_OUT) == [pair]


@pytest.mark.parametrize(
    ('pair', 'english', 'french'),
    [
        (
            say('I', 'open', 'present', the('umbrella')),
            'I open the umbrella.',
            "J'ouvre le parapluie.",
        ),
        (
            say(the('man'), 'speak to', 'past', the('owl')),
            'The man spoke to the owl.',
            "L'homme a parlé au hibou.",
        ),
        (
            say('she', 'give', 'past', a('egg'), place('to', the('child', plural=True))),
            'She gave an egg to the children.',
            'Elle a donné un œuf aux enfants.',
        ),
        (
            say('we', 'walk', 'past', place('near', the('tree', 'old', plural=True))),
            'We walked near the old trees.',
            'Nous avons marché près des vieux arbres.',
        ),
        (
            say('he', 'stay', 'past', place('near', the('bridge'))),
            'He stayed near the bridge.',
            'Il est resté près du pont.',
        ),
        (say('he', 'eat', 'present', a('bread')), 'He eats some bread.', 'Il mange du pain.'),
        (say('he', 'eat', 'present', a('meat')), 'He eats some meat.', 'Il mange de la viande.'),
        (
            say('he', 'drink', 'progressive', a('water', 'cold')),
            'He is drinking some cold water.',
            "Il boit de l'eau froide.",
        ),
        (
            say('they', 'have', 'present', a('cat', 'small', plural=True)),
            'They have some small cats.',
            'Ils ont de petits chats.',
        ),
        (
            say('they', 'have', 'present', a('cat', 'black', plural=True)),
            'They have some black cats.',
            'Ils ont des chats noirs.',
        ),
        (
            say('he', 'eat', 'progressive', a('apple', negated=True), mood='not'),
            'He is not eating an apple.',
            'Il ne mange pas de pomme.',
        ),
        (
            say('we', 'buy', 'past', the('car'), mood='not'),
            'We did not buy the car.',
            "Nous n'avons pas acheté la voiture.",
        ),
        (
            say(the('girl', plural=True), 'arrive at', 'past', the('school')),
            'The girls arrived at the school.',
            "Les filles sont arrivées à l'école.",
        ),
        (
            say(the('queen'), 'lie', 'past', place('seat', the('bed'))),
            'The queen lay on the bed.',
            'La reine était couchée sur le lit.',
        ),
        (
            say('we', 'eat', 'past progressive', the('cake')),
            'We were eating the cake.',
            'Nous mangions le gâteau.',
        ),
        (
            say('she', 'sing', 'past', mood='?'),
            'Did she sing?',
            "Est-ce qu'elle a chanté ?",
        ),
        (say(WHO, 'fall', 'past'), 'Who fell?', 'Qui est tombé ?'),
        (
            sentence(where_is(the('key', plural=True), 'progressive'), '?'),
            'Where are the keys?',
            'Où sont les clés ?',
        ),
        (
            sentence(
                join(
                    clause(PRONOUNS['she'], VERBS['sleep'], 'past'),
                    'because',
                    clause(
                        PRONOUNS['she'],
                        VERBS['be'],
                        'past progressive',
                        description(PRONOUNS['she'], 'happy'),
                    ),
                )
            ),
            'She slept because she was happy.',
            "Elle dormait parce qu'elle était heureuse.",
        ),
    ],
)
def test_a_sentence(pair, english, french):
    assert pair == (english, french)


@pytest.mark.parametrize(
    ('phrase', 'english', 'french'),
    [
        (the('bird', 'beautiful', 'white'), 'the beautiful white bird', 'le bel oiseau blanc'),
        (the('friend', 'old'), 'the old friend', 'le vieil ami'),
        (the('hotel', 'new'), 'the new hotel', 'le nouvel hôtel'),
        (the('owl', 'beautiful'), 'the beautiful owl', 'le beau hibou'),
        (the('cow', 'old', 'brown'), 'the old brown cow', 'la vieille vache marron'),
        (the('orange', 'fresh'), 'the fresh orange', "l'orange fraîche"),
        (noun_phrase('my', 'orange'), 'my orange', 'mon orange'),
        (noun_phrase('my', 'sister'), 'my sister', 'ma sœur'),
        (noun_phrase('this', 'donkey'), 'this donkey', 'cet âne'),
        (noun_phrase('this', 'owl'), 'this owl', 'ce hibou'),
        (noun_phrase('three', 'horse', plural=True), 'three horses', 'trois chevaux'),
        (noun_phrase('two', 'owl', plural=True), 'two owls', 'deux hiboux'),
        (noun_phrase('five', 'hat', 'blue', plural=True), 'five blue hats', 'cinq chapeaux bleus'),
        (noun_phrase('their', 'mouse', plural=True), 'their mice', 'leurs souris'),
    ],
)
def test_a_noun_phrase(phrase, english, french):
    assert (phrase.english, phrasebook.spell(phrase.french)) == (english, french)


def test_the_held_out_sentence_is_the_last_of_test_and_nowhere_else():
    splits = phrasebook.generate(seed=0, **SIZES)
    held_out = phrasebook.HELD_OUT[0]
    assert held_out not in splits['train'] + splits['dev'] + splits['test'][:-1]
    assert splits['test'][-1] == held_out


def test_a_seed_says_all():
    assert phrasebook.generate(seed=3, **SIZES) == phrasebook.generate(seed=3, **SIZES)
    assert phrasebook.generate(seed=3, **SIZES) != phrasebook.generate(seed=4, **SIZES)


def test_no_english_sentence_comes_twice_in_all_the_splits():
    splits = phrasebook.generate(seed=0, **SIZES)
    assert {name: len(pairs) for name, pairs in splits.items()} == SIZES
    english = [pair[0] for pairs in splits.values() for pair in pairs]
    assert len(set(english)) == len(english)


def test_dev_and_test_do_not_depend_on_the_size_of_train():
    small, large = (phrasebook.generate(seed=0, **SIZES | {'train': n}) for n in (10, 1000))
    assert (small['dev'], small['test']) == (large['dev'], large['test'])


def test_a_negative_size_is_refused():
    with pytest.raises(ValueError, match='the dev split cannot have -3 pairs'):
        phrasebook.generate(seed=0, train=1, dev=-3, test=1)


def test_each_english_sentence_has_one_translation(drawn):
    translations = dict(drawn)
    assert all(translations[english] == french for english, french in drawn)


@pytest.mark.parametrize(
    'wrong',
    [
        r'\b(de|à) les?\b',
        r'\b(le|la|je|ne|de|que|se) (?!hibou|huit|onze)[aeiouhâéêèœ]',
        r'\b(ma|sa|ce|beau|nouveau) (?!hibou)[aeiouhâéêèœ]',
        r'  ',
        r'^[a-zà]',
        r'\w\?',
        r'[^.?]$',
        r'marrons',
    ],
)
def test_no_french_sentence_has(drawn, wrong):
    assert [french for _, french in drawn if re.search(wrong, french)] == []


def test_millions_of_sentences_are_possible(drawn):
    clauses = {english for english, _ in drawn if not re.search(r' (and|but|because) ', english)}
    # Any two of the statements among them make a third, joined by 'and'.
    assert len({english for english in clauses if english.endswith('.')}) ** 2 > 10_000_000


def test_the_words_are_a_few_hundred_and_all_common(drawn):
    words = itertools.chain.from_iterable(re.findall(r'[a-z]+', e.lower()) for e, _ in drawn)
    counts = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    assert 250 < len(counts) < 500
    rare = [word for word, count in counts.items() if count < 10]
    assert rare == []
