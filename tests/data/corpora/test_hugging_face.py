"""Pairs come from datasets of Hugging Face's package, and every mistake gives one sentence."""

import json
import logging
import lzma
import pickle
import sys

import pytest
from tiny_corpus import PAIRS, many, message, read, read_all

from transformer_jax.config import DataConfig
from transformer_jax.data.corpora.columns import Unavailable
from transformer_jax.data.corpora.corpus import open_corpus
from transformer_jax.data.corpora.hugging_face import HuggingFaceCorpus

# As in PaulineSanchez/Translation_words_and_sentences_english_french.
ENGLISH, FRENCH = 'English words/sentences', 'French words/sentences'
COLUMNS = {'source_column': ENGLISH, 'target_column': FRENCH}


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    module = pytest.importorskip('datasets', reason='the extra "huggingface" is not installed')
    monkeypatch.setattr(module.config, 'HF_DATASETS_CACHE', tmp_path / 'cache')
    return module


def hub_config(path, **changes):
    config = {'corpus': 'huggingface', 'dataset': str(path), 'target_language': 'fr'}
    return DataConfig(**{**config, **changes})


def named_columns(pairs):
    return {ENGLISH: [pair[0] for pair in pairs], FRENCH: [pair[1] for pair in pairs]}


def saved(datasets, folder, columns):
    datasets.Dataset.from_dict(columns).save_to_disk(folder)
    return folder


def test_a_dataset_saved_to_disk_is_read(datasets, tmp_path):
    splits = {'train': PAIRS, 'validation': PAIRS[:1], 'test': PAIRS[1:]}
    datasets.DatasetDict(
        {name: datasets.Dataset.from_dict(named_columns(pairs)) for name, pairs in splits.items()}
    ).save_to_disk(tmp_path / 'saved')
    config = hub_config(tmp_path / 'saved', **COLUMNS)
    assert read_all(config) == list(splits.values())


def test_both_columns_may_be_of_one_language(datasets, tmp_path):
    path = saved(datasets, tmp_path / 'saved', named_columns(many(100)))
    splits = read_all(hub_config(path, **COLUMNS, target_language='en'))
    assert sorted(pair for pairs in splits for pair in pairs) == sorted(many(100))


def test_missing_splits_are_held_out(datasets, tmp_path):
    path = saved(datasets, tmp_path / 'saved', named_columns(many(1000)))
    splits = read_all(hub_config(path, **COLUMNS, dev_size=20, test_size=30))
    assert [len(pairs) for pairs in splits] == [950, 20, 30]


def test_a_split_named_empty_is_held_out(datasets, tmp_path):
    table = datasets.Dataset.from_dict(named_columns(many(100)))
    datasets.DatasetDict({'train': table, 'test': table}).save_to_disk(tmp_path / 'saved')
    config = hub_config(tmp_path / 'saved', **COLUMNS, test_split='', test_size=5, dev_size=5)
    assert len(read(config)) == 90


def test_a_folder_and_a_file_are_read(datasets, tmp_path, capsys):
    path = tmp_path / 'folder' / 'train.jsonl'
    path.parent.mkdir()
    path.write_text('\n'.join(json.dumps({ENGLISH: en, FRENCH: fr}) for en, fr in many(100)))
    for dataset in (path.parent, path):
        splits = read_all(hub_config(dataset, **COLUMNS))
        assert sorted(pair for pairs in splits for pair in pairs) == sorted(many(100))
    assert capsys.readouterr().out == ''


@pytest.mark.parametrize('has_feature', [True, False])
def test_texts_that_are_listed_by_language_are_read(datasets, tmp_path, caplog, has_feature):
    features = datasets.TranslationVariableLanguages(languages=['de', 'en', 'fr'])
    rows = [
        {'en': 'the cat', 'fr': ['le chat', 'la chatte']},
        {'en': 'a dog', 'de': 'ein Hund'},
        {'en': 'a bird', 'fr': 'un oiseau', 'de': 'ein Vogel'},
    ]
    table = datasets.Dataset.from_list(
        [{'translation': row} for row in rows], features=datasets.Features(translation=features)
    )
    path = tmp_path / ('saved' if has_feature else 'rows.jsonl')
    (table.save_to_disk if has_feature else table.to_json)(path)
    found = list(HuggingFaceCorpus(hub_config(path)).pairs('train'))
    assert sorted(found) == [
        ('a bird', 'un oiseau'),
        ('the cat', 'la chatte'),
        ('the cat', 'le chat'),
    ]
    assert 'left out 1 rows without text' in caplog.text


