"""What a corpus lacks is held out of train, always the same; the phrasebook has both languages."""

import logging
import os
import sys

import pytest
from tiny_corpus import many

from transformer_jax.config import DataConfig
from transformer_jax.data import corpus, text_files
from transformer_jax.data.corpus import load_split, open_corpus
from transformer_jax.errors import UserError

SPLITS = ('train', 'dev', 'test')


def config(folder, pairs, name='train', **changes):
    """A config that has the pairs as its train files (or those of another split)."""
    paths = {}
    for side, lines in zip(('source', 'target'), zip(*pairs, strict=True), strict=True):
        path = folder / f'{name}.{side}'
        path.write_text('\n'.join(lines), encoding='utf-8')
        paths[f'{name}_{side}'] = str(path)
    return DataConfig(**{'corpus': 'files', 'dev_size': 20, 'test_size': 30, **paths, **changes})


def held_out(*args, **changes):
    corpus = open_corpus(config(*args, **changes))
    return {split: list(corpus.pairs(split)) for split in SPLITS}


def sizes(splits):
    return [len(splits[split]) for split in SPLITS]


def test_held_out_sizes_and_nothing_lost(tmp_path):
    splits = held_out(tmp_path, many(1000))
    assert sizes(splits) == [950, 20, 30]
    assert sorted(pair for pairs in splits.values() for pair in pairs) == sorted(many(1000))


def test_no_held_out_source_stays_in_train(tmp_path):
    repeated = [(source, f'{target} {i}') for i in range(3) for source, target in many(1000)]
    splits = held_out(tmp_path, repeated)
    assert sizes(splits) == [2850, 20, 30]
    sources = [{source for source, _ in pairs} for pairs in splits.values()]
    assert not (sources[0] & sources[1] or sources[0] & sources[2] or sources[1] & sources[2])
    assert all(target.endswith(' 0') for _, target in splits['dev'] + splits['test'])


def test_what_differs_in_case_is_the_same_to_a_vocabulary_without_it(tmp_path):
    cased = [pair for s, t in many(1000) for pair in ((s, t), (s.upper(), t))]
    splits = held_out(tmp_path, cased, normalization='nmt_nfkc_cf')
    assert sizes(splits) == [1900, 20, 30]
    train, dev, test = ({source.lower() for source, _ in pairs} for pairs in splits.values())
    assert not (train & dev or train & test or dev & test)


def test_the_same_sentence_to_a_reader_is_the_same(tmp_path):
    variants = [(form.format(source), target) for source, target in many(1000)
                for form in ('{}', '\ufeff{} ', '\u00a0 {}\u200b')]  # fmt: skip
    splits = held_out(tmp_path, variants)
    assert sizes(splits) == [2850, 20, 30]
    sources = [
        {source.strip('\ufeff\u200b\u00a0 ') for source, _ in pairs} for pairs in splits.values()
    ]
    assert not (sources[0] & sources[1] or sources[0] & sources[2] or sources[1] & sources[2])


def test_no_empty_side_is_held_out(tmp_path):
    halves = [(source, target if k % 2 else '') for k, (source, target) in enumerate(many(1000))]
    splits = held_out(tmp_path, halves)
    assert sizes(splits) == [950, 20, 30]
    assert all(target for _, target in splits['dev'] + splits['test'])


def test_what_looks_empty_is_not_held_out(tmp_path):
    blank = [('\u200b' * count, f'target {count}') for count in range(1, 500)]
    splits = held_out(tmp_path, [*many(500), *blank])
    assert sizes(splits) == [949, 20, 30]
    assert all(source.strip('\u200b') for source, _ in splits['dev'] + splits['test'])


def test_held_out_depends_on_the_seed_but_not_on_order(tmp_path):
    forward, backward = held_out(tmp_path, many(1000)), held_out(tmp_path, many(1000)[::-1])
    assert forward['dev'] == backward['dev'] and forward['test'] == backward['test']
    assert forward['dev'] != held_out(tmp_path, many(1000), seed=1)['dev']


