"""Sentence pairs come from every kind of corpus, and every mistake is told in one sentence."""

import gzip
import http.server
import json
import logging
import lzma
import socket
import sys
import threading
import time

import pytest

from transformer_jax.config import DataConfig
from transformer_jax.data import dataset_libraries, text_files
from transformer_jax.data.corpora import open_corpus
from transformer_jax.errors import UserError

PAIRS = [('a dog', 'un chien'), ('a cat', 'un chat'), ('water', "de l'eau")]
# As in PaulineSanchez/Translation_words_and_sentences_english_french.
ENGLISH, FRENCH = 'English words/sentences', 'French words/sentences'


def many(count, word='s'):
    return [(f'{word}{i}', f't{i}') for i in range(count)]


def write_texts(folder, pairs, name='train'):
    """Writes name.en and name.fr; returns their paths as text."""
    paths = folder / f'{name}.en', folder / f'{name}.fr'
    for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text('\n'.join(lines) + '\n', encoding='utf-8')
    return tuple(map(str, paths))


def files_config(source, target='', **changes):
    """A config whose three splits all are the same files, so that nothing is held out."""
    paths = {
        f'{split}_{side}': str(path)
        for split in ('train', 'dev', 'test')
        for side, path in (('source', source), ('target', target))
    }
    return DataConfig(**{'corpus': 'files', 'target_language': 'fr', **paths, **changes})


def read(config, split='train'):
    return list(open_corpus(config).pairs(split))


def message(config):
    """The one line that the user sees, at opening or when reading."""
    with pytest.raises(UserError) as caught:
        read(config)
    assert '\n' not in str(caught.value)
    return str(caught.value)


# --- Text files ----------------------------------------------------------------------------------


def test_two_text_files_are_read_line_by_line(tmp_path):
    assert read(files_config(*write_texts(tmp_path, PAIRS))) == PAIRS


@pytest.mark.parametrize('suffix, compress', [('.gz', gzip.compress), ('.xz', lzma.compress)])
def test_compressed_files_are_read(tmp_path, suffix, compress):
    for name, text in (('a.en', b'one\ntwo\n'), ('a.fr', b'un\ndeux\n')):
        (tmp_path / (name + suffix)).write_bytes(compress(text))
    config = files_config(tmp_path / f'a.en{suffix}', tmp_path / f'a.fr{suffix}')
    assert read(config) == [('one', 'un'), ('two', 'deux')]


def test_only_newlines_end_lines(tmp_path):
    (tmp_path / 'a').write_bytes('one\u2028\x0b\x85 more\r\ntwo'.encode())
    (tmp_path / 'b').write_bytes(b'\xef\xbb\xbfun\n deux \n')
    config = files_config(tmp_path / 'a', tmp_path / 'b')
    assert read(config) == [('one\u2028\x0b\x85 more', 'un'), ('two', ' deux ')]


def test_tilde_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv('HOME', str(tmp_path))
    write_texts(tmp_path, PAIRS)
    assert read(files_config('~/train.en', '~/train.fr')) == PAIRS


def test_pairs_can_be_read_again(tmp_path):
    corpus = open_corpus(files_config(*write_texts(tmp_path, PAIRS)))
    assert list(corpus.pairs('train')) == list(corpus.pairs('train'))


def test_fingerprint_follows_content_and_not_the_path(tmp_path):
    (tmp_path / 'copy').mkdir()
    paths = write_texts(tmp_path, PAIRS)
    first = open_corpus(files_config(*paths)).fingerprint('train')
    copied = open_corpus(files_config(*write_texts(tmp_path / 'copy', PAIRS)))
    changed = open_corpus(files_config(*write_texts(tmp_path, PAIRS[::-1])))
    swapped = open_corpus(files_config(*paths[::-1]))
    assert first == copied.fingerprint('train')
    assert len({first, changed.fingerprint('train'), swapped.fingerprint('train')}) == 3
    assert int(first, 16)


def test_missing_file_names_the_nearest(tmp_path):
    source, target = write_texts(tmp_path, PAIRS)
    text = message(files_config(source.replace('train', 'trian'), target))
    assert text == (
        f"data.train_source='{tmp_path}/trian.en' does not exist: did you mean 'train.en'?"
    )


