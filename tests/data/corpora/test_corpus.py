"""A split of a run is read only if its content is unchanged."""

import logging
import os
import sys

import pytest
from tiny_corpus import files_config, many

from transformer_jax.config import DataConfig
from transformer_jax.data.corpora import text_files
from transformer_jax.data.corpora.corpus import load_split, open_corpus
from transformer_jax.errors import UserError

PHRASEBOOK = DataConfig(
    corpus='phrasebook', target_language='fr', train_size=200, dev_size=20, test_size=30
)


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """The cache of the user who scores a run."""
    folder = tmp_path / 'own-cache'
    folder.mkdir()
    monkeypatch.setenv('TRANSFORMER_JAX_CACHE', str(folder))
    return folder


def test_load_split_returns_the_pairs_of_a_run(tmp_path, own_cache):
    named = files_config(tmp_path, many(1000))
    corpus = open_corpus(named)
    for split in ('dev', 'test'):
        pairs = load_split(named, split, corpus.fingerprint(split))
        assert pairs == list(corpus.pairs(split))


def test_load_split_needs_no_training_files_if_the_split_has_its_own(tmp_path):
    named = files_config(
        tmp_path, many(9), 'test', train_source='gone', train_target='gone as well'
    )
    fingerprint = text_files.FilesCorpus(named).fingerprint('test')
    assert load_split(named, 'test', fingerprint) == many(9)


def test_load_split_returns_the_pairs_of_the_phrasebook():
    fingerprint = open_corpus(PHRASEBOOK).fingerprint('dev')
    assert load_split(PHRASEBOOK, 'dev', fingerprint) == list(open_corpus(PHRASEBOOK).pairs('dev'))
    assert load_split(PHRASEBOOK, 'dev', 'other fingerprint') is None


@pytest.mark.parametrize('held_out', [True, False])
@pytest.mark.parametrize('content', ['secret\tcolumns\n', 'en\tfr\nsecret\n', '\xff', ''])
def test_changed_content_is_neither_parsed_nor_shown_nor_cached(
    tmp_path, own_cache, caplog, content, held_out
):
    (tmp_path / 'a.tsv').write_bytes(content.encode('latin-1'))
    paths = {'train_source': str(tmp_path / 'a.tsv')}
    if not held_out:
        paths |= {'train_source': 'gone.tsv', 'test_source': str(tmp_path / 'a.tsv')}
    named = DataConfig(corpus='files', target_language='fr', **paths)
    with caplog.at_level(logging.INFO, 'transformer_jax'):
        assert load_split(named, 'test', 'other fingerprint') is None
    field = 'train' if held_out else 'test'
    assert caplog.messages == [
        f"Reading the test set of the run: data.{field}_source='{tmp_path}/a.tsv'."
    ]
    assert not list(own_cache.iterdir())


def test_the_cache_that_a_run_names_is_not_written(tmp_path, own_cache):
    (tmp_path / 'named-cache').mkdir()
    named = files_config(tmp_path, many(1000), cache_dir=str(tmp_path / 'named-cache'))
    assert load_split(named, 'test', open_corpus(named).fingerprint('test'))
    assert not list((tmp_path / 'named-cache').iterdir())
    assert [path.name[:9] for path in own_cache.iterdir()] == ['held-out-']


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / 'pipe.tsv')
    named = DataConfig(corpus='files', train_source=str(tmp_path / 'pipe.tsv'))
    with pytest.raises(UserError, match=r"pipe\.tsv' is a pipe or a device, but must be a file"):
        load_split(named, 'test', 'other fingerprint')


def test_a_library_error_about_changed_content_is_not_shown(tmp_path):
    pytest.importorskip('datasets', reason='the extra "huggingface" is not installed')
    (tmp_path / 'a.csv').write_text('secret,columns\n1,2\n')
    named = DataConfig(corpus='huggingface', dataset=str(tmp_path / 'a.csv'))
    with pytest.raises(
        UserError, match=r'cannot be read: restore it as it was when the run began'
    ) as caught:
        load_split(named, 'test', 'other fingerprint')
    assert 'secret' not in str(caught.value)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, 'datasets', None)
    with pytest.raises(UserError, match='needs the package datasets'):
        load_split(
            DataConfig(corpus='huggingface', dataset='owner/name'), 'test', 'other fingerprint'
        )