def test_given_dev_is_kept_and_only_test_is_held_out(tmp_path):
    dev = config(tmp_path, many(1000), 'dev', train_source='-')
    given = {'dev_source': dev.dev_source, 'dev_target': dev.dev_target}
    splits = held_out(tmp_path, many(1000), **given)
    assert sizes(splits) == [970, 1000, 30]


def test_held_out_fingerprints_differ(tmp_path):
    prints = [
        open_corpus(config(tmp_path, many(1000), **changes)).fingerprint(split)
        for changes in ({}, {'seed': 1}, {'dev_size': 9})
        for split in SPLITS
    ]
    assert len(set(prints)) == 9


def test_small_corpus_gives_a_tenth_and_says_so_once(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, 'transformer_jax'):
        splits = held_out(tmp_path, many(200), dev_size=1000, test_size=1000)
    assert sizes(splits) == [180, 10, 10]
    assert [record.getMessage() for record in caplog.records] == [
        'Few distinct source sentences to train on: '
        'holding out 10 (dev) and 10 (test) of them, not 1,000 and 1,000.'
    ]


def test_what_is_held_out_is_chosen_once_and_damage_to_it_mended(tmp_path, monkeypatch, caplog):
    cache = {'cache_dir': str(tmp_path / 'cache')}
    (tmp_path / 'cache').mkdir()
    first = held_out(tmp_path, many(1000), **cache)
    (path,) = (tmp_path / 'cache').iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(corpus.HeldOutCorpus, '_hold_out', None)
        assert held_out(tmp_path, many(1000), **cache) == first
    for damaged in ('{"dev', '[]', '{"dev": [[1]]}'):
        path.write_text(damaged, encoding='utf-8')
        assert held_out(tmp_path, many(1000), **cache) == first
    assert caplog.text.count('are damaged: choosing them again.') == 3


def test_three_sentences_give_one_each_and_two_are_too_few(tmp_path):
    assert sizes(held_out(tmp_path, many(3))) == [1, 1, 1]
    with pytest.raises(UserError, match='has fewer than 3 distinct source sentences with text'):
        held_out(tmp_path, many(2) * 5)


def phrasebook(source='en', target='fr', **changes):
    languages = {'source_language': source, 'target_language': target}
    sizes = {'train_size': 200, 'dev_size': 20, 'test_size': 30}
    return DataConfig(corpus='phrasebook', **{**languages, **sizes, **changes})


def test_phrasebook_in_both_directions():
    forward, backward = open_corpus(phrasebook()), open_corpus(phrasebook('fr', 'en'))
    for split, size in (('train', 200), ('dev', 20), ('test', 30)):
        pairs = list(forward.pairs(split))
        assert len(pairs) == size
        assert list(backward.pairs(split)) == [(french, english) for english, french in pairs]
        assert forward.fingerprint(split) != backward.fingerprint(split)


def test_phrasebook_fingerprint_follows_content():
    first = open_corpus(phrasebook()).fingerprint('train')
    assert open_corpus(phrasebook()).fingerprint('train') == first
    assert open_corpus(phrasebook(seed=1)).fingerprint('train') != first


@pytest.mark.parametrize(
    ('split', 'change'),
    [('train', {'train_size': 201}), ('dev', {'dev_size': 21}), ('test', {'test_size': 31})],
)
def test_phrasebook_fingerprint_follows_size(split, change):
    before, after = (open_corpus(phrasebook(**sizes)) for sizes in ({}, change))
    assert before.fingerprint(split) != after.fingerprint(split)


def test_phrasebook_is_not_generated_to_be_found_in_the_cache(monkeypatch):
    monkeypatch.setattr(corpus.phrasebook, 'generate', None)
    generated = open_corpus(phrasebook())
    assert generated.fingerprint('train')
    generated.pairs('train')  # nothing of it is taken


@pytest.mark.parametrize('language', ['en', 'fr'])
def test_phrasebook_does_not_translate_into_the_source_language(language):
    with pytest.raises(
        UserError, match=rf"data.target_language='{language}' is the source language as well: the"
    ):
        open_corpus(phrasebook(language, language))


