"""Text files and tables give their pairs, and every mistake gives one sentence."""

import gzip
import lzma
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tiny_corpus import PAIRS, message, read

from transformer_jax.config import DataConfig
from transformer_jax.data.corpora import text_files
from transformer_jax.data.corpora.corpus import open_corpus
from transformer_jax.data.corpora.text_files import FilesCorpus, TextFile
from transformer_jax.errors import UserError


def write_texts(folder, pairs):
    """Write train.en and train.fr, and return their paths as text."""
    paths = folder / 'train.en', folder / 'train.fr'
    for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text('\n'.join(lines) + '\n', encoding='utf-8')
    return tuple(map(str, paths))


def files_config(source, target='', **changes):
    """Return a config whose three splits are the same files, so that nothing is held out."""
    paths = {
        f'{split}_{side}': str(path)
        for split in ('train', 'dev', 'test')
        for side, path in (('source', source), ('target', target))
    }
    return DataConfig(**{'corpus': 'files', 'target_language': 'fr', **paths, **changes})


def write_table(folder, name, text):
    (folder / name).write_text(text, encoding='utf-8')
    return files_config(folder / name)


def test_two_text_files_are_read_line_by_line_every_time(tmp_path):
    corpus = open_corpus(files_config(*write_texts(tmp_path, PAIRS)))
    assert list(corpus.pairs('train')) == list(corpus.pairs('train')) == PAIRS


@pytest.mark.parametrize('suffix, compress', [('.gz', gzip.compress), ('.XZ', lzma.compress)])
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


def test_a_tilde_stands_for_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv('HOME', str(tmp_path))
    write_texts(tmp_path, PAIRS)
    assert read(files_config('~/train.en', '~/train.fr')) == PAIRS


def test_the_fingerprint_follows_the_content_and_not_the_path(tmp_path):
    (tmp_path / 'copy').mkdir()
    paths = write_texts(tmp_path, PAIRS)
    first = open_corpus(files_config(*paths)).fingerprint('train')
    copied = open_corpus(files_config(*write_texts(tmp_path / 'copy', PAIRS)))
    changed = open_corpus(files_config(*write_texts(tmp_path, PAIRS[::-1])))
    swapped = open_corpus(files_config(*paths[::-1]))
    assert first == copied.fingerprint('train')
    assert len({first, changed.fingerprint('train'), swapped.fingerprint('train')}) == 3
    assert int(first, 16)


@pytest.mark.parametrize(
    'source, expected',
    [
        ('trian.en', "/trian.en' does not exist: did you mean 'train.en'?"),
        ('no/a', "/no/a' does not exist: there is no folder '{}/no'."),
        ('train.en/a', "/train.en/a' does not exist: there is no folder '{}/train.en'."),
        ('', "' is a folder, but must be a file."),
    ],
)
def test_a_missing_file_is_refused(tmp_path, source, expected):
    _, target = write_texts(tmp_path, PAIRS)
    text = message(files_config(tmp_path / source, target))
    assert text == f"data.train_source='{tmp_path}{expected.format(tmp_path)}"


def test_a_file_without_permission_is_refused(tmp_path, monkeypatch):
    paths = write_texts(tmp_path, PAIRS)

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(text_files, 'open', refuse, raising=False)  # root can read everything
    assert 'may not be read: change its permissions.' in message(files_config(*paths))


@pytest.mark.parametrize('split', ['train', 'dev'])
def test_different_numbers_of_lines_are_refused_at_opening(tmp_path, split):
    source, target = write_texts(tmp_path, PAIRS)
    (tmp_path / 'short').write_text('un\ndeux')
    config = files_config(source, target, **{f'{split}_target': str(tmp_path / 'short')})
    expected = rf"data.{split}_source='{source}' has 3 lines but data.{split}_target=.* has 2"
    with pytest.raises(UserError, match=expected):
        open_corpus(config)


def test_invalid_utf_8_is_refused_with_its_line(tmp_path):
    source, target = write_texts(tmp_path, PAIRS)
    (tmp_path / 'train.fr').write_bytes(b'un\nd\xe9j\xe0\ndeux\n')
    text = message(files_config(source, target))
    assert f"data.train_target='{target}', line 2, is not UTF-8" in text