def test_missing_folder_is_named(tmp_path):
    text = message(files_config(tmp_path / 'no' / 'a', tmp_path / 'no' / 'b'))
    assert text.endswith(f"/no/a' does not exist: there is no folder '{tmp_path}/no'.")


def test_folder_in_place_of_a_file(tmp_path):
    (tmp_path / 'a').mkdir()
    assert 'is a folder, but must be a file.' in message(files_config(tmp_path / 'a', 'b'))


def test_file_that_may_not_be_read(tmp_path, monkeypatch):
    paths = write_texts(tmp_path, PAIRS)

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(text_files, 'open', refuse, raising=False)  # root may read everything
    assert 'may not be read: change its permissions.' in message(files_config(*paths))


def test_lengths_must_agree(tmp_path):
    source, target = write_texts(tmp_path, PAIRS)
    (tmp_path / 'train.fr').write_text('un\ndeux')
    text = message(files_config(source, target))
    assert (
        f"data.train_source='{source}' has 3 lines but data.train_target='{target}' has 2" in text
    )


def test_lengths_of_dev_are_checked_at_opening(tmp_path):
    train, dev = write_texts(tmp_path, PAIRS), write_texts(tmp_path, PAIRS, 'dev')
    (tmp_path / 'dev.en').write_text('one')
    with pytest.raises(UserError, match=r'data\.dev_source=.* has 1 lines but data.dev_target='):
        open_corpus(files_config(*train, dev_source=dev[0], dev_target=dev[1]))


def test_invalid_utf8_names_the_line(tmp_path):
    source, target = write_texts(tmp_path, PAIRS)
    (tmp_path / 'train.fr').write_bytes(b'un\nd\xe9j\xe0\ndeux\n')
    text = message(files_config(source, target))
    assert f"data.train_target='{target}', line 2, is not UTF-8" in text


@pytest.mark.parametrize('suffix, compress', [('gz', gzip.compress), ('xz', lzma.compress)])
@pytest.mark.parametrize('damage', [lambda data: data[:-20], lambda data: b'plain text'])
def test_damaged_archive(tmp_path, suffix, compress, damage):
    path = tmp_path / f'a.{suffix}'
    path.write_bytes(damage(compress(b'one\n' * 1000)))
    assert f"a.{suffix}' is a damaged {suffix} file" in message(
        files_config(path, path.parent / 'b')
    )


def test_empty_files(tmp_path):
    for name in ('a', 'b'):
        (tmp_path / name).write_text('')
    assert "/a' has no sentence pairs" in message(files_config(tmp_path / 'a', tmp_path / 'b'))


def test_text_file_alone(tmp_path):
    source, _ = write_texts(tmp_path, PAIRS)
    assert 'needs another file beside it in data.train_target' in message(files_config(source))


def test_table_beside_another_file(tmp_path):
    (tmp_path / 'a.tsv').write_text('en\tfr\na\tb\n')
    text = message(files_config(tmp_path / 'a.tsv', tmp_path / 'b.txt'))
    assert 'give a table (.tsv, .csv, .jsonl) alone, or two text files.' in text


# --- Tables --------------------------------------------------------------------------------------


def write_table(folder, name, text):
    (folder / name).write_text(text, encoding='utf-8')
    return files_config(folder / name)


def test_tsv_has_no_quoting(tmp_path):
    config = write_table(tmp_path, 'a.tsv', 'id\tfr\ten\r\n1\t"un\t"one" \r\n2\tdeux\ttwo\n\n')
    assert read(config) == [('"one" ', '"un'), ('two', 'deux')]


def test_csv_has_quoting(tmp_path):
    config = write_table(tmp_path, 'a.csv', '\ufeffen,fr\r\n"one, ""1""","un\nune"\r\ntwo,deux\r\n')
    assert read(config) == [('one, "1"', 'un\nune'), ('two', 'deux')]


def test_columns_by_name_and_compressed(tmp_path):
    path = tmp_path / 'a.csv.gz'
    path.write_bytes(gzip.compress(f'{ENGLISH},{FRENCH}\none,un\n'.encode()))
    config = files_config(path, path, source_column=ENGLISH, target_column=FRENCH)
    assert read(config) == [('one', 'un')]