def test_phrasebook_has_two_languages():
    with pytest.raises(UserError, match=r"data.target_language='de' is not in the phrasebook: tra"):
        open_corpus(phrasebook('en', 'de'))


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """The cache of the user who scores a run."""
    folder = tmp_path / 'own-cache'
    folder.mkdir()
    monkeypatch.setenv('TRANSFORMER_JAX_CACHE', str(folder))
    return folder


def test_a_split_of_a_run_is_read_again(tmp_path, own_cache):
    named = config(tmp_path, many(1000))
    corpus = open_corpus(named)
    for split in ('dev', 'test'):
        pairs = load_split(named, split, corpus.fingerprint(split))
        assert pairs == list(corpus.pairs(split))


def test_a_split_of_its_own_needs_no_training_files(tmp_path):
    named = config(tmp_path, many(9), 'test', train_source='gone', train_target='gone as well')
    fingerprint = text_files.FilesCorpus(named).fingerprint('test')
    assert load_split(named, 'test', fingerprint) == many(9)


def test_the_phrasebook_is_read_again():
    fingerprint = open_corpus(phrasebook()).fingerprint('dev')
    assert load_split(phrasebook(), 'dev', fingerprint) == list(
        open_corpus(phrasebook()).pairs('dev')
    )
    assert load_split(phrasebook(), 'dev', 'of another') is None


@pytest.mark.parametrize('held_out', [True, False])
@pytest.mark.parametrize('content', ['secret\tcolumns\n', 'en\tfr\nsecret\n', '\xff', ''])
def test_other_content_is_neither_parsed_nor_told_nor_kept(
    tmp_path, own_cache, caplog, content, held_out
):
    (tmp_path / 'a.tsv').write_bytes(content.encode('latin-1'))
    paths = {'train_source': str(tmp_path / 'a.tsv')}
    if not held_out:
        paths |= {'train_source': 'gone.tsv', 'test_source': str(tmp_path / 'a.tsv')}
    named = DataConfig(corpus='files', target_language='fr', **paths)
    with caplog.at_level(logging.INFO, 'transformer_jax'):
        assert load_split(named, 'test', 'of another') is None
    field = 'train' if held_out else 'test'
    assert caplog.messages == [
        f"Reading the test set of the run: data.{field}_source='{tmp_path}/a.tsv'."
    ]
    assert not list(own_cache.iterdir())


def test_the_cache_that_a_run_names_is_not_written(tmp_path, own_cache):
    (tmp_path / 'named-cache').mkdir()
    named = config(tmp_path, many(1000), cache_dir=str(tmp_path / 'named-cache'))
    assert load_split(named, 'test', open_corpus(named).fingerprint('test'))
    assert not list((tmp_path / 'named-cache').iterdir())
    assert [path.name[:9] for path in own_cache.iterdir()] == ['held-out-']


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / 'pipe.tsv')
    named = DataConfig(corpus='files', train_source=str(tmp_path / 'pipe.tsv'))
    with pytest.raises(UserError, match=r"pipe\.tsv' is a pipe or a device, but must be a file"):
        load_split(named, 'test', 'of another')


def test_what_a_library_says_of_other_content_is_not_told(tmp_path):
    pytest.importorskip('datasets', reason='the extra "huggingface" is not installed')
    (tmp_path / 'a.csv').write_text('secret,columns\n1,2\n')
    named = DataConfig(corpus='huggingface', dataset=str(tmp_path / 'a.csv'))
    with pytest.raises(UserError, match=r'cannot be read as it was when the run began') as caught:
        load_split(named, 'test', 'of another')
    assert 'secret' not in str(caught.value)


def test_what_is_not_here_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, 'datasets', None)
    with pytest.raises(UserError, match='needs the package datasets'):
        load_split(DataConfig(corpus='huggingface', dataset='owner/name'), 'test', 'of another')