@pytest.mark.parametrize('encoding', ['utf-16-le', 'utf-16-be'])
@pytest.mark.parametrize(
    'lines', [3, 4]
)  # of the other file, because UTF-16 may seem to have either number
def test_utf_16_is_recognised(tmp_path, encoding, lines):
    (tmp_path / 'a').write_bytes('\ufeffa\nb\nc\n'.encode(encoding))
    (tmp_path / 'b').write_text('un\n' * lines)
    config = files_config(tmp_path / 'a', tmp_path / 'b')
    assert f"data.train_source='{tmp_path}/a', line 1, is UTF-16: convert" in message(config)


def test_a_url_is_refused():
    text = message(files_config('https://example.org/train.en', 'train.fr'))
    assert text.startswith("data.train_source='https://example.org/train.en' is a URL")


@pytest.mark.parametrize('suffix, compress', [('gz', gzip.compress), ('xz', lzma.compress)])
@pytest.mark.parametrize('damage', [lambda data: data[:-20], lambda data: b'plain text'])
def test_a_damaged_archive_is_refused(tmp_path, suffix, compress, damage):
    path = tmp_path / f'a.{suffix}'
    path.write_bytes(damage(compress(b'one\n' * 1000)))
    assert f"a.{suffix}' is a damaged {suffix} file" in message(
        files_config(path, path.parent / 'b')
    )


@pytest.mark.parametrize('suffix, compress', [('gz', gzip.compress), ('xz', lzma.compress)])
@pytest.mark.parametrize(
    'content, lines',
    [
        (lambda one, two: one + two, ['one', 'two']),
        (lambda one, two: one + bytes(8) + two + bytes(4), ['one', 'two']),
        (lambda one, two: one + b'x', None),
        (lambda one, two: one + b'\0x', None),
        (lambda one, two: one + two[:-3], None),
        (lambda one, two: one + two[:20] + bytes(4) + two[24:], None),
        (lambda one, two: b'', None),
        (lambda one, two: bytes(8), None),
    ],
)
def test_a_compressed_file_has_whole_streams_and_nothing_else(
    tmp_path, suffix, compress, content, lines
):
    path = tmp_path / f'a.{suffix}'
    path.write_bytes(content(compress(b'one\n'), compress(b'two\n')))
    file = TextFile('--input', path)
    if lines is not None:
        assert list(file.sentences()) == lines
    else:
        with pytest.raises(UserError, match=f"a.{suffix}' is a damaged {suffix} file"):
            list(file.sentences())


@pytest.mark.parametrize(
    ('name', 'text'),
    [
        ('a.tsv', 'en\ten\tfr\na\tb\tc\n'),
        ('a.csv', 'en,en,fr\na,b,c\n'),
        ('a.jsonl', '{"en": "a", "en": "b", "fr": "c"}\n'),
        ('a.jsonl', '{"translation": {"en": "a", "en": "b", "fr": "c"}}\n'),
    ],
)
def test_two_columns_of_one_name_are_refused(tmp_path, name, text):
    line = ', line 1,' if name == 'a.jsonl' else ''
    problem = f"{name}'{line} has 2 columns 'en': give each a name of its own"
    assert problem in message(write_table(tmp_path, name, text))


def test_two_objects_of_translations_in_a_line_are_refused(tmp_path):
    text = '{"translation": {"en": "a", "fr": "b"}, "translation": {"en": "c", "fr": "d"}}\n'
    assert "has 2 columns 'translation'" in message(write_table(tmp_path, 'a.jsonl', text))


def test_two_columns_of_a_name_that_is_not_asked_for_do_not_matter(tmp_path):
    config = write_table(tmp_path, 'a.tsv', 'en\tfr\tid\tid\na\tb\t1\t2\n')
    assert read(config) == [('a', 'b')]


def test_other_compressions_are_refused(tmp_path):
    for name in ('a.csv.bz2', 'a.en.bz2', 'a.fr.bz2'):
        (tmp_path / name).write_bytes(b'BZh')
    remedy = (
        'is compressed as bz2, which is not supported: decompress it, or compress it as .gz or .xz'
    )
    assert f"a.csv.bz2' {remedy}" in message(files_config(tmp_path / 'a.csv.bz2'))
    texts = files_config(tmp_path / 'a.en.bz2', tmp_path / 'a.fr.bz2')
    assert f"a.en.bz2' {remedy}" in message(texts)


def test_a_cell_may_have_any_length(tmp_path):
    long = 'word ' * 40_000
    config = write_table(tmp_path, 'a.csv', f'en,fr\n{long},un\n')
    assert read(config) == [(long, 'un')]