def test_json_lines(tmp_path):
    lines = [json.dumps({'en': en, 'fr': fr, 'id': 1}) for en, fr in PAIRS]
    assert read(write_table(tmp_path, 'a.jsonl', '\n'.join(lines))) == PAIRS


@pytest.mark.parametrize(
    'languages, expected', [('en fr', ('one', 'un')), ('fr en', ('un', 'one'))]
)
def test_json_lines_with_a_translation_object(tmp_path, languages, expected):
    (tmp_path / 'a.jsonl').write_text('{"translation": {"en": "one", "fr": "un"}}\n')
    source, target = languages.split()
    config = files_config(tmp_path / 'a.jsonl', source_language=source, target_language=target)
    assert read(config) == [expected]


def test_columns_are_part_of_the_fingerprint(tmp_path):
    (tmp_path / 'a.tsv').write_text('en\tfr\tde\none\tun\teins\n')
    prints = {
        open_corpus(files_config(tmp_path / 'a.tsv', **changes)).fingerprint('train')
        for changes in ({}, {'target_language': 'de'}, {'target_column': 'de'})
    }
    assert len(prints) == 3


def test_unknown_column_names_those_that_exist(tmp_path):
    (tmp_path / 'a.tsv').write_text('en\tfr\none\tun\n')
    text = message(files_config(tmp_path / 'a.tsv', source_column='english'))
    assert text == (
        "data.source_column='english' is not one of the columns of "
        f"data.train_source='{tmp_path}/a.tsv', which has 'en', 'fr'."
    )


def test_columns_that_must_be_named(tmp_path):
    text = message(write_table(tmp_path, 'a.csv', 'en,French\none,un\n'))
    assert "data.target_column='' must name one (there is no 'fr') of the columns of" in text
    assert "which has 'en', 'French'." in text


@pytest.mark.parametrize(
    'name, text', [('a.tsv', 'en\tfr\na\tb\nc\n'), ('a.csv', 'en,fr\na,b\nc\n')]
)
def test_row_with_too_few_fields(tmp_path, name, text):
    assert f"{name}', line 3, has 1 fields but the header has 2" in message(
        write_table(tmp_path, name, text)
    )


def test_quote_that_is_never_closed(tmp_path):
    text = message(write_table(tmp_path, 'a.csv', 'en,fr\none,un\n"two,deux\n'))
    assert "a.csv', line 3, is not valid CSV" in text


@pytest.mark.parametrize(
    'line, expected',
    [
        ('{"en": "two"', 'line 2, is not valid JSON'),
        ('["two", "deux"]', 'line 2, is not a JSON object'),
        ('{"en": "two"}', "line 2, which has 'en'."),
        ('{"en": "two", "fr": null}', 'line 2, holds something other than text'),
        ('{"en": "two", "fr": "\\ud83d"}', 'line 2, holds something other than text'),
    ],
)
def test_bad_json_lines(tmp_path, line, expected):
    config = write_table(tmp_path, 'a.jsonl', '{"en": "one", "fr": "un"}\n' + line + '\n')
    assert expected in message(config)


@pytest.mark.parametrize('name, text', [('a.tsv', 'en\tfr\n'), ('a.csv', ''), ('a.jsonl', '\n')])
def test_empty_tables(tmp_path, name, text):
    assert f"{name}' has no sentence pairs" in message(write_table(tmp_path, name, text))


# --- Holding out ---------------------------------------------------------------------------------


def held_out(folder, pairs, **changes):
    source, target = write_texts(folder, pairs)
    config = {'dev_size': 20, 'test_size': 30, **changes}
    corpus = open_corpus(
        DataConfig(corpus='files', train_source=source, train_target=target, **config)
    )
    return {split: list(corpus.pairs(split)) for split in ('train', 'dev', 'test')}


def test_held_out_sizes_and_nothing_lost(tmp_path):
    splits = held_out(tmp_path, many(1000))
    assert [len(splits[name]) for name in ('train', 'dev', 'test')] == [950, 20, 30]
    assert sorted(pair for pairs in splits.values() for pair in pairs) == sorted(many(1000))