def test_a_list_of_texts_without_languages_is_refused(datasets, tmp_path):
    (tmp_path / 'a.jsonl').write_text('{"translation": ["the cat", "le chat"]}\n')
    assert 'which has no text by language' in message(hub_config(tmp_path / 'a.jsonl'))


@pytest.mark.parametrize(('suffix', 'tab'), [('csv', ','), ('tsv', '\t')])
def test_two_columns_of_one_name_are_refused(datasets, tmp_path, suffix, tab):
    path = tmp_path / f'a.{suffix}'
    path.write_text(tab.join(['en', 'en', 'fr']) + '\n' + tab.join('abc') + '\n')
    assert f"a.{suffix}' has 2 columns 'en': give each a name of" in message(hub_config(path))


def test_bytes_behind_the_end_of_a_compressed_file_are_no_end(datasets, tmp_path):
    (tmp_path / 'a.csv.xz').write_bytes(lzma.compress(b'en,fr\na,b\n') + b'more')
    text = message(hub_config(tmp_path / 'a.csv.xz'))
    assert "a.csv.xz' is a damaged xz file" in text


@pytest.mark.parametrize(
    'name, text, expected',
    [
        # Words that pandas would read as missing values.
        ('a.csv', 'en,fr\nNone,Aucun\nNA,nan\n1,2\n', ['1 2', 'NA nan', 'None Aucun']),
        # No quoting.
        ('a.tsv', 'en\tfr\n"one\t"un"\ntwo\tdeux\nx\ty\n', ['"one "un"', 'two deux', 'x y']),
    ],
)
def test_tables_keep_the_text(datasets, tmp_path, name, text, expected):
    (tmp_path / name).write_text(text)
    splits = read_all(hub_config(tmp_path / name))
    assert sorted(' '.join(pair) for pairs in splits for pair in pairs) == expected


@pytest.mark.parametrize('typed', [True, False])
def test_a_translation_column_is_read(datasets, tmp_path, typed):
    rows = {'translation': [{'en': en, 'fr': fr} for en, fr in PAIRS], 'id': [1, 2, 3]}
    table = datasets.Dataset.from_dict(rows)
    if typed:
        table = table.cast_column('translation', datasets.Translation(['en', 'fr']))
    splits = dict.fromkeys(('train', 'validation', 'test'), table)
    datasets.DatasetDict(splits).save_to_disk(tmp_path / 'saved')
    assert read(hub_config(tmp_path / 'saved')) == PAIRS
    swapped = hub_config(tmp_path / 'saved', source_language='fr', target_language='en')
    assert read(swapped) == [(fr, en) for en, fr in PAIRS]


@pytest.mark.parametrize(
    'columns, changes, expected',
    [
        (
            {'translation': [{'en': 'one', 'fr': 'un'}]},
            {'target_language': 'de'},
            "data.target_language='de' is not a language of {!r}, which has 'en', 'fr'.",
        ),
        (
            {'translation': [{'en': 'one', 'fr': 'un'}]},
            {'target_language': 'en'},
            "data.target_language='en' is also the source language, but {!r} has one text per "
            'language: name two columns of text in data.source_column and data.target_column, '
            'or choose another data.dataset.',
        ),
        (
            named_columns(PAIRS),
            {'target_language': 'en'},
            "source and target would both be the column 'en' of data.dataset={!r}, which has "
            f'{ENGLISH!r}, {FRENCH!r}: name one for each in data.source_column and '
            'data.target_column.',
        ),
        (
            named_columns(PAIRS),
            {},
            "data.source_column='' must name one (there is no 'en') of the columns of "
            f'data.dataset={{!r}}, which has {ENGLISH!r}, {FRENCH!r}.',
        ),
        (
            {'en': ['one', 'two'], 'fr': [1, 2]},
            {},
            "data.target_column='fr' holds no text in data.dataset={!r}: name another of 'en', "
            "'fr'.",
        ),
        (
            named_columns(PAIRS),
            {**COLUMNS, 'dev_split': 'dev'},
            "data.dev_split='dev' is not a split of {!r}, which has 'train'.",
        ),
    ],
)
def test_wrong_languages_columns_and_splits_are_refused(
    datasets, tmp_path, columns, changes, expected
):
    path = saved(datasets, tmp_path / 'saved', columns)
    assert message(hub_config(path, **changes)) == expected.format(str(path))


