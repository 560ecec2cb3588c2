"""Filters drop what they say, count it, and leave dev and test alone."""

import logging

import pytest

from transformer_jax.config import DataConfig
from transformer_jax.data.corpus import open_corpus
from transformer_jax.data.filters import FilterCounter, read_filters
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


def test_equal_numbers_may_be_written_in_two_ways():
    same = ('It costs 1,000.50 euros.', 'Cela coûte 1 000,50 euros.')
    assert kept('digits', same) == [same]


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


def test_pairs_with_a_low_score_of_a_model_are_dropped(tmp_path):
    bad, unknown = ('The dog.', 'Paris  est grand.'), ('A cat.', 'Un chat.')
    path = tmp_path / 'scored.tsv'
    rows = [(*GOOD, -6.0, -0.9, 7), (bad[0], 'Paris est grand.', -40.1, -8.02, 5)]
    path.write_text(''.join('\t'.join(map(str, row)) + '\n' for row in rows))
    assert kept(f'score=-3:{path}', GOOD, bad, unknown) == [GOOD, unknown]
    assert kept(f'score=-9:{path}', GOOD, bad) == [GOOD, bad]
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
