"""Pairs come from TFDS datasets, and every mistake gives one sentence."""

import dataclasses
import json
import pathlib
import shutil
import sys

import pytest
from tiny_corpus import SPLITS, message, read, read_all

from transformer_jax.config import DataConfig
from transformer_jax.data.corpora.columns import Unavailable
from transformer_jax.data.corpora.corpus import open_corpus
from transformer_jax.data.corpora.tfds import TfdsCorpus, _import_tfds
from transformer_jax.errors import UserError

TFDS_FEATURES = 'tensorflow_datasets.core.features'


@pytest.fixture(scope='module')
def tfds():
    pytest.importorskip('tensorflow', reason='tensorflow is not installed')
    pytest.importorskip('tensorflow_datasets', reason='tensorflow-datasets is not installed')
    return _import_tfds()


@pytest.fixture(scope='module')
def tfds_dir(tfds, tmp_path_factory):
    """A data_dir with the dataset tiny_translate/de-en, whose code is not registered."""

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


def test_pairs_are_read_in_both_directions(tfds_dir, no_network):
    forward = read(tfds_config(tfds_dir), 'dev')
    backward = read(tfds_config(tfds_dir, source_language='de', target_language='en'), 'dev')
    assert sorted(forward) == [(f'dev {i}', f'dev ü {i}') for i in range(7)]
    assert backward == [(german, english) for english, german in forward]


def test_a_missing_test_split_is_held_out(tfds_dir):
    train, _, test = read_all(tfds_config(tfds_dir, test_size=100))
    assert (len(train), len(test)) == (1400, 100)
    assert len({*train, *test}) == 1500


def test_splits_may_be_expressions(tfds_dir):
    splits = read_all(tfds_config(tfds_dir, train_split='train[:90%]', test_split='train[90%:]'))
    assert [len(pairs) for pairs in splits] == [1350, 7, 150]


@pytest.fixture
def prepared(tfds, tmp_path):
    """Return a function that prepares a dataset 'made' of some features and rows."""

    def prepare(features, rows, file_format='tfrecord'):
        class Made(tfds.core.GeneratorBasedBuilder, skip_registration=True):
            VERSION = tfds.core.Version('1.0.0')

            def _info(self):
                return tfds.core.DatasetInfo(builder=self, features=features)

            def _split_generators(self, dl_manager):
                splits = ('train', 'validation', 'test')
                return {split: self._generate_examples() for split in splits}

            def _generate_examples(self):
                yield from enumerate(rows)

        Made(data_dir=tmp_path, file_format=file_format).download_and_prepare()
        return tfds_config(tmp_path, dataset='made')

    return prepare


def test_array_record_files_are_read(tfds, prepared):
    pytest.importorskip('array_record', reason='array_record is not installed')
    pairs = [(f'one {i}', f'eins {i}') for i in range(1500)]
    rows = [{'en': english, 'de': german} for english, german in pairs]
    features = tfds.features.Translation(languages=('de', 'en'))
    config = prepared(features, rows, 'array_record')
    assert sorted(read(config)) == sorted(pairs)
    assert len(read(dataclasses.replace(config, train_split='train[:10%]'))) == 150


def test_damaged_array_record_files_are_refused(tfds, prepared):
    pytest.importorskip('array_record', reason='array_record is not installed')
    features = tfds.features.Translation(languages=('de', 'en'))
    config = prepared(features, [{'en': 'a', 'de': 'b'}], 'array_record')
    for path in pathlib.Path(config.data_dir).rglob('*.array_record*'):
        path.write_bytes(path.read_bytes()[:-100])
    assert 'made/1.0.0 (Corrupted' in message(config)


def test_files_of_a_missing_package_are_named(tfds, prepared, monkeypatch):
    config = prepared(tfds.features.Translation(languages=('de', 'en')), [{'en': 'a', 'de': 'b'}])
    corpus = TfdsCorpus(config)

    def missing(**options):
        raise ModuleNotFoundError("No module named 'riegeli'")

    monkeypatch.setattr(corpus._builder, 'as_dataset', missing)
    with pytest.raises(UserError, match=r"tfrecord files \(No module named 'riegeli'\): install"):
        next(corpus.pairs('train'))


LISTED = [
    {'en': 'the cat', 'de': ['die Katze', 'der Kater']},
    {'en': 'a dog', 'fr': 'un chien'},
    {'en': 'a bird', 'fr': 'un oiseau', 'de': 'ein Vogel'},
]
PAIRS_OF_LISTED = [('a bird', 'ein Vogel'), ('the cat', 'der Kater'), ('the cat', 'die Katze')]