def test_rows_without_text_are_counted_once(datasets, tmp_path, caplog):
    english = [None, *[source for source, _ in many(100)]]
    path = saved(datasets, tmp_path / 'saved', {'en': english, 'fr': [None, *english[1:]]})
    with caplog.at_level(logging.WARNING, 'transformer_jax'):
        splits = read_all(hub_config(path, dev_size=5, test_size=5))
    assert [len(pairs) for pairs in splits] == [90, 5, 5]
    assert [record.getMessage() for record in caplog.records] == [
        f"data.train_split='train' of '{path}': left out 1 rows without text."
    ]


def test_a_dataset_without_text_is_refused(datasets, tmp_path):
    features = datasets.Features({name: datasets.Value('string') for name in ('en', 'fr')})
    table = datasets.Dataset.from_dict({'en': [None], 'fr': [None]}, features=features)
    table.save_to_disk(tmp_path / 'saved')
    assert 'has no sentence pairs' in message(hub_config(tmp_path / 'saved'))


def test_the_fingerprint_follows_the_content(datasets, tmp_path):
    prints = []
    for name, pairs in (('a', PAIRS), ('b', PAIRS), ('c', PAIRS[::-1])):
        path = saved(datasets, tmp_path / name, named_columns(pairs))
        prints.append(open_corpus(hub_config(path, **COLUMNS)).fingerprint('train'))
    assert prints[0] == prints[1] != prints[2]


class Harmful:
    """An object that runs code when it is unpickled."""

    def __reduce__(self):
        return exec, ('raise SystemExit',)


@pytest.mark.parametrize('suffix', ['pandas', 'txt', 'iceberg', 'somebodys'])
def test_files_of_other_kinds_are_not_read(datasets, tmp_path, no_network, suffix):
    path = tmp_path / f'pairs.{suffix}'
    path.write_bytes(pickle.dumps(Harmful()))
    assert 'is a file of an unknown kind: name a folder, or' in message(hub_config(path))


@pytest.mark.parametrize('name', ['csv', 'imagefolder', 'pandas', 'webdataset'])
def test_the_name_of_a_format_is_refused(datasets, no_network, name):
    expected = f'data.dataset={name!r} is a format of the package'
    assert message(hub_config(name)).startswith(expected)


def test_no_script_is_run(datasets, tmp_path, no_network):
    (tmp_path / 'set').mkdir()
    (tmp_path / 'set' / 'set.py').write_text('raise SystemExit')
    assert 'cannot be loaded by the package datasets' in message(hub_config(tmp_path / 'set'))


def test_offline_keeps_no_copy_of_a_file(datasets, tmp_path, no_network):
    (tmp_path / 'pairs.csv').write_text('en,fr\none,un\ntwo,deux\nthree,trois\n')
    config = hub_config(tmp_path / 'pairs.csv')
    corpus = HuggingFaceCorpus(config, offline=True)
    assert list(corpus.pairs('train'))[2] == ('three', 'trois')
    assert [path.name for path in tmp_path.iterdir()] == ['pairs.csv']


def test_offline_does_not_contact_the_hub(datasets, no_network):
    with pytest.raises(Unavailable, match='train with it here first, or name'):
        HuggingFaceCorpus(hub_config('owner/name'), offline=True)
    assert datasets.config.HF_HUB_OFFLINE is False  # as before


def test_offline_reads_no_files_that_a_card_names(datasets, tmp_path, no_network):
    (tmp_path / 'set').mkdir()
    (tmp_path / 'set' / 'README.md').write_text('---\nconfigs: []\n---\n')
    with pytest.raises(Unavailable, match=r'has a README\.md, which may name'):
        HuggingFaceCorpus(hub_config(tmp_path / 'set'), offline=True)


def test_a_folder_without_data_is_refused(datasets, tmp_path):
    (tmp_path / 'nothing').mkdir()
    text = message(hub_config(tmp_path / 'nothing'))
    assert 'cannot be loaded by the package datasets' in text


def test_without_a_network_the_message_says_what_to_do(datasets, monkeypatch):
    def load_dataset(name, part):
        raise ConnectionError(f"Couldn't reach {name!r} on the Hub")

    monkeypatch.setattr(datasets, 'load_dataset', load_dataset)
    assert message(hub_config('owner/name')) == (
        "data.dataset='owner/name' cannot be loaded by the package datasets: Couldn't reach "
        "'owner/name' on the Hub. Check the name and the network, or name a folder made by "
        'save_to_disk; with HF_HUB_OFFLINE=1 the package reads its cache only.'
    )


def test_a_missing_package_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, 'datasets', None)
    text = message(DataConfig(corpus='huggingface', dataset='owner/name'))
    assert "pip install -e '.[huggingface]'" in text