def test_a_text_file_alone_is_refused(tmp_path):
    source, _ = write_texts(tmp_path, PAIRS)
    assert 'so it needs a second file in data.train_target' in message(files_config(source))


def test_a_table_with_a_second_file_is_refused(tmp_path):
    text = message(files_config(tmp_path / 'a.tsv', tmp_path / 'b.txt'))
    assert 'give one table (.tsv, .csv, .jsonl), or two text files.' in text


@pytest.mark.parametrize(
    'name, text, expected',
    [
        # In TSV, quotes and spaces are text.
        ('a.tsv', 'id\tfr\ten\r\n1\t"un\t"one" \r\n\n', ('"one" ', '"un')),
        ('a.csv', '\ufeffen,fr\r\n"one, ""1""","un\nune"\r\n', ('one, "1"', 'un\nune')),
        ('a.jsonl', '{"fr": "un", "en": "one", "id": 1}\n', ('one', 'un')),
        ('a.jsonl', '{"translation": {"fr": "un", "en": "one"}}', ('one', 'un')),
    ],
)
def test_tables_are_read_in_both_directions(tmp_path, name, text, expected):
    config = write_table(tmp_path, name, text)
    assert read(config) == [expected]
    config = files_config(config.train_source, source_language='fr', target_language='en')
    assert read(config) == [expected[::-1]]


def test_columns_can_be_named_in_a_compressed_table(tmp_path):
    path = tmp_path / 'a.csv.gz'
    path.write_bytes(gzip.compress(b'English words/sentences,French\none,un\n'))
    columns = {'source_column': 'English words/sentences', 'target_column': 'French'}
    assert read(files_config(path, path, **columns)) == [('one', 'un')]


def test_two_text_files_of_one_language_are_pairs(tmp_path):
    paths = write_texts(tmp_path, [('a dogs', 'a dog'), ('two cat', 'two cats')])
    config = files_config(*paths, target_language='en')
    assert read(config) == [('a dogs', 'a dog'), ('two cat', 'two cats')]


