"""Pairs come from TFDS and Hugging Face sets, and every mistake is told in one sentence."""

import http.server
import json
import logging
import pickle
import shutil
import socket
import sys
import threading

import pytest
from tiny_corpus import PAIRS, many, message, read

from transformer_jax.config import DataConfig
from transformer_jax.data import dataset_libraries
from transformer_jax.data.corpus import open_corpus
from transformer_jax.errors import UserError

SPLITS = ('train', 'dev', 'test')
# As in PaulineSanchez/Translation_words_and_sentences_english_french.
ENGLISH, FRENCH = 'English words/sentences', 'French words/sentences'
COLUMNS = {'source_column': ENGLISH, 'target_column': FRENCH}
TFDS_FEATURES = 'tensorflow_datasets.core.features'


def read_all(config):
    corpus = open_corpus(config)
    return [list(corpus.pairs(split)) for split in SPLITS]


@pytest.fixture
def offline(monkeypatch):
    """No network: asked politely, or by opening a connection."""

    def refuse(*args, **kwargs):
        raise AssertionError('a connection was attempted')

    monkeypatch.setattr(dataset_libraries, '_reachable', lambda urls: False)
    monkeypatch.setattr(socket.socket, 'connect', refuse)
    monkeypatch.setattr(socket, 'getaddrinfo', refuse)


@pytest.fixture(scope='module')
def tfds():
    pytest.importorskip('tensorflow', reason='tensorflow is not installed')
    pytest.importorskip('tensorflow_datasets', reason='tensorflow-datasets is not installed')
    return dataset_libraries._import_tfds()