@pytest.mark.parametrize('file_format', ['tfrecord', 'array_record'])
@pytest.mark.parametrize('languages', [None, ('de', 'en', 'fr')])
@pytest.mark.parametrize('is_nested', [False, True])
def test_texts_that_are_listed_by_language_are_read(
    tfds, prepared, file_format, languages, is_nested
):
    features, rows = tfds.features.TranslationVariableLanguages(languages=languages), LISTED
    if is_nested:
        features = tfds.features.FeaturesDict({'texts': features, 'talk': tfds.features.Text()})
        rows = [{'texts': row, 'talk': 'x'} for row in LISTED]
    config = prepared(features, rows, file_format)
    assert sorted(read(config)) == PAIRS_OF_LISTED
    if languages:
        with pytest.raises(UserError, match="'it' is not a language of 'made', which has 'de'"):
            open_corpus(dataclasses.replace(config, target_language='it'))


def test_texts_within_a_feature_are_read(tfds, prepared):
    translation = tfds.features.Translation(languages=('de', 'en'))
    features = tfds.features.FeaturesDict(
        {'translation': translation, 'tags': tfds.features.Sequence(tfds.features.Text())}
    )
    rows = [
        {'translation': {'en': 'one', 'de': 'eins'}, 'tags': ['a']},
        {'translation': {'en': 'two', 'de': 'zwei'}, 'tags': ['a', 'b']},
    ]
    assert sorted(read(prepared(features, rows))) == [('one', 'eins'), ('two', 'zwei')]


def test_fingerprints_are_stable_and_differ_by_split_and_direction(tfds_dir):
    swapped = {'source_language': 'de', 'target_language': 'en'}
    configs = [tfds_config(tfds_dir, **changes) for changes in ({}, {}, swapped)]
    first, again, other = (
        [corpus.fingerprint(split) for split in SPLITS] for corpus in map(open_corpus, configs)
    )
    assert first == again
    assert len({*first, *other}) == 6


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """A feature class whose module writes a file when it is imported, and that file."""
    trace = tmp_path / 'trace'
    (tmp_path / 'foreign_features.py').write_text(f'open({str(trace)!r}, "w").close()')
    monkeypatch.syspath_prepend(tmp_path)
    yield 'foreign_features.Feature', trace
    sys.modules.pop('foreign_features', None)


def text_feature(form, name):
    """Return a feature of the named class, in one of the forms that features.json may have."""
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
def test_no_module_that_a_folder_names_is_imported(
    tfds, tfds_dir, tmp_path, foreign, form, offline
):
    name, trace = foreign
    folder = shutil.copytree(tfds_dir, tmp_path / 'tfds')
    [features] = folder.rglob('features.json')
    features.write_text(json.dumps(text_feature(form, name)))
    expected = r"data.dataset='tiny_translate/de-en' has a feature of the class .*, which is not"
    with pytest.raises(UserError, match=expected):
        TfdsCorpus(tfds_config(folder), offline=offline)
    assert not trace.exists()


def test_no_other_module_of_tfds_is_imported_for_a_feature(tfds, tfds_dir, tmp_path):
    folder = shutil.copytree(tfds_dir, tmp_path / 'tfds')
    [features] = folder.rglob('features.json')
    name = 'tensorflow_datasets.scripts.cli.main.Feature'
    features.write_text(json.dumps(text_feature('top', name)))
    assert f'has a feature of the class {name!r}' in message(tfds_config(folder))
    assert 'tensorflow_datasets.scripts.cli.main' not in sys.modules


def test_other_feature_classes_can_be_used_again_afterwards(tfds, tfds_dir):
    class OwnFeature(tfds.features.Text):
        pass

    open_corpus(tfds_config(tfds_dir))
    name = f'{OwnFeature.__module__}.{OwnFeature.__name__}'
    assert tfds.features.FeatureConnector.cls_from_name(name) is OwnFeature


def test_offline_reads_a_prepared_dataset(tfds, tfds_dir, no_network):
    online = TfdsCorpus(tfds_config(tfds_dir))
    default_part = tfds_config(tfds_dir, dataset='tiny_translate')  # the folder names it
    for config in (tfds_config(tfds_dir), default_part):
        corpus = TfdsCorpus(config, offline=True)
        assert corpus.fingerprint('dev') == online.fingerprint('dev')


def test_offline_prepares_nothing_and_imports_no_dataset(tfds, tmp_path, no_network):
    before = set(sys.modules)
    for name in ('wmt14_translate/de-en', 'glue'):
        config = tfds_config(tmp_path, dataset=name)
        with pytest.raises(Unavailable, match=r'is not prepared in .*prepare it'):
            TfdsCorpus(config, offline=True)
    assert not list(tmp_path.iterdir())
    assert not [x for x in set(sys.modules) - before if x.startswith('tensorflow_datasets.datas')]