@pytest.mark.parametrize(
    ('name', 'text'),
    [
        ('a.tsv', 'wrong\tright\na dogs\ta dog\n'),
        ('a.csv', 'wrong,right\na dogs,a dog\n'),
        ('a.jsonl', '{"wrong": "a dogs", "right": "a dog"}'),
    ],
)
def test_columns_distinguish_two_sides_of_one_language(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    columns = {'source_column': 'wrong', 'target_column': 'right'}
    assert read(files_config(tmp_path / name, target_language='en', **columns)) == [
        ('a dogs', 'a dog')
    ]


@pytest.mark.parametrize(
    ('name', 'text', 'line'),
    [
        ('a.tsv', 'en\tfr\none\tun\n', ','),
        ('a.csv', 'en,fr\none,un\n', ','),
        ('a.jsonl', '{"en": "one", "fr": "un"}', ', line 1,'),
    ],
)
@pytest.mark.parametrize('changes', [{'target_language': 'en'}, {'target_column': 'en'}])
def test_a_column_is_never_paired_with_itself(tmp_path, name, text, line, changes):
    (tmp_path / name).write_text(text)
    assert message(files_config(tmp_path / name, **changes)) == (
        f"source and target would both be the column 'en' of data.train_source='{tmp_path}/{name}'"
        f"{line} which has 'en', 'fr': name one for each in data.source_column and "
        'data.target_column.'
    )


def test_a_json_translation_object_is_not_used_for_one_language(tmp_path):
    text = '{"translation": {"en": "one"}, "wrong": "a dogs", "right": "a dog"}'
    (tmp_path / 'a.jsonl').write_text(text)
    text_shown = message(files_config(tmp_path / 'a.jsonl', target_language='en'))
    assert "which has 'translation', 'wrong', 'right': name one for each in" in text_shown


def test_columns_are_part_of_the_fingerprint(tmp_path):
    (tmp_path / 'a.tsv').write_text('en\tfr\tde\none\tun\teins\n')
    prints = {
        open_corpus(files_config(tmp_path / 'a.tsv', **changes)).fingerprint('train')
        for changes in ({}, {'target_language': 'de'}, {'target_column': 'de'})
    }
    assert len(prints) == 3


def test_an_unknown_column_is_refused_with_the_known_ones(tmp_path):
    (tmp_path / 'a.tsv').write_text('en\tfr\none\tun\n')
    text = message(files_config(tmp_path / 'a.tsv', source_column='english'))
    assert text == (
        "data.source_column='english' is not one of the columns of "
        f"data.train_source='{tmp_path}/a.tsv', which has 'en', 'fr'."
    )


@pytest.mark.parametrize(
    'name, text, expected',
    [
        ('a.csv', 'en,French\none,un\n', "data.target_column='' must name one (there is no 'fr')"),
        ('a.csv', 'en,French\none,un\n', "which has 'en', 'French'."),
        ('a.csv', 'en,fr\na,b\nc\n', "a.csv', line 3, has 1 fields but the header has 2"),
        ('a.tsv', 'en\tfr\na\tb\nc\n', "a.tsv', line 3, has 1 fields but the header has 2"),
        ('a.csv', 'en,fr\none,un\n"two,deux\n', "a.csv', line 3, is not valid CSV"),
        ('a.jsonl', '\n{"en": "two"', 'line 2, is not valid JSON'),
        ('a.jsonl', '\n["two", "deux"]', 'line 2, is not a JSON object'),
        ('a.jsonl', '\n{"en": "two"}', "line 2, which has 'en'."),
        ('a.jsonl', '\n{"en": "two", "fr": null}', 'line 2, holds something other than text'),
        ('a.jsonl', '\n{"en": "a", "fr": "\\ud83d"}', 'line 2, holds something other than text'),
        ('a.csv', '', "a.csv' has no sentence pairs"),
        ('a.tsv', 'en\tfr\n', "a.tsv' has no sentence pairs"),
        ('a.jsonl', '\n', "a.jsonl' has no sentence pairs"),
    ],
)
def test_bad_tables_are_refused(tmp_path, name, text, expected):
    assert expected in message(write_table(tmp_path, name, text))


def test_empty_files_are_refused(tmp_path):
    for name in ('a', 'b'):
        (tmp_path / name).write_text('')
    assert "/a' has no sentence pairs" in message(files_config(tmp_path / 'a', tmp_path / 'b'))


@pytest.mark.parametrize('name', ['train.en', 'train.tsv', 'train.jsonl', 'train.en.gz'])
def test_a_pipe_is_refused_at_once(tmp_path, name):
    os.mkfifo(tmp_path / name)
    target = '' if name.endswith(('tsv', 'jsonl')) else str(tmp_path / name)
    assert 'is a pipe, which can be read only once' in message(
        files_config(tmp_path / name, target and tmp_path / 'other')
    )


def test_a_device_is_refused():
    assert 'is a device or a socket: name a file' in message(files_config('/dev/zero', '/dev/null'))


def test_a_file_that_is_read_once_may_be_a_pipe_or_an_empty_device(tmp_path):
    os.mkfifo(tmp_path / 'pipe')
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit((tmp_path / 'pipe').write_text, 'a\nb\n')
        file = TextFile('--input', tmp_path / 'pipe', read_once=True)
        assert list(file.sentences()) == ['a', 'b']
        written.result()
    assert list(TextFile('--input', Path('/dev/null'), read_once=True).sentences()) == []
    with pytest.raises(UserError, match='is a device'):
        list(TextFile('--input', Path('/dev/zero'), read_once=True).sentences())


def test_shards_of_both_sides_are_paired_by_name(tmp_path):
    for name in ('1.en', '2.en', '1.fr', '3.fr'):
        (tmp_path / name).write_text(f'{name}\n')

    def corpus(source, target):
        paths = {'train_source': f'{tmp_path}/{source}', 'train_target': f'{tmp_path}/{target}'}
        return FilesCorpus(DataConfig(corpus='files', **paths))

    with pytest.raises(UserError, match=r"matches '2' where .* matches '3'"):
        corpus('*.en', '*.fr')
    with pytest.raises(UserError, match=r'matches 2 files, but .* 1: give as many of each'):
        corpus('*.en', '1.fr')
    with pytest.raises(UserError, match='is a pattern that matches no file'):
        list(corpus('x*.en', 'x*.fr').pairs('train'))
    (tmp_path / '3.fr').rename(tmp_path / '2.fr')
    assert list(corpus('*.en', '*.fr').pairs('train')) == [('1.en', '1.fr'), ('2.en', '3.fr')]