def test_no_held_out_source_stays_in_train(tmp_path):
    repeated = [(source, f'{target} {i}') for i in range(3) for source, target in many(1000)]
    splits = held_out(tmp_path, repeated)
    assert [len(splits[name]) for name in ('train', 'dev', 'test')] == [2850, 20, 30]
    sources = [{source for source, _ in pairs} for pairs in splits.values()]
    assert not (sources[0] & sources[1] or sources[0] & sources[2] or sources[1] & sources[2])
    assert all(target.endswith(' 0') for _, target in splits['dev'] + splits['test'])


def test_held_out_does_not_depend_on_order(tmp_path):
    forward, backward = held_out(tmp_path, many(1000)), held_out(tmp_path, many(1000)[::-1])
    assert forward['dev'] == backward['dev'] and forward['test'] == backward['test']


def test_held_out_depends_on_the_seed(tmp_path):
    assert held_out(tmp_path, many(1000))['dev'] != held_out(tmp_path, many(1000), seed=1)['dev']


def test_given_dev_is_kept_and_only_test_is_held_out(tmp_path):
    source, target = write_texts(tmp_path, many(1000), 'dev')
    splits = held_out(tmp_path, many(1000), dev_source=source, dev_target=target)
    assert [len(splits[name]) for name in ('train', 'dev', 'test')] == [970, 1000, 30]


def test_held_out_fingerprints_differ(tmp_path):
    source, target = write_texts(tmp_path, many(1000))
    config = {'corpus': 'files', 'train_source': source, 'train_target': target}
    prints = [
        open_corpus(DataConfig(**config, **changes)).fingerprint(split)
        for changes in ({}, {'seed': 1}, {'dev_size': 9})
        for split in ('train', 'dev', 'test')
    ]
    assert len(set(prints)) == 9


def test_small_corpus_gives_a_tenth_and_says_so_once(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, 'transformer_jax'):
        splits = held_out(tmp_path, many(200), dev_size=1000, test_size=1000)
    assert [len(splits[name]) for name in ('train', 'dev', 'test')] == [180, 10, 10]
    assert [record.getMessage() for record in caplog.records] == [
        'Only 200 distinct source sentences to train on: '
        'holding out 10 (dev) and 10 (test) of them, not 1000 and 1000.'
    ]


def test_three_sentences_give_one_each(tmp_path):
    assert [len(pairs) for pairs in held_out(tmp_path, PAIRS).values()] == [1, 1, 1]


def test_two_sentences_are_too_few(tmp_path):
    with pytest.raises(UserError, match='has fewer than 3 distinct source sentences, too few to'):
        held_out(tmp_path, PAIRS[:2] * 5)


# --- The phrasebook ------------------------------------------------------------------------------


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


def test_phrasebook_has_two_languages():
    assert message(phrasebook('en', 'de')).startswith(
        "data.target_language='de' is not in the phrasebook: translate from 'en' into 'fr'"
    )


# --- TensorFlow Datasets -------------------------------------------------------------------------


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


@pytest.fixture
def offline(monkeypatch):
    """No network: asked politely, or by opening a connection."""

    def refuse(*args, **kwargs):
        raise AssertionError('a connection was attempted')

    monkeypatch.setattr(dataset_libraries, '_reachable', lambda urls: False)
    monkeypatch.setattr(socket.socket, 'connect', refuse)
    monkeypatch.setattr(socket, 'getaddrinfo', refuse)


def test_tfds_in_both_directions(tfds_dir, offline):
    forward = read(tfds_config(tfds_dir), 'dev')
    backward = read(tfds_config(tfds_dir, source_language='de', target_language='en'), 'dev')
    assert sorted(forward) == [(f'dev {i}', f'dev ü {i}') for i in range(7)]
    assert backward == [(german, english) for english, german in forward]


def test_tfds_without_a_test_split_holds_it_out(tfds_dir):
    corpus = open_corpus(tfds_config(tfds_dir, test_size=100))
    train, test = list(corpus.pairs('train')), list(corpus.pairs('test'))
    assert (len(train), len(test)) == (1400, 100)
    assert len({*train, *test}) == 1500


