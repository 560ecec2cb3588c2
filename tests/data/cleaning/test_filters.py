"""Filters drop what they say, count it, and leave dev and test alone."""

import logging
import unicodedata

import pytest

from transformer_jax.config import DataConfig
from transformer_jax.data.cleaning.filters import FilterCounter, read_filters
from transformer_jax.data.corpora.corpus import open_corpus
from transformer_jax.errors import UserError

GOOD = ('The cat sleeps on the mat.', 'Le chat dort sur la natte.')


def kept(spec, *pairs, **languages):
    counter = FilterCounter(read_filters(DataConfig(filters=spec, **languages)))
    return [pair for pair in pairs if counter.keeps(pair)]


@pytest.mark.parametrize(
    ('spec', 'bad'),
    [
        ('length=6', ('One two three four five six seven.', 'Un.')),
        ('ratio=3', ('Yes.', 'Une phrase bien plus longue que cela.')),
        ('identical', ('Paris  is HERE', 'paris is here')),
        ('letters=0.5', ('1 + 1 = 2, 2 + 2 = 4', 'Un et un font deux.')),
        ('script=latin,latin', ('The cat.', 'Кот спит.')),
        ('digits', ('It costs 1,000 euros in 2024.', 'Cela coûte 1 000 euros en 2025.')),
    ],
)
def test_each_filter_drops_its_pairs_and_no_others(spec, bad):
    assert kept(spec, GOOD, bad) == [GOOD]


@pytest.mark.parametrize(
    ('source', 'target'),
    [
        ('It costs 1,000.50 euros.', 'Cela coûte 1 000,50 euros.'),
        ('It costs 1,000 francs.', "Das kostet 1'000 Franken."),
        ('I have 25 cats.', 'عندي ٢٥ قطة.'),
        ('I have 25 cats.', 'मेरे पास २५ बिल्लियाँ हैं।'),
        ('I have 25 cats.', '２５匹の猫がいる。'),
        ('In 2010 30 people came.', 'En 2010, 30 personnes sont venues.'),
        ('Rooms 100 200 are free.', 'Les chambres 100 et 200 sont libres.'),
        ('It is 32.7 x 22.5 cm.', 'Cela mesure 32,7 x 22,5 cm.'),
        ('On 25.12.2010.', 'Le 25/12/2010.'),
    ],
)
def test_equal_numbers_may_be_written_in_two_ways(source, target):
    assert kept('digits', (source, target)) == [(source, target)]
    other = (source, target.translate({**dict.fromkeys(map(ord, '5٥५５0'), '7')}))
    assert kept('digits', other) == []


HINDI = ('मुझे बहुत किताबें पढ़नी हैं', 'ผู้เรียนรู้ที่นี่')
DECOMPOSED = tuple(unicodedata.normalize('NFD', x) for x in ('Où est l’été dernier ?', 'Élève.'))


@pytest.mark.parametrize('pair', [HINDI, ('مُدَرِّسَة', 'மாணவர்கள்'), DECOMPOSED])
def test_a_letter_with_its_marks_is_one_letter(pair):
    assert kept('letters=0.7', pair) == [pair]


def test_the_marks_of_an_emoji_are_no_letters():
    assert kept('letters=0.7', ('❤️❤️ a', 'b')) == []


@pytest.mark.parametrize(
    'spec', ['identical', 'duplicates', 'source_duplicates', 'target_duplicates', 'ratio=1.1']
)
def test_decomposed_and_composed_accents_are_equal(spec):
    text = 'Élève à l’école de mon père'
    pair = (text.upper(), text) if spec in ('identical', 'ratio=1.1') else ('a', text)
    again = tuple(unicodedata.normalize('NFD', x) for x in pair)
    if spec == 'identical':
        assert kept(spec, (pair[0], again[1])) == []
    elif spec == 'ratio=1.1':
        assert kept(spec, (pair[0], again[1])) == [(pair[0], again[1])]
    else:
        assert kept(spec, pair, again) == [pair]


def test_a_language_is_told_alike_from_decomposed_text():
    pytest.importorskip('py3langid', reason='the extra "language" is not installed')
    pair = ('Được rồi, tôi sẽ đến đó ngay bây giờ.', 'C’était très étrange, même à l’été passé.')
    decomposed = tuple(unicodedata.normalize('NFD', x) for x in pair)
    found = kept('language', pair, decomposed, source_language='vi', target_language='fr')
    assert found == [pair, decomposed]


@pytest.mark.parametrize('code', ['>>fra<<', '<2fr>', ' >>fra<<'])
@pytest.mark.parametrize(
    ('spec', 'source', 'target', 'is_kept'),
    [
        ('length=3', 'the cat sleeps', 'le chat dort', True),
        ('ratio=2', 'Oh no', 'Oh non', True),
        ('identical', 'Paris', 'paris', False),
        ('letters=0.8', 'Yes', 'Oui', True),
        ('digits', 'Two', 'Deux', True),
        ('script=greek,latin', 'Ναι', 'Oui', True),
    ],
)
def test_language_codes_are_no_words(code, spec, source, target, is_kept):
    assert bool(kept(spec, (f'{code} {source}', target))) == is_kept


def test_a_source_in_two_languages_is_no_duplicate():
    pairs = [('>>fra<< OK', 'OK'), ('>>deu<< OK', 'OK')]
    assert kept('duplicates source_duplicates', *pairs, pairs[0]) == pairs