@pytest.fixture(scope='module')
def tfds_dir(tfds, tmp_path_factory):
    """A data_dir with the dataset tiny_translate/de-en, prepared by code that then is not known."""

    class TinyTranslate(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        VERSION = tfds.core.Version('1.0.0')
        BUILDER_CONFIGS = [tfds.core.BuilderConfig(name='de-en')]

        def _info(self):
            features = tfds.features.Translation(languages=('de', 'en'))
            return tfds.core.DatasetInfo(builder=self, features=features)

        def _split_generators(self, dl_manager):
            return {
                'train': self._generate_examples(1500, 'train'),
                'validation': self._generate_examples(7, 'dev'),
            }

        def _generate_examples(self, count, word):
            for i in range(count):
                yield i, {'de': f'{word} ü {i}', 'en': f'{word} {i}'}

    folder = tmp_path_factory.mktemp('tfds')
    TinyTranslate(data_dir=folder, config='de-en').download_and_prepare()
    return str(folder)


def tfds_config(folder, **changes):
    languages = {'source_language': 'en', 'target_language': 'de'}
    config = {'corpus': 'tfds', 'dataset': 'tiny_translate/de-en', 'data_dir': str(folder)}
    return DataConfig(**{**languages, **config, **changes})


def test_tfds_in_both_directions(tfds_dir, offline):
    forward = read(tfds_config(tfds_dir), 'dev')
    backward = read(tfds_config(tfds_dir, source_language='de', target_language='en'), 'dev')
    assert sorted(forward) == [(f'dev {i}', f'dev ü {i}') for i in range(7)]
    assert backward == [(german, english) for english, german in forward]


def test_tfds_without_a_test_split_holds_it_out(tfds_dir):
    train, _, test = read_all(tfds_config(tfds_dir, test_size=100))
    assert (len(train), len(test)) == (1400, 100)
    assert len({*train, *test}) == 1500


def test_tfds_split_expressions(tfds_dir):
    splits = read_all(tfds_config(tfds_dir, train_split='train[:90%]', test_split='train[90%:]'))
    assert [len(pairs) for pairs in splits] == [1350, 7, 150]


def test_tfds_fingerprints(tfds_dir):
    swapped = {'source_language': 'de', 'target_language': 'en'}
    configs = [tfds_config(tfds_dir, **changes) for changes in ({}, {}, swapped)]
    first, again, other = (
        [corpus.fingerprint(split) for split in SPLITS] for corpus in map(open_corpus, configs)
    )
    assert first == again
    assert len({*first, *other}) == 6


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """The name of a feature class whose module writes a file when it is imported; and the file."""
    trace = tmp_path / 'trace'
    (tmp_path / 'foreign_features.py').write_text(f'open({str(trace)!r}, "w").close()')
    monkeypatch.syspath_prepend(tmp_path)
    yield 'foreign_features.Feature', trace
    sys.modules.pop('foreign_features', None)


def text_feature(form, name):
    """A feature of a class of this name, in one of the forms that features.json may have."""
    proto = {'pythonClassName': name, 'jsonFeature': {'json': '{}'}}
    legacy = {'type': name, 'content': {}}
    return {
        'top': proto,
        'in a dict': {
            'pythonClassName': f'{TFDS_FEATURES}.features_dict.FeaturesDict',
            'featuresDict': {'features': {'de': proto}},
        },
        'snake case': {'python_class_name': name, 'json_feature': {'json': '{}'}},
        'legacy': legacy,
        'legacy in json': {
            'pythonClassName': f'{TFDS_FEATURES}.features_dict.FeaturesDict',
            'jsonFeature': {'json': json.dumps({'de': legacy})},
        },
    }[form]


FORMS = ['top', 'in a dict', 'snake case', 'legacy', 'legacy in json']


@pytest.mark.parametrize('offline', [False, True])
@pytest.mark.parametrize('form', FORMS)
def test_no_module_that_a_tfds_folder_names_is_imported(
    tfds, tfds_dir, tmp_path, foreign, form, offline
):
    name, trace = foreign
    folder = shutil.copytree(tfds_dir, tmp_path / 'tfds')
    [features] = folder.rglob('features.json')
    features.write_text(json.dumps(text_feature(form, name)))
    expected = r"data.dataset='tiny_translate/de-en' has a feature of the class .*, which is not"
    with pytest.raises(UserError, match=expected):
        dataset_libraries.TfdsCorpus(tfds_config(folder), offline=offline)
    assert not trace.exists()


def test_no_module_of_tfds_itself_is_imported_for_a_feature(tfds, tfds_dir, tmp_path):
    folder = shutil.copytree(tfds_dir, tmp_path / 'tfds')
    [features] = folder.rglob('features.json')
    name = 'tensorflow_datasets.scripts.cli.main.Feature'
    features.write_text(json.dumps(text_feature('top', name)))
    assert f'has a feature of the class {name!r}' in message(tfds_config(folder))
    assert 'tensorflow_datasets.scripts.cli.main' not in sys.modules


def test_feature_classes_of_others_are_known_again_afterwards(tfds, tfds_dir):
    class OwnFeature(tfds.features.Text):
        pass

    open_corpus(tfds_config(tfds_dir))
    name = f'{OwnFeature.__module__}.{OwnFeature.__name__}'
    assert tfds.features.FeatureConnector.cls_from_name(name) is OwnFeature


def test_tfds_offline_takes_what_is_prepared(tfds, tfds_dir, offline):
    online = dataset_libraries.TfdsCorpus(tfds_config(tfds_dir))
    default_part = tfds_config(tfds_dir, dataset='tiny_translate')  # its folder says which
    for config in (tfds_config(tfds_dir), default_part):
        corpus = dataset_libraries.TfdsCorpus(config, offline=True)
        assert corpus.fingerprint('dev') == online.fingerprint('dev')


def test_tfds_offline_prepares_nothing_and_imports_no_dataset(tfds, tmp_path, offline):
    before = set(sys.modules)
    for name in ('wmt14_translate/de-en', 'glue'):
        config = tfds_config(tmp_path, dataset=name)
        with pytest.raises(dataset_libraries.Unavailable, match=r'is not prepared in .*prepare it'):
            dataset_libraries.TfdsCorpus(config, offline=True)
    assert not list(tmp_path.iterdir())
    assert not [x for x in set(sys.modules) - before if x.startswith('tensorflow_datasets.datas')]


def test_tfds_offline_reads_no_bucket(tfds, offline):
    with pytest.raises(dataset_libraries.Unavailable, match='is not on this machine: name files'):
        dataset_libraries.TfdsCorpus(tfds_config('gs://bucket'), offline=True)


def test_tfds_columns_by_name(tfds_dir):
    columns = {'source_column': 'de', 'target_column': 'en'}
    named = read(tfds_config(tfds_dir, source_language='de', **columns), 'dev')
    assert sorted(named) == [(f'dev ü {i}', f'dev {i}') for i in range(7)]


def test_tfds_unknown_column_names_those_that_exist(tfds_dir):
    text = message(tfds_config(tfds_dir, source_column='german'))
    assert text == (
        "data.source_column='german' is not one of the columns of "
        "data.dataset='tiny_translate/de-en', which has 'de', 'en'."
    )


def test_tfds_pairs_no_language_with_itself(tfds_dir):
    assert message(tfds_config(tfds_dir, target_language='en')) == (
        "data.target_language='en' is the source language as well, of which "
        "'tiny_translate/de-en' has one text for each pair: name two columns of text in "
        'data.source_column and data.target_column, or choose another data.dataset.'
    )


@pytest.mark.parametrize(
    'field, value, kind, known',
    [
        ('target_language', 'fr', 'language', "'de', 'en'"),
        ('train_split', 'training', 'split', "'train', 'validation'"),
        ('dev_split', 'valid', 'split', "'train', 'validation'"),
        ('train_split', '', 'split', "'train', 'validation'"),
    ],
)
def test_tfds_mistakes(tfds_dir, field, value, kind, known):
    assert message(tfds_config(tfds_dir, **{field: value})) == (
        f"data.{field}={value!r} is not a {kind} of 'tiny_translate/de-en', which has {known}."
    )


@pytest.mark.parametrize(
    'name, expected',
    [
        ('wmt14_translat/de-en', 'is not a dataset of TFDS'),
        ('wmt14_translat/de-en', "did you mean 'wmt14_translate'?"),
        ('wmt14_translate/en-de', "is not a part of wmt14_translate, which has 'cs-en', 'de-en'"),
        ('huggingface:wmt14', 'is not a dataset of TFDS itself'),
        ('no/such/name/at all', 'is not a'),
    ],
)
def test_tfds_unknown_name(tfds, tmp_path, offline, name, expected):
    text = message(tfds_config(tmp_path, dataset=name))
    assert text.startswith(f'data.dataset={name!r} is not a') and expected in text


def test_tfds_without_a_network_says_what_to_do(tfds, tmp_path, offline):
    text = message(tfds_config(tmp_path, dataset='wmt14_translate/de-en'))
    assert f"data.dataset='wmt14_translate/de-en' is not prepared in {tmp_path}" in text
    assert (
        'python -c "import tensorflow_datasets as tfds; '
        "tfds.load('wmt14_translate/de-en')\"" in text
    )
    assert 'data.data_dir, or set data.manual_dir to' in text


def test_tfds_prepares_from_manual_dir_without_a_network(tfds, tmp_path, offline, capsys):
    url = 'http://nowhere.invalid/pairs.txt'
    (tmp_path / 'manual').mkdir()
    archive = tmp_path / 'manual' / 'pairs.txt'
    archive.write_text('one\teins\ntwo\tzwei\nthree\tdrei\n')
    info = tfds.core.download.checksums.compute_url_info(archive)

    class ManualTranslate(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version('1.0.0')
        url_infos = {url: info}

        def _info(self):
            features = tfds.features.Translation(languages=('de', 'en'))
            return tfds.core.DatasetInfo(builder=self, features=features)

        def _split_generators(self, dl_manager):
            return {'train': self._generate_examples(dl_manager.download(url))}

        def _generate_examples(self, path):
            for line in path.read_text().splitlines():
                yield line, dict(zip(('en', 'de'), line.split('\t'), strict=True))

    config = tfds_config(tmp_path / 'data', dataset='manual_translate')
    assert f'{url} cannot be reached' in message(config)
    manual = tfds_config(
        tmp_path / 'data', dataset='manual_translate', manual_dir=str(tmp_path / 'manual')
    )
    assert [len(pairs) for pairs in read_all(manual)] == [1, 1, 1]
    assert capsys.readouterr().out == ''
    tfds.core.registered._DATASET_REGISTRY.pop('manual_translate')


def test_tfds_manual_dir_must_exist(tfds, tmp_path, offline):
    config = tfds_config(
        tmp_path, dataset='wmt14_translate/de-en', manual_dir=str(tmp_path / 'none')
    )
    assert f"data.manual_dir='{tmp_path}/none' is not a folder" in message(config)


def test_hosts_are_asked_whether_they_can_be_reached(monkeypatch):
    monkeypatch.setenv('no_proxy', '127.0.0.1')
    with http.server.HTTPServer(('127.0.0.1', 0), http.server.BaseHTTPRequestHandler) as server:
        url = f'http://127.0.0.1:{server.server_port}/'
        threading.Thread(target=server.handle_request, daemon=True).start()
        assert dataset_libraries._reachable(['http://127.0.0.1:1/', url])
    assert not dataset_libraries._reachable(['http://127.0.0.1:1/'])


def test_slow_resolver_does_not_hold_up(monkeypatch):
    gone_on, answered = threading.Event(), []
    monkeypatch.setattr(dataset_libraries, '_PROBE_SECONDS', 0.1)
    monkeypatch.setattr(
        socket, 'getaddrinfo', lambda *_, **__: answered.append(gone_on.wait(30)) or []
    )
    assert not dataset_libraries._reachable(['http://nowhere.invalid/'])
    assert answered == []  # it is still being asked
    gone_on.set()


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


def test_huggingface_saved_to_disk(datasets, tmp_path):
    splits = {'train': PAIRS, 'validation': PAIRS[:1], 'test': PAIRS[1:]}
    datasets.DatasetDict(
        {name: datasets.Dataset.from_dict(named_columns(pairs)) for name, pairs in splits.items()}
    ).save_to_disk(tmp_path / 'saved')
    config = hub_config(tmp_path / 'saved', **COLUMNS)
    assert read_all(config) == list(splits.values())


def test_huggingface_columns_of_one_language(datasets, tmp_path):
    path = saved(datasets, tmp_path / 'saved', named_columns(many(100)))
    splits = read_all(hub_config(path, **COLUMNS, target_language='en'))
    assert sorted(pair for pairs in splits for pair in pairs) == sorted(many(100))


def test_huggingface_single_split_holds_out(datasets, tmp_path):
    path = saved(datasets, tmp_path / 'saved', named_columns(many(1000)))
    splits = read_all(hub_config(path, **COLUMNS, dev_size=20, test_size=30))
    assert [len(pairs) for pairs in splits] == [950, 20, 30]


def test_huggingface_empty_split_name_holds_out(datasets, tmp_path):
    table = datasets.Dataset.from_dict(named_columns(many(100)))
    datasets.DatasetDict({'train': table, 'test': table}).save_to_disk(tmp_path / 'saved')
    config = hub_config(tmp_path / 'saved', **COLUMNS, test_split='', test_size=5, dev_size=5)
    assert len(read(config)) == 90


def test_huggingface_folder_and_file(datasets, tmp_path, capsys):
    path = tmp_path / 'folder' / 'train.jsonl'
    path.parent.mkdir()
    path.write_text('\n'.join(json.dumps({ENGLISH: en, FRENCH: fr}) for en, fr in many(100)))
    for dataset in (path.parent, path):
        splits = read_all(hub_config(dataset, **COLUMNS))
        assert sorted(pair for pairs in splits for pair in pairs) == sorted(many(100))
    assert capsys.readouterr().out == ''


@pytest.mark.parametrize(
    'name, text, expected',
    [
        # Words that pandas takes for nothing.
        ('a.csv', 'en,fr\nNone,Aucun\nNA,nan\n1,2\n', ['1 2', 'NA nan', 'None Aucun']),
        # No quoting.
        ('a.tsv', 'en\tfr\n"one\t"un"\ntwo\tdeux\nx\ty\n', ['"one "un"', 'two deux', 'x y']),
    ],
)
def test_huggingface_tables_keep_the_text(datasets, tmp_path, name, text, expected):
    (tmp_path / name).write_text(text)
    splits = read_all(hub_config(tmp_path / name))
    assert sorted(' '.join(pair) for pairs in splits for pair in pairs) == expected


@pytest.mark.parametrize('typed', [True, False])
def test_huggingface_translation_column(datasets, tmp_path, typed):
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
            "data.target_language='en' is the source language as well, of which {!r} has one text "
            'for each pair: name two columns of text in data.source_column and data.target_column, '
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
def test_huggingface_mistakes(datasets, tmp_path, columns, changes, expected):
    path = saved(datasets, tmp_path / 'saved', columns)
    assert message(hub_config(path, **changes)) == expected.format(str(path))


def test_huggingface_rows_without_text_are_counted_once(datasets, tmp_path, caplog):
    english = [None, *[source for source, _ in many(100)]]
    path = saved(datasets, tmp_path / 'saved', {'en': english, 'fr': [None, *english[1:]]})
    with caplog.at_level(logging.WARNING, 'transformer_jax'):
        splits = read_all(hub_config(path, dev_size=5, test_size=5))
    assert [len(pairs) for pairs in splits] == [90, 5, 5]
    assert [record.getMessage() for record in caplog.records] == [
        f"data.train_split='train' of '{path}': left out 1 rows with no text."
    ]


def test_huggingface_without_text(datasets, tmp_path):
    features = datasets.Features({name: datasets.Value('string') for name in ('en', 'fr')})
    table = datasets.Dataset.from_dict({'en': [None], 'fr': [None]}, features=features)
    table.save_to_disk(tmp_path / 'saved')
    assert 'has no sentence pairs' in message(hub_config(tmp_path / 'saved'))


def test_huggingface_fingerprint_follows_content(datasets, tmp_path):
    prints = []
    for name, pairs in (('a', PAIRS), ('b', PAIRS), ('c', PAIRS[::-1])):
        path = saved(datasets, tmp_path / name, named_columns(pairs))
        prints.append(open_corpus(hub_config(path, **COLUMNS)).fingerprint('train'))
    assert prints[0] == prints[1] != prints[2]


class Harmful:
    """Reading it back by pickle runs code."""

    def __reduce__(self):
        return exec, ('raise SystemExit',)


@pytest.mark.parametrize('suffix', ['pandas', 'txt', 'iceberg', 'somebodys'])
def test_huggingface_files_of_other_kinds_are_not_read(datasets, tmp_path, offline, suffix):
    path = tmp_path / f'pairs.{suffix}'
    path.write_bytes(pickle.dumps(Harmful()))
    assert 'is a file of a kind that is not read: give one whose name' in message(hub_config(path))


def test_huggingface_formats_are_no_datasets(datasets, offline):
    assert message(hub_config('pandas')).startswith("data.dataset='pandas' is a format of the pack")


def test_huggingface_runs_no_script(datasets, tmp_path, offline):
    (tmp_path / 'set').mkdir()
    (tmp_path / 'set' / 'set.py').write_text('raise SystemExit')
    assert 'cannot be loaded by the package datasets' in message(hub_config(tmp_path / 'set'))


def test_huggingface_offline_keeps_no_copy_of_a_file(datasets, tmp_path, offline):
    (tmp_path / 'pairs.csv').write_text('en,fr\none,un\ntwo,deux\nthree,trois\n')
    config = hub_config(tmp_path / 'pairs.csv')
    corpus = dataset_libraries.HuggingFaceCorpus(config, offline=True)
    assert list(corpus.pairs('train'))[2] == ('three', 'trois')
    assert [path.name for path in tmp_path.iterdir()] == ['pairs.csv']


def test_huggingface_offline_asks_no_hub(datasets, monkeypatch):
    monkeypatch.setattr(dataset_libraries, '_reachable', lambda _: pytest.fail('asked'))
    with pytest.raises(dataset_libraries.Unavailable, match='train with it here first, or name'):
        dataset_libraries.HuggingFaceCorpus(hub_config('owner/name'), offline=True)


def test_huggingface_offline_reads_no_files_that_a_card_names(datasets, tmp_path, offline):
    (tmp_path / 'set').mkdir()
    (tmp_path / 'set' / 'README.md').write_text('---\nconfigs: []\n---\n')
    with pytest.raises(dataset_libraries.Unavailable, match=r'has a README\.md, which may name'):
        dataset_libraries.HuggingFaceCorpus(hub_config(tmp_path / 'set'), offline=True)


def test_huggingface_folder_without_data(datasets, tmp_path):
    (tmp_path / 'nothing').mkdir()
    text = message(hub_config(tmp_path / 'nothing'))
    assert 'cannot be loaded by the package datasets' in text


def test_huggingface_without_a_network(datasets, offline):
    name = 'PaulineSanchez/Translation_words_and_sentences_english_french'
    text = message(hub_config(name))
    assert f'data.dataset={name!r} is neither a file or folder here nor in the cache' in text
    assert 'cannot be reached: name a folder made by save_to_disk' in text
    assert datasets.config.HF_HUB_OFFLINE is False  # as it was


@pytest.mark.parametrize(
    'corpus, module, version, remedy',
    [
        ('tfds', 'tensorflow', (3, 13), 'pip install tensorflow-cpu tensorflow-datasets'),
        ('tfds', 'tensorflow', (3, 14), 'no build for Python 3.14 yet, so take Python 3.11 to'),
        ('tfds', 'tensorflow_datasets', (3, 13), 'pip install tensorflow-cpu tensorflow-datasets'),
        ('huggingface', 'datasets', (3, 14), "pip install -e '.[huggingface]'"),
    ],
)
def test_package_not_installed(monkeypatch, corpus, module, version, remedy):
    if module == 'tensorflow_datasets':
        pytest.importorskip('tensorflow', reason='tensorflow is not installed')
    monkeypatch.setattr(sys, 'version_info', version)
    monkeypatch.setitem(sys.modules, module, None)
    assert remedy in message(DataConfig(corpus=corpus, dataset='owner/name'))
