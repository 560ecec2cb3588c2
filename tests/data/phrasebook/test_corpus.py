"""The embedded corpus: correct French, one translation for each English sentence, clean splits."""

import collections
import random
import re

import pytest

from transformer_jax.config import DataConfig
from transformer_jax.data.corpora.corpus import open_corpus
from transformer_jax.data.phrasebook import corpus as phrasebook
from transformer_jax.data.phrasebook.grammar import (
    IT,
    LINKS,
    NOUNS,
    PLACES,
    PRONOUNS,
    VERBS,
    WHO,
    Phrase,
    agree,
    chain,
    clause,
    feeling,
    judgement,
    noun_phrase,
    passive,
    sentence,
    spell,
)
from transformer_jax.errors import UserError
from transformer_jax.storage.cache import content_digest

SIZES = {'train': 300, 'dev': 20, 'test': 20}
FIRST = (
    'The sick women fell behind the small window.',
    'Les femmes malades sont tombées derrière la petite fenêtre.',
)
SHE = PRONOUNS['she']


def the(noun, *adjectives, **more):
    return noun_phrase('the', noun, *adjectives, **more)


def a(noun, *adjectives, **more):
    return noun_phrase('a', noun, *adjectives, **more)


def at(place, where):
    english, french, _ = PLACES[place]
    return chain(Phrase(english, tuple(french.split())), where)


def say(subject, verb, tense, *rest, mood=''):
    subject = PRONOUNS.get(subject, subject)
    mark = '?' if mood in ('?', 'where') or subject is WHO else '.'
    return sentence(clause(subject, VERBS[verb], tense, *rest, mood=mood), mark)


@pytest.fixture(scope='module')
def drawn():
    rng = random.Random(7)
    return [phrasebook.sentence_pair(rng) for _ in range(20_000)]


def test_the_grammar_makes_the_held_out_sentences():
    def on(subject, verb, furniture):
        return clause(subject, VERBS[verb], 'past', at('seat', the(furniture)))

    cat, plural = the('cat'), {'plural': True}
    tired = clause(IT[False], VERBS['be'], 'past', feeling('tired', IT[False], 'get up'))
    two = zip(sentence(on(cat, 'sleep', 'couch')), sentence(tired), strict=True)
    languages, transformers = a('language', **plural), a('transformer', **plural)
    bare = [x._replace(english=x.english.removeprefix('some ')) for x in (languages, transformers)]
    tools = Phrase('with', ('avec',)), bare[1]
    black = on(the('cat', 'black'), 'sit', 'couch')
    assert (
        sentence(on(cat, 'sit', 'mat')),
        tuple(map(' '.join, two)),
        sentence(chain(on(cat, 'sit', 'rug'), LINKS['and'], passive(IT[False], 'dry-cleaned'))),
        sentence(judgement('easy', 'translate', bare[0], *tools)),
        sentence(chain(black, LINKS['and'], on(the('dog', 'brown'), 'sleep', 'rug'))),
    ) == phrasebook.HELD_OUT


@pytest.mark.parametrize(
    ('english', 'french', 'phrase'),
    [
        (
            'I was too tired to get up.',
            "J'étais trop fatigué pour me lever.",
            clause(PRONOUNS['I'], VERBS['be'], 'past', feeling('tired', PRONOUNS['I'], 'get up')),
        ),
        (
            'It is too sick to eat.',
            'Elle est trop malade pour manger.',
            clause(IT[True], VERBS['be'], 'present', feeling('sick', IT[True], 'eat')),
        ),
        ('It was painted.', 'Elle a été peinte.', passive(IT[True], 'painted')),
        (
            'The chairs were dry-cleaned.',
            'Les chaises ont été nettoyées à sec.',
            passive(the('chair', plural=True), 'dry-cleaned'),
        ),
        (
            'It is hard to open the door.',
            "Il est difficile d'ouvrir la porte.",
            judgement('hard', 'open', the('door')),
        ),
    ],
)
def test_what_is_said_of_it_is_correct(english, french, phrase):
    assert sentence(phrase) == (english, french)


@pytest.mark.parametrize(
    ('kinds', 'said'),
    [
        ('animal', r'(?:is|was) (?:too )?(?:tired|sick|happy|sad)\b'),
        ('furniture', r'was (?:dry-cleaned|repaired|painted)\b'),
    ],
)
def test_it_is_the_animal_that_feels_or_the_thing_that_was_worked_on(drawn, kinds, said):
    names = [name for name, noun in NOUNS.items() if noun.kind == kinds]
    pattern = re.compile(rf'\b({"|".join(names)})\b.*\b[iI]t {said}')
    found = {'il': 0, 'elle': 0}
    for english, french in drawn:
        if match := pattern.search(english):
            pronoun = 'elle' if NOUNS[match[1]].feminine else 'il'
            assert re.search(r'.*\b([iI]l|[eE]lle)\b', french)[1].lower() == pronoun, english
            found[pronoun] += 1
    assert min(found.values()) > 100


