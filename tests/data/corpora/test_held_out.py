"""Missing dev and test sets are held out of train, always the same ones."""

import logging

import pytest
from tiny_corpus import SPLITS, files_config, many

from transformer_jax.data.corpora.corpus import open_corpus
from transformer_jax.data.corpora.held_out import HeldOutCorpus
from transformer_jax.errors import UserError


def held_out(*args, **changes):
    corpus = open_corpus(files_config(*args, **changes))
    return {split: list(corpus.pairs(split)) for split in SPLITS}


def sizes(splits):
    return [len(splits[split]) for split in SPLITS]


def test_sizes_are_as_asked_and_no_pair_is_lost(tmp_path):
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


def test_sentences_that_differ_in_case_are_the_same_if_the_vocabulary_ignores_case(tmp_path):
    cased = [pair for s, t in many(1000) for pair in ((s, t), (s.upper(), t))]
    splits = held_out(tmp_path, cased, normalization='nmt_nfkc_cf')
    assert sizes(splits) == [1900, 20, 30]
    train, dev, test = ({source.lower() for source, _ in pairs} for pairs in splits.values())
    assert not (train & dev or train & test or dev & test)


def test_sentences_that_differ_in_invisible_characters_are_the_same(tmp_path):
    variants = [(form.format(source), target) for source, target in many(1000)
                for form in ('{}', '\ufeff{} ', '\u00a0 {}\u200b')]  # fmt: skip
    splits = held_out(tmp_path, variants)
    assert sizes(splits) == [2850, 20, 30]
    sources = [
        {source.strip('\ufeff\u200b\u00a0 ') for source, _ in pairs} for pairs in splits.values()
    ]
    assert not (sources[0] & sources[1] or sources[0] & sources[2] or sources[1] & sources[2])


def test_no_pair_with_an_empty_side_is_held_out(tmp_path):
    halves = [(source, target if k % 2 else '') for k, (source, target) in enumerate(many(1000))]
    splits = held_out(tmp_path, halves)
    assert sizes(splits) == [950, 20, 30]
    assert all(target for _, target in splits['dev'] + splits['test'])


def test_no_pair_that_looks_empty_is_held_out(tmp_path):
    blank = [('\u200b' * count, f'target {count}') for count in range(1, 500)]
    splits = held_out(tmp_path, [*many(500), *blank])
    assert sizes(splits) == [949, 20, 30]
    assert all(source.strip('\u200b') for source, _ in splits['dev'] + splits['test'])


def test_the_selection_depends_on_the_seed_but_not_on_order(tmp_path):
    forward, backward = held_out(tmp_path, many(1000)), held_out(tmp_path, many(1000)[::-1])
    assert forward['dev'] == backward['dev'] and forward['test'] == backward['test']
    assert forward['dev'] != held_out(tmp_path, many(1000), seed=1)['dev']


def test_a_given_dev_set_is_kept_and_only_test_is_held_out(tmp_path):
    dev = files_config(tmp_path, many(1000), 'dev', train_source='-')
    given = {'dev_source': dev.dev_source, 'dev_target': dev.dev_target}
    splits = held_out(tmp_path, many(1000), **given)
    assert sizes(splits) == [970, 1000, 30]


def test_fingerprints_differ_by_split_seed_and_size(tmp_path):
    prints = [
        open_corpus(files_config(tmp_path, many(1000), **changes)).fingerprint(split)
        for changes in ({}, {'seed': 1}, {'dev_size': 9})
        for split in SPLITS
    ]
    assert len(set(prints)) == 9


def test_a_small_corpus_gives_a_tenth_and_warns_once(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, 'transformer_jax'):
        splits = held_out(tmp_path, many(200), dev_size=1000, test_size=1000)
    assert sizes(splits) == [180, 10, 10]
    assert [record.getMessage() for record in caplog.records] == [
        'Few distinct source sentences to train on: '
        'holding out 10 (dev) and 10 (test) of them, not 1,000 and 1,000.'
    ]


def test_the_selection_is_made_once_and_again_if_its_cache_is_damaged(
    tmp_path, monkeypatch, caplog
):
    cache = {'cache_dir': str(tmp_path / 'cache')}
    (tmp_path / 'cache').mkdir()
    first = held_out(tmp_path, many(1000), **cache)
    (path,) = (tmp_path / 'cache').iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(HeldOutCorpus, '_select', None)
        assert held_out(tmp_path, many(1000), **cache) == first
    for damaged in ('{"dev', '[]', '{"dev": [[1]]}'):
        path.write_text(damaged, encoding='utf-8')
        assert held_out(tmp_path, many(1000), **cache) == first
    assert caplog.text.count('are damaged: selecting them again.') == 3


def test_three_sentences_give_one_each_and_two_are_too_few(tmp_path):
    assert sizes(held_out(tmp_path, many(3))) == [1, 1, 1]
    with pytest.raises(UserError, match='has fewer than 3 distinct source sentences with text'):
        held_out(tmp_path, many(2) * 5)
