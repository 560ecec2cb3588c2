"""A mixture has the pairs of its parts in their shares, with their tags and filters."""

import dataclasses
import itertools

import numpy as np
import pytest

from transformer_jax.config import DataConfig
from transformer_jax.data.batching import order
from transformer_jax.data.batching import plan as batching
from transformer_jax.data.batching.loader import load_tensorflow, training_batches
from transformer_jax.data.cleaning.corpus_report import report
from transformer_jax.data.corpora.corpus import load_split, open_corpus
from transformer_jax.data.prepare import prepare
from transformer_jax.errors import UserError


@pytest.fixture
def folder(tmp_path):
    for name, language, count in (('web', 'fr', 90), ('news', 'de', 30)):
        rows = [f'the {name} {k}\t{language} {name} {k}\n' for k in range(count)]
        half = count // 2
        for shard, part in enumerate((rows[:half], rows[half:])):
            (tmp_path / f'{name}{shard}.tsv').write_text(f'en\t{language}\n' + ''.join(part))
    return tmp_path


def config(folder, web='', news='', **changes):
    settings = {
        'corpus': 'files',
        'target_language': 'fr',
        'corpora': f"""
            web train_source={folder}/web*.tsv tag=<2fr> {web}
            news train_source={folder}/news*.tsv tag=<2de> target_language=de {news}
        """,
        'dev_size': 4,
        'test_size': 6,
        'vocab_size': 310,
        'max_length': 40,
        'tokens_per_batch': 320,
        'num_buckets': 1,
        'cache_dir': str(folder / 'cache'),
    }
    return DataConfig(**settings | changes)


def shown(data, count, start=0):
    """Return the source texts of some steps."""
    batches = itertools.islice(training_batches(data.store, data.plan, start), count)
    vocabulary = data.vocabulary.source
    return [[vocabulary.decode(row) for row in batch['source'] if row[0]] for _, batch in batches]


def share(texts, tag):
    return np.mean([text.startswith(tag) for batch in texts for text in batch])


def test_without_a_mix_every_pair_is_seen_once_with_the_tag_of_its_part(folder):
    data = prepare(config(folder))
    texts = list(itertools.chain(*shown(data, data.plan.batches_per_epoch)))
    assert len(texts) == len(set(texts)) == 120 - 10
    assert {text.split(' ')[0] for text in texts} == {'<2fr>', '<2de>'}
    # Dev and test are held out of all parts together, and have tags as well.
    held_out = {source for source, _ in data.dev + data.test}
    assert len(held_out) == 10 and not held_out & set(texts)
    assert {source.split(' ')[0] for source in held_out} <= {'<2fr>', '<2de>'}


def test_a_mix_has_its_shares_in_its_stages_and_a_resumed_one_the_same_batches(folder, monkeypatch):
    monkeypatch.setattr(order, '_MOST', 100)
    load_tensorflow()
    data = prepare(config(folder, mix='web=0.5 news=0.5 until 30; news=1'))
    texts = shown(data, 60)
    assert share(texts[:30], '<2fr>') == pytest.approx(0.5, abs=0.02)
    assert share(texts[30:], '<2de>') == 1
    again = prepare(config(folder, mix='web=0.5 news=0.5 until 30; news=1'))
    for start in (7, 29, 30, 41):
        assert shown(again, 3, start) == texts[start : start + 3]


@pytest.mark.parametrize(('temperature', 'expected'), [(1.0, 0.75), (5.0, 0.55), (1e6, 0.5)])
def test_a_temperature_shows_small_parts_more(folder, temperature, expected):
    data = prepare(config(folder, temperature=temperature))
    assert share(shown(data, 60), '<2fr>') == pytest.approx(expected, abs=0.03)


def test_dev_and_test_are_those_of_the_parts_that_have_them(folder):
    corpus = open_corpus(
        config(
            folder,
            web=f'dev_source={folder}/web0.tsv',
            news=f'dev_source={folder}/news1.tsv test_source={folder}/news0.tsv',
        )
    )
    sources = [source for source, _ in corpus.pairs('dev')]
    assert (len(sources), sources[0], sources[-1]) == (60, '<2fr> the web 0', '<2de> the news 29')
    assert len(list(corpus.pairs('test'))) == 15
    assert len(list(corpus.pairs('train'))) == 120


def test_filters_are_those_of_a_part_and_do_not_see_its_tag(folder, caplog):
    caplog.set_level('INFO')
    (folder / 'news1.tsv').write_text('en\tde\nsame\tsame\n7 of 7\t8 von 7\nno. 1\tNr. 1\n')
    data = prepare(config(folder, news="filters='identical digits'"))
    assert 'news: Filter identical dropped 1 pairs' in caplog.text
    assert 'news: Filter digits dropped 1 pairs' in caplog.text and 'web: ' not in caplog.text
    assert data.plan.pairs == 90 + 15 + 1 - 10