@pytest.mark.parametrize(
    ('english', 'french', 'pair'),
    [
        ('I open the door.', "J'ouvre la porte.", say('I', 'open', 'present', the('door'))),
        ('He eats some bread.', 'Il mange du pain.', say('he', 'eat', 'present', a('bread'))),
        ('Who fell?', 'Qui est tombé ?', say(WHO, 'fall', 'past')),
        ('Did she run?', "Est-ce qu'elle a couru ?", say('she', 'run', 'past', mood='?')),
        (
            'She gave an egg to the children.',
            'Elle a donné un œuf aux enfants.',
            say('she', 'give', 'past', a('egg'), at('to', the('child', plural=True))),
        ),
        (
            'You ran near the old cars.',
            'Vous avez couru près des vieilles voitures.',
            say('you', 'run', 'past', at('near', the('car', 'old', plural=True))),
        ),
        (
            'He is drinking some cold water.',
            "Il boit de l'eau froide.",
            say('he', 'drink', 'present progressive', a('water', 'cold')),
        ),
        (
            'They have some small cats.',
            'Ils ont de petits chats.',
            say('they', 'have', 'present', a('cat', 'small', plural=True)),
        ),
        (
            'I did not buy any oranges.',
            "Je n'ai pas acheté d'oranges.",
            say('I', 'buy', 'past', a('orange', plural=True, negated=True), mood='not'),
        ),
        (
            'The girls were not coming back from the school.',
            "Les filles ne revenaient pas de l'école.",
            say(the('girl', plural=True), 'come', 'past progressive', the('school'), mood='not'),
        ),
        (
            'The girls went to the market.',
            'Les filles sont allées au marché.',
            say(the('girl', plural=True), 'go', 'past', the('market')),
        ),
        (
            'The queen lay on the bed.',
            'La reine était couchée sur le lit.',
            say(the('queen'), 'lie', 'past', at('seat', the('bed'))),
        ),
        (
            'We were eating the cake.',
            'Nous mangions le gâteau.',
            say('we', 'eat', 'past progressive', the('cake')),
        ),
        (
            'Where are the keys?',
            'Où sont les clés ?',
            say(the('key', plural=True), 'be', 'present', mood='where'),
        ),
    ],
)
def test_sentences_are_correct(english, french, pair):
    assert pair == (english, french)


def test_because_elides_before_a_vowel():
    happy = Phrase('happy', (agree('heureux', True, False),))
    first, second = clause(SHE, VERBS['sleep'], 'past'), clause(SHE, VERBS['be'], 'past', happy)
    assert sentence(chain(first, LINKS['because'], second)) == (
        'She slept because she was happy.',
        "Elle dormait parce qu'elle était heureuse.",
    )


@pytest.mark.parametrize(
    ('english', 'french', 'phrase'),
    [
        ('the beautiful white bird', 'le bel oiseau blanc', the('bird', 'beautiful', 'white')),
        ('the old friend', 'le vieil ami', the('friend', 'old')),
        ('the new hotel', 'le nouvel hôtel', the('hotel', 'new')),
        ('the old trees', 'les vieux arbres', the('tree', 'old', plural=True)),
        ('the old brown cow', 'la vieille vache marron', the('cow', 'old', 'brown')),
        ('the brown dogs', 'les chiens marron', the('dog', 'brown', plural=True)),
        ('the fresh orange', "l'orange fraîche", the('orange', 'fresh')),
        ('my orange', 'mon orange', noun_phrase('my', 'orange')),
        ('my sister', 'ma sœur', noun_phrase('my', 'sister')),
        ('three horses', 'trois chevaux', noun_phrase('three', 'horse', plural=True)),
        ('six blue hats', 'six chapeaux bleus', noun_phrase('six', 'hat', 'blue', plural=True)),
        ('their mice', 'leurs souris', noun_phrase('their', 'mouse', plural=True)),
    ],
)
def test_noun_phrases_are_correct(english, french, phrase):
    assert (phrase.english, spell(phrase.french)) == (english, french)


def test_a_seed_determines_the_corpus():
    # In every version of Python, so that people can compare their models.
    first = phrasebook.generate(seed=3, **SIZES)
    assert phrasebook.generate(seed=3, **SIZES) == first != phrasebook.generate(seed=4, **SIZES)
    assert first['test'][0] == FIRST


def test_the_edition_changes_with_the_sentences():
    # If this fails, the generated sentences have changed: raise EDITION and update the digest.
    splits = phrasebook.generate(seed=0, train=2000, dev=200, test=200)
    texts = (text for pairs in splits.values() for pair in pairs for text in pair)
    assert (phrasebook.EDITION, content_digest(texts)) == (2, '93471cf14864d4e8c60474dffdcda19a')