def test_repeated_pairs_and_sides_are_dropped_after_the_first():
    other = (GOOD[0], 'Autre chose.')
    again = (GOOD[0].upper(), f' {GOOD[1]}')
    assert kept('duplicates', GOOD, other, again) == [GOOD, other]
    assert kept('source_duplicates', GOOD, other, again) == [GOOD]
    assert kept('target_duplicates', GOOD, ('x', GOOD[1]), other) == [GOOD, other]


def test_another_language_is_dropped_if_the_text_is_long_enough():
    pytest.importorskip('py3langid', reason='the extra "language" is not installed')
    swapped, short = GOOD[::-1], ('Tom!', 'Tom !')
    found = kept('language', GOOD, swapped, short, source_language='en', target_language='fr')
    assert found == [GOOD, short]


@pytest.mark.parametrize(
    ('spec', 'message'),
    [
        ('rato=3', "'rato' is no filter; there are length, ratio, .*did you mean 'ratio'"),
        ('ratio', 'ratio needs a value, for example ratio=3'),
        ('digits=1', 'digits takes no value'),
        ('ratio=x', "'ratio=x' has a wrong value: write for example ratio=3"),
        ('length=0', "'length=0' has a wrong value"),
        ('ratio=nan', "'ratio=nan' has a wrong value"),
        ('script=latin', "'script=latin' has a wrong value: write for example script=latin,cyr"),
    ],
)
def test_wrong_filters_are_named(spec, message):
    with pytest.raises(UserError, match=message):
        read_filters(DataConfig(filters=f'identical {spec}'))


def corpus(filters):
    sizes = {'train_size': 300, 'dev_size': 20, 'test_size': 20}
    return open_corpus(
        DataConfig(corpus='phrasebook', target_language='fr', filters=filters, **sizes)
    )


def test_the_training_pairs_of_a_corpus_are_filtered_and_counted_once(caplog):
    caplog.set_level(logging.INFO, 'transformer_jax')
    plain, filtered = corpus(''), corpus('length=6')
    for _ in range(2):  # as the vocabulary and the tokens are made
        found = list(filtered.pairs('train'))
    assert 0 < len(found) < 300
    assert max(len(text.split()) for pair in found for text in pair) == 6
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].startswith(f'Filter length=6 dropped {300 - len(found)} pairs (')
    assert len(lines) == 4  # and three examples, once
    for split in ('dev', 'test'):
        assert list(filtered.pairs(split)) == list(plain.pairs(split))
        assert filtered.fingerprint(split) == plain.fingerprint(split)
    assert filtered.fingerprint('train') != plain.fingerprint('train')


def test_older_rules_of_the_filters_have_another_fingerprint(monkeypatch):
    now, plain = corpus('digits').fingerprint('train'), corpus('').fingerprint('train')
    monkeypatch.setattr('transformer_jax.data.cleaning.filters._RULES', 1)
    assert corpus('digits').fingerprint('train') != now
    assert corpus('').fingerprint('train') == plain


def test_pairs_with_a_low_score_of_a_model_are_dropped(tmp_path):
    bad, unknown = ('The dog.', 'Paris  est grand.'), ('A cat.', 'Un chat.')
    path = tmp_path / 'scored.tsv'
    rows = [(*GOOD, -6.0, -0.9, 7), (bad[0], 'Paris est grand.', -40.1, -8.02, 5)]
    path.write_text(''.join('\t'.join(map(str, row)) + '\n' for row in rows))
    assert kept(f'score=-3:{path}', GOOD, bad, unknown) == [GOOD, unknown]
    assert kept(f'score=-9:{path}', GOOD, bad) == [GOOD, bad]
    path.write_text('\t'.join((*GOOD, '-', '-', '7')) + '\n')
    assert kept(f'score=-9:{path}', GOOD, bad) == [bad]
    path.write_text(''.join('\t'.join(map(str, row)) + '\n' for row in rows))
    assert kept(f'score=-3:{path}', (f'>>fra<< {bad[0]}', bad[1])) == []
    path.write_text('The dog.\tParis\n')
    with pytest.raises(
        UserError, match=r'scored\.tsv., line 1, is not SOURCE, TARGET and the three'
    ):
        kept(f'score=-3:{path}', GOOD)


@pytest.mark.parametrize(
    ('spec', 'problem'),
    [
        ('score=-3', 'has a wrong value: write for example score=-3:scored.tsv'),
        ('score=low:x', 'has a wrong value'),
        ('score=-3:missing.tsv', "data.filters='missing.tsv' does not exist"),
    ],
)
def test_a_score_needs_a_limit_and_a_file(spec, problem):
    with pytest.raises(UserError, match=problem):
        read_filters(DataConfig(filters=spec))


def test_another_file_of_scores_changes_the_fingerprint(tmp_path):
    for name, text in (('a.en', 'a\nb\nc\nd\n'), ('a.fr', 'e\nf\ng\nh\n'), ('s', '')):
        (tmp_path / name).write_text(text)
    config = DataConfig(
        corpus='files',
        train_source=str(tmp_path / 'a.en'),
        train_target=str(tmp_path / 'a.fr'),
        filters=f'score=-3:{tmp_path / "s"}',
        cache_dir=str(tmp_path / 'cache'),
    )
    first = open_corpus(config).fingerprint('train')
    (tmp_path / 's').write_text('a\te\t-9\t-9\t1\n')
    assert open_corpus(config).fingerprint('train') != first