def test_a_tag_is_one_piece_and_no_word(folder):
    vocabulary = prepare(config(folder)).vocabulary.source
    assert '<2de>' in vocabulary.pieces(vocabulary.encode(['<2de> the news'])[0])
    assert sorted(vocabulary.tags) == ['<2de>', '<2fr>']
    assert vocabulary.take_tag('<2de> the news') == ('<2de>', 'the news')
    assert vocabulary.take_tag('<2xx> the news') == ('', '<2xx> the news')
    plain = vocabulary.source_words('the news 7')
    with_tag = vocabulary.source_words('<2de> the news 7')
    assert with_tag[-len(plain) :] == plain
    assert {*with_tag[: -len(plain)]} == {None}


def test_a_changed_part_changes_the_fingerprint_and_the_other_is_not_tokenised_again(folder):
    parts = {side: f'{side}_source={folder}/web0.tsv' for side in ('dev', 'test')}
    settings = config(folder, web=' '.join(parts.values()), vocabulary='')
    first = prepare(settings)
    stores = set((folder / 'cache').glob('tokens-*'))
    (folder / 'news1.tsv').write_text('en\tde\nthe news 15\tde news 15\n')
    second = prepare(settings, first.vocabulary)
    assert second.fingerprint != first.fingerprint
    assert len(set((folder / 'cache').glob('tokens-*')) - stores) == 1


def test_the_test_set_of_a_finished_run_is_read_again(folder):
    settings = config(folder)
    corpus = open_corpus(settings)
    found = load_split(settings, 'test', corpus.fingerprint('test'))
    assert found == list(corpus.pairs('test')) and len(found) == 6
    assert load_split(settings, 'test', 'another') is None


@pytest.mark.filterwarnings('error')
def test_a_part_that_gives_no_pair_is_named(folder):
    with pytest.raises(UserError, match="has a part 'news' without a training pair"):
        prepare(config(folder, news='filters=length=1'))
    (folder / 'news0.tsv').write_text('en\tde\n')
    (folder / 'news1.tsv').write_text('en\tde\n')
    with pytest.raises(
        UserError, match=r"data\.train_source='.*news\*\.tsv' has no sentence pairs"
    ):
        prepare(config(folder))


def test_the_report_is_of_the_texts_without_tags(folder):
    found = report(config(folder, news="filters='length=1'"))
    assert found.splits['train'].pairs == 110
    assert found.splits['train'].words.max() == 3
    assert [one.dropped for one in found.filters if one.name == 'digits'] == [0]
    of_parts = {
        name: (pairs, [one[:2] for one in own]) for name, (pairs, own) in found.parts.items()
    }
    web, news = of_parts['web'], of_parts['news']
    assert web[0] + news[0] == 110 and web[1] == []
    assert news[1] == [('length=1', news[0])]
    assert f'part news: {news[0]} training pairs' in str(found)


def test_stages_need_other_pairs_than_those_before(folder):
    data = prepare(config(folder, mix='web=1 until 3; web=1'))
    assert isinstance(data.plan, batching.BatchPlan)
    first, second = shown(data, 3), shown(data, 3, 3)
    assert first != second


def test_shares_are_of_the_pairs_that_are_not_too_long(folder):
    long = ''.join(f'the {"news " * 40}{k}\tde {k}\n' for k in range(270))
    with (folder / 'news1.tsv').open('a') as file:
        file.write(long)
    data = prepare(config(folder, mix='web=0.5 news=0.5'))
    assert data.plan.dropped > 200
    assert share(shown(data, 60), '<2fr>') == pytest.approx(0.5, abs=0.03)


def test_a_source_that_is_held_out_is_in_train_in_no_language(folder):
    for name, language in (('web', 'fr'), ('news', 'de')):
        rows = ''.join(f'number {k}\t{language} {k}\n' for k in range(60))
        (folder / f'{name}0.tsv').write_text(f'en\t{language}\n{rows}')
        (folder / f'{name}1.tsv').write_text(f'en\t{language}\n')
    found = report(config(folder))
    for split in ('dev', 'test'):
        assert (found.splits[split].pairs, found.splits[split].seen_sources) > (0, 0)
        assert found.splits[split].seen_sources == 0


def test_a_tag_that_the_vocabulary_lacks_is_refused(folder):
    vocabulary = prepare(config(folder)).vocabulary
    settings = config(folder)
    other = settings.corpora.replace('<2de>', '<2es>')
    with pytest.raises(UserError, match=r"data\.tag='<2es>' is no piece of the vocabulary"):
        prepare(dataclasses.replace(settings, corpora=other), vocabulary)


def test_a_part_that_the_mix_never_names_is_warned_of(folder, caplog):
    prepare(config(folder, mix='web=1'))
    assert 'data.mix never names news: training does not see it.' in caplog.text