def test_no_english_sentence_occurs_twice_and_the_held_out_ones_are_last():
    splits = phrasebook.generate(seed=0, **SIZES)
    assert {name: len(pairs) for name, pairs in splits.items()} == SIZES
    english = [pair[0] for split in ('train', 'dev', 'test') for pair in splits[split]]
    assert len(set(english)) == len(english)
    assert splits['test'][-5:] == list(phrasebook.HELD_OUT)


def test_dev_and_test_do_not_depend_on_the_size_of_train():
    small, large = (phrasebook.generate(seed=0, **SIZES | {'train': n}) for n in (0, 300))
    assert (small['dev'], small['test']) == (large['dev'], large['test'])


@pytest.mark.parametrize('split', SIZES)
def test_negative_sizes_are_refused(split):
    with pytest.raises(ValueError, match=f'{split} split cannot have -3 pairs'):
        phrasebook.generate(seed=0, **(SIZES | {split: -3}))


def test_each_english_sentence_has_one_translation(drawn):
    assert len(dict(drawn)) == len(set(drawn))


@pytest.mark.parametrize(
    'wrong',
    [
        r'\b([dD]e|à) les? ',
        r'\b([lL][ea]|[jJ]e|ne|de|que|[mMsS]a|beau|nouveau) (?!huit|onze|et )[aeiouhâéêèœ]',
        r"'(huit|onze|[^aeiouhâéêèœ])",
        r'^(?!.* rev).*\bpas (un|une|des|du) ',  # except 'il ne revient pas du parc'
        r'(?<!près) des (petit|grand|jeune|vieux|vieilles|beaux|belles|nouv|joli|bon|mauvais)',
        r'marrons|  |^[a-zà]|\w\?|[^.?]$',
    ],
)
def test_no_french_sentence_has(drawn, wrong):
    assert [french for _, french in drawn if re.search(wrong, french)] == []


def test_english_is_well_formed(drawn):
    bad = re.compile(r'  |^[^A-Z]|[^.?]$|\b[aA] [aeiou]|\b[aA]n [^aeiou]')
    assert [english for english, _ in drawn if bad.search(english)] == []


def test_a_few_hundred_common_words_make_millions_of_sentences(drawn):
    words = collections.Counter(w for e, _ in drawn for w in re.findall('[a-z]+', e.lower()))
    assert 250 < len(words) < 500
    assert min(words.values()) > 25
    # Any two of the simple statements, and there are more of them, can be joined with 'and'.
    simple = {e for e, _ in drawn if not re.search(r' (and|but|because) |\?', e)}
    assert len(simple) ** 2 > 1_000_000


def config(source='en', target='fr', **changes):
    languages = {'source_language': source, 'target_language': target}
    sizes = {'train_size': 200, 'dev_size': 20, 'test_size': 30}
    return DataConfig(corpus='phrasebook', **{**languages, **sizes, **changes})


def test_the_corpus_is_read_in_both_directions():
    forward, backward = open_corpus(config()), open_corpus(config('fr', 'en'))
    for split, size in (('train', 200), ('dev', 20), ('test', 30)):
        pairs = list(forward.pairs(split))
        assert len(pairs) == size
        assert list(backward.pairs(split)) == [(french, english) for english, french in pairs]
        assert forward.fingerprint(split) != backward.fingerprint(split)


def test_the_fingerprint_follows_the_seed():
    first = open_corpus(config()).fingerprint('train')
    assert open_corpus(config()).fingerprint('train') == first
    assert open_corpus(config(seed=1)).fingerprint('train') != first


@pytest.mark.parametrize(
    ('split', 'change'),
    [('train', {'train_size': 201}), ('dev', {'dev_size': 21}), ('test', {'test_size': 31})],
)
def test_the_fingerprint_follows_the_size(split, change):
    before, after = (open_corpus(config(**sizes)) for sizes in ({}, change))
    assert before.fingerprint(split) != after.fingerprint(split)


def test_the_fingerprint_needs_no_sentences(monkeypatch):
    monkeypatch.setattr(phrasebook, 'generate', None)
    generated = open_corpus(config())
    assert generated.fingerprint('train')
    generated.pairs('train')  # nothing is taken from it


@pytest.mark.parametrize('language', ['en', 'fr'])
def test_a_language_is_not_paired_with_itself(language):
    with pytest.raises(
        UserError, match=rf"data.target_language='{language}' is also the source language: the"
    ):
        open_corpus(config(language, language))


def test_other_languages_are_refused():
    with pytest.raises(UserError, match=r"data.target_language='de' is not in the phrasebook: tra"):
        open_corpus(config('en', 'de'))