def test_tfds_split_expressions(tfds_dir):
    config = tfds_config(tfds_dir, train_split='train[:90%]', test_split='train[90%:]')
    assert len(read(config)) == 1350
    assert len(read(config, 'test')) == 150


def test_tfds_fingerprints(tfds_dir):
    config = tfds_config(tfds_dir)
    prints = [open_corpus(config).fingerprint(split) for split in ('train', 'dev', 'test')]
    assert prints == [open_corpus(config).fingerprint(split) for split in ('train', 'dev', 'test')]
    swapped = tfds_config(tfds_dir, source_language='de', target_language='en')
    assert len({*prints, open_corpus(swapped).fingerprint('train')}) == 4


def test_tfds_language_that_is_not_there(tfds_dir):
    assert message(tfds_config(tfds_dir, target_language='fr')) == (
        "data.target_language='fr' is not a language of 'tiny_translate/de-en', "
        "which has 'de', 'en'."
    )


@pytest.mark.parametrize('split, name', [('train', 'training'), ('dev', 'valid'), ('train', '')])
def test_tfds_split_that_is_not_there(tfds_dir, split, name):
    assert message(tfds_config(tfds_dir, **{f'{split}_split': name})) == (
        f"data.{split}_split={name!r} is not a split of 'tiny_translate/de-en', "
        "which has 'train', 'validation'."
    )


def test_tfds_unknown_name(tfds, tmp_path, offline):
    text = message(tfds_config(tmp_path, dataset='wmt14_translat/de-en'))
    assert "data.dataset='wmt14_translat/de-en' is not a dataset of TFDS" in text
    assert "did you mean 'wmt14_translate'?" in text


def test_tfds_unknown_part(tfds, tmp_path, offline):
    text = message(tfds_config(tmp_path, dataset='wmt14_translate/en-de'))
    assert "is not a part of wmt14_translate, which has 'cs-en', 'de-en', 'fr-en'" in text


@pytest.mark.parametrize('name', ['huggingface:wmt14', 'no/such/name/at all'])
def test_tfds_names_of_another_kind(tfds, tmp_path, offline, name):
    assert f'data.dataset={name!r} is not a' in message(tfds_config(tmp_path, dataset=name))


def test_tfds_without_a_network_says_what_to_do(tfds, tmp_path, offline):
    start = time.monotonic()
    text = message(tfds_config(tmp_path, dataset='wmt14_translate/de-en'))
    assert time.monotonic() - start < 10
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
    corpus = open_corpus(manual)
    assert sum(len(list(corpus.pairs(split))) for split in ('train', 'dev', 'test')) == 3
    assert capsys.readouterr().out == ''
    tfds.core.registered._DATASET_REGISTRY.pop('manual_translate')


def test_tfds_manual_dir_must_exist(tfds, tmp_path, offline):
    config = tfds_config(
        tmp_path, dataset='wmt14_translate/de-en', manual_dir=str(tmp_path / 'none')
    )
    assert f"data.manual_dir='{tmp_path}/none' is not a folder" in message(config)


def test_tfds_not_installed(monkeypatch):
    pytest.importorskip('tensorflow', reason='tensorflow is not installed')
    monkeypatch.setitem(sys.modules, 'tensorflow_datasets', None)
    assert 'pip install tensorflow-cpu tensorflow-datasets' in message(tfds_config(''))


def test_tensorflow_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, 'tensorflow', None)
    assert 'pip install tensorflow-cpu' in message(tfds_config(''))


def test_hosts_are_asked_whether_they_can_be_reached(monkeypatch):
    monkeypatch.setenv('no_proxy', '127.0.0.1')
    with http.server.HTTPServer(('127.0.0.1', 0), http.server.BaseHTTPRequestHandler) as server:
        url = f'http://127.0.0.1:{server.server_port}/'
        threading.Thread(target=server.handle_request, daemon=True).start()
        assert dataset_libraries._reachable(['http://127.0.0.1:1/', url])
    assert not dataset_libraries._reachable(['http://127.0.0.1:1/'])