def test_offline_reads_no_bucket(tfds, no_network):
    with pytest.raises(Unavailable, match='is not on this machine: name files'):
        TfdsCorpus(tfds_config('gs://bucket'), offline=True)


def test_columns_can_be_named(tfds_dir):
    columns = {'source_column': 'de', 'target_column': 'en'}
    named = read(tfds_config(tfds_dir, source_language='de', **columns), 'dev')
    assert sorted(named) == [(f'dev ü {i}', f'dev {i}') for i in range(7)]


def test_an_unknown_column_is_refused_with_the_known_ones(tfds_dir):
    text = message(tfds_config(tfds_dir, source_column='german'))
    assert text == (
        "data.source_column='german' is not one of the columns of "
        "data.dataset='tiny_translate/de-en', which has 'de', 'en'."
    )


def test_a_language_is_not_paired_with_itself(tfds_dir):
    assert message(tfds_config(tfds_dir, target_language='en')) == (
        "data.target_language='en' is also the source language, but "
        "'tiny_translate/de-en' has one text per language: name two columns of text in "
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
def test_unknown_languages_and_splits_are_refused_with_the_known_ones(
    tfds_dir, field, value, kind, known
):
    assert message(tfds_config(tfds_dir, **{field: value})) == (
        f"data.{field}={value!r} is not a {kind} of 'tiny_translate/de-en', which has {known}."
    )


@pytest.mark.parametrize(
    'name, expected',
    [
        ('wmt14_translat/de-en', 'is not a dataset of TFDS'),
        ('wmt14_translat/de-en', "did you mean 'wmt14_translate'?"),
        (
            'wmt14_translate/en-de',
            "is not a configuration of wmt14_translate, which has 'cs-en', 'de-en'",
        ),
        ('huggingface:wmt14', 'is not a dataset of TFDS itself'),
        ('no/such/name/at all', 'is not a'),
    ],
)
def test_an_unknown_dataset_is_refused(tfds, tmp_path, no_network, name, expected):
    text = message(tfds_config(tmp_path, dataset=name))
    assert text.startswith(f'data.dataset={name!r} is not a') and expected in text


def test_without_a_network_the_message_says_what_to_do(tfds, tmp_path, no_network):
    text = message(tfds_config(tmp_path, dataset='wmt14_translate/de-en'))
    assert f"data.dataset='wmt14_translate/de-en' is not prepared in {tmp_path}" in text
    assert "data.corpus='huggingface' and data.dataset='wmt/wmt14/de-en' (the hub)" in text
    assert (
        'python -c "import tensorflow_datasets as tfds; '
        "tfds.load('wmt14_translate/de-en')\"" in text
    )
    assert 'data.data_dir, or set data.manual_dir to' in text


def test_manual_dir_needs_no_network(tfds, tmp_path, no_network, capsys):
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
    assert 'TFDS cannot prepare it' in message(config)
    manual = tfds_config(
        tmp_path / 'data', dataset='manual_translate', manual_dir=str(tmp_path / 'manual')
    )
    assert [len(pairs) for pairs in read_all(manual)] == [1, 1, 1]
    assert capsys.readouterr().out == ''
    tfds.core.registered._DATASET_REGISTRY.pop('manual_translate')


def test_manual_dir_must_exist(tfds, tmp_path, no_network):
    config = tfds_config(
        tmp_path, dataset='wmt14_translate/de-en', manual_dir=str(tmp_path / 'none')
    )
    assert f"data.manual_dir='{tmp_path}/none' is not a folder" in message(config)


@pytest.mark.parametrize(
    'module, version, remedy',
    [
        ('tensorflow', (3, 13), 'pip install tensorflow-cpu tensorflow-datasets'),
        ('tensorflow', (3, 14), 'no build for Python 3.14 yet, so use Python 3.11 to'),
        ('tensorflow_datasets', (3, 13), 'pip install tensorflow-cpu tensorflow-datasets'),
    ],
)
def test_a_missing_package_is_named_with_its_remedy(monkeypatch, module, version, remedy):
    if module == 'tensorflow_datasets':
        pytest.importorskip('tensorflow', reason='tensorflow is not installed')
    monkeypatch.setattr(sys, 'version_info', version)
    monkeypatch.setitem(sys.modules, module, None)
    assert remedy in message(DataConfig(corpus='tfds', dataset='owner/name'))