def test_slow_resolver_does_not_hold_up(monkeypatch):
    monkeypatch.setattr(dataset_libraries, '_PROBE_SECONDS', 0.1)
    monkeypatch.setattr(socket, 'getaddrinfo', lambda *_, **__: time.sleep(3) or [])
    start = time.monotonic()
    assert not dataset_libraries._reachable(['http://nowhere.invalid/'])
    assert time.monotonic() - start < 2


# --- Hugging Face --------------------------------------------------------------------------------


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


COLUMNS = {'source_column': ENGLISH, 'target_column': FRENCH}


def test_huggingface_saved_to_disk(datasets, tmp_path):
    splits = {'train': PAIRS, 'validation': PAIRS[:1], 'test': PAIRS[1:]}
    datasets.DatasetDict(
        {name: datasets.Dataset.from_dict(named_columns(pairs)) for name, pairs in splits.items()}
    ).save_to_disk(tmp_path / 'saved')
    config = hub_config(tmp_path / 'saved', **COLUMNS)
    assert [read(config, split) for split in ('train', 'dev', 'test')] == list(splits.values())


def test_huggingface_single_split_holds_out(datasets, tmp_path):
    table = datasets.Dataset.from_dict(named_columns(many(1000)))
    table.save_to_disk(tmp_path / 'saved')
    corpus = open_corpus(hub_config(tmp_path / 'saved', **COLUMNS, dev_size=20, test_size=30))
    sizes = [len(list(corpus.pairs(split))) for split in ('train', 'dev', 'test')]
    assert sizes == [950, 20, 30]


def test_huggingface_empty_split_name_holds_out(datasets, tmp_path):
    table = datasets.Dataset.from_dict(named_columns(many(100)))
    datasets.DatasetDict({'train': table, 'test': table}).save_to_disk(tmp_path / 'saved')
    config = hub_config(tmp_path / 'saved', **COLUMNS, test_split='', test_size=5, dev_size=5)
    assert len(read(config)) == 90


@pytest.mark.parametrize('name', ['train.csv', 'train.jsonl'])
def test_huggingface_folder_and_file(datasets, tmp_path, name, capsys):
    pairs = [*PAIRS, *many(100, 'word')]
    if name == 'train.csv':
        text = '\n'.join(','.join(row) for row in [(ENGLISH, FRENCH), *pairs])
    else:
        text = '\n'.join(json.dumps({ENGLISH: en, FRENCH: fr}) for en, fr in pairs)
    (tmp_path / 'folder').mkdir()
    path = tmp_path / 'folder' / name
    path.write_text(text)
    for dataset in (path.parent, path):
        corpus = open_corpus(hub_config(dataset, **COLUMNS))
        splits = [list(corpus.pairs(split)) for split in ('train', 'dev', 'test')]
        assert sorted(pair for pairs in splits for pair in pairs) == sorted(pairs)
    assert capsys.readouterr().out == ''


def test_huggingface_csv_keeps_words_that_pandas_takes_for_nothing(datasets, tmp_path):
    (tmp_path / 'a.csv').write_text('en,fr\nNone,Aucun\nNA,nan\n1,2\n')
    corpus = open_corpus(hub_config(tmp_path / 'a.csv'))
    pairs = [pair for split in ('train', 'dev', 'test') for pair in corpus.pairs(split)]
    assert sorted(pairs) == [('1', '2'), ('NA', 'nan'), ('None', 'Aucun')]


def test_huggingface_tsv_has_no_quoting(datasets, tmp_path):
    (tmp_path / 'a.tsv').write_text('en\tfr\n"one\t"un"\ntwo\tdeux\nthree\ttrois\n')
    corpus = open_corpus(hub_config(tmp_path / 'a.tsv'))
    pairs = [pair for split in ('train', 'dev', 'test') for pair in corpus.pairs(split)]
    assert sorted(pairs) == [('"one', '"un"'), ('three', 'trois'), ('two', 'deux')]


@pytest.mark.parametrize('languages, swap', [(('en', 'fr'), False), (('fr', 'en'), True)])
@pytest.mark.parametrize('typed', [True, False])
def test_huggingface_translation_column(datasets, tmp_path, languages, swap, typed):
    rows = {'translation': [{'en': en, 'fr': fr} for en, fr in PAIRS], 'id': [1, 2, 3]}
    table = datasets.Dataset.from_dict(rows)
    if typed:
        table = table.cast_column('translation', datasets.Translation(['en', 'fr']))
    datasets.DatasetDict({'train': table, 'validation': table, 'test': table}).save_to_disk(
        tmp_path / 'saved'
    )
    config = hub_config(
        tmp_path / 'saved', source_language=languages[0], target_language=languages[1]
    )
    assert read(config) == ([(fr, en) for en, fr in PAIRS] if swap else PAIRS)


def saved(datasets, tmp_path, columns):
    datasets.Dataset.from_dict(columns).save_to_disk(tmp_path / 'saved')
    return tmp_path / 'saved'


def test_huggingface_translation_without_the_language(datasets, tmp_path):
    path = saved(datasets, tmp_path, {'translation': [{'en': 'one', 'fr': 'un'}]})
    text = message(hub_config(path, target_language='de'))
    assert "data.target_language='de' is not a language of" in text
    assert "which has 'en', 'fr'." in text


def test_huggingface_columns_that_must_be_named(datasets, tmp_path):
    text = message(hub_config(saved(datasets, tmp_path, named_columns(PAIRS))))
    assert "data.source_column='' must name one (there is no 'en') of the columns of" in text
    assert f'which has {ENGLISH!r}, {FRENCH!r}.' in text


def test_huggingface_column_without_text(datasets, tmp_path):
    path = saved(datasets, tmp_path, {'en': ['one', 'two'], 'fr': [1, 2]})
    assert "data.target_column='fr' holds no text" in message(hub_config(path))


def test_huggingface_rows_without_text_are_counted(datasets, tmp_path, caplog):
    english = [None, *[source for source, _ in many(100)]]
    path = saved(datasets, tmp_path, {'en': english, 'fr': [None, *english[1:]]})
    with caplog.at_level(logging.WARNING, 'transformer_jax'):
        splits = open_corpus(hub_config(path, dev_size=5, test_size=5))
        sizes = [len(list(splits.pairs(split))) for split in ('train', 'dev', 'test')]
    assert sizes == [90, 5, 5]
    assert [record.getMessage() for record in caplog.records] == [
        f"data.train_split='train' of '{path}': left out 1 rows with no text."
    ]


def test_huggingface_split_that_is_not_there(datasets, tmp_path):
    path = saved(datasets, tmp_path, named_columns(PAIRS))
    text = message(hub_config(path, **COLUMNS, dev_split='dev'))
    assert "data.dev_split='dev' is not a split of" in text
    assert "which has 'train'." in text


def test_huggingface_without_text(datasets, tmp_path):
    features = datasets.Features({name: datasets.Value('string') for name in ('en', 'fr')})
    table = datasets.Dataset.from_dict({'en': [None], 'fr': [None]}, features=features)
    table.save_to_disk(tmp_path / 'saved')
    assert 'has no sentence pairs' in message(hub_config(tmp_path / 'saved'))


def test_huggingface_fingerprint_follows_content(datasets, tmp_path):
    prints = []
    for name, pairs in (('a', PAIRS), ('b', PAIRS), ('c', PAIRS[::-1])):
        datasets.Dataset.from_dict(named_columns(pairs)).save_to_disk(tmp_path / name)
        prints.append(open_corpus(hub_config(tmp_path / name, **COLUMNS)).fingerprint('train'))
    assert prints[0] == prints[1] != prints[2]


def test_huggingface_folder_without_data(datasets, tmp_path):
    (tmp_path / 'nothing').mkdir()
    text = message(hub_config(tmp_path / 'nothing'))
    assert 'cannot be loaded by the package datasets' in text


def test_huggingface_without_a_network(datasets, offline):
    name = 'PaulineSanchez/Translation_words_and_sentences_english_french'
    start = time.monotonic()
    text = message(hub_config(name))
    assert time.monotonic() - start < 10
    assert f'data.dataset={name!r} is neither a file or folder here nor in the cache' in text
    assert 'cannot be reached: name a folder made by save_to_disk' in text
    assert datasets.config.HF_HUB_OFFLINE is False  # as it was


def test_huggingface_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, 'datasets', None)
    assert "pip install 'transformer_jax[huggingface]'" in message(hub_config('owner/name'))
