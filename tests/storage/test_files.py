"""Files that are there whole or not at all."""

import os
import time

import pytest

from transformer_jax.storage.files import (
    atomic_write,
    parse_json,
    partial_path,
    read_json,
    read_regular,
    remove_leftovers,
    remove_unfinished,
)


def test_a_file_gets_its_name_when_it_is_complete(tmp_path):
    path = tmp_path / 'a'
    path.write_text('old')
    with atomic_write(path) as file:
        file.write('né')
        assert path.read_text() == 'old'
    assert path.read_bytes() == 'né'.encode()
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_the_old_file(tmp_path):
    path = tmp_path / 'a'
    path.write_text('old')
    with pytest.raises(KeyboardInterrupt), atomic_write(path, 'wb') as file:
        file.write(b'new')
        raise KeyboardInterrupt
    assert path.read_text() == 'old'
    assert list(tmp_path.iterdir()) == [path]


YESTERDAY = time.time() - 25 * 60 * 60


def test_folders_that_killed_processes_left_are_removed_after_a_day(tmp_path):
    old, fresh, other = (partial_path(tmp_path / name) for name in ('a', 'a', 'b'))
    for partial in (old, fresh, other):
        partial.mkdir()
        (partial / 'tokens').write_text('half')
    for path in (old / 'tokens', old, fresh, other / 'tokens', other):
        os.utime(path, (YESTERDAY, YESTERDAY))
    remove_leftovers(tmp_path / 'a')
    # Something in `fresh` has been written to since.
    assert sorted(tmp_path.iterdir()) == sorted([fresh, other])


def test_files_that_killed_processes_left_are_removed_by_the_next_write(tmp_path):
    old, fresh = partial_path(tmp_path / 'a'), partial_path(tmp_path / 'a')
    own = tmp_path / 'a.partial-by-me'
    for path in (old, fresh, own):
        path.write_text('half')
    for path in (old, own):
        os.utime(path, (YESTERDAY, YESTERDAY))
    with atomic_write(tmp_path / 'a') as file:
        file.write('whole')
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / 'a', fresh, own])


def test_unfinished_files_can_be_removed(tmp_path):
    partial_path(tmp_path / 'folder').mkdir()
    partial_path(tmp_path / 'file').write_text('half')
    with atomic_write(tmp_path / 'whole') as file:
        file.write('all')
    remove_unfinished()
    assert list(tmp_path.iterdir()) == [tmp_path / 'whole']


def test_reading_a_pipe_fails_instead_of_waiting(tmp_path):
    os.mkfifo(tmp_path / 'pipe')
    with pytest.raises(OSError, match='not a regular file'):
        read_regular(tmp_path / 'pipe')


@pytest.mark.parametrize(
    ('text', 'shape'),
    [
        ('{"a": 1, "b": [null, "x"]}', {'a': float, 'b': [(None, str)]}),
        ('{"a": {"b": 1.5}, "more": 0}', {'a': {str: float}}),
        ('[[1, 2], []]', [[int]]),
    ],
)
def test_json_of_the_expected_shape_is_returned(text, shape):
    assert parse_json(text, shape) is not None


@pytest.mark.parametrize(
    ('text', 'shape', 'message'),
    [
        ('[]', {'a': int}, 'it is a list'),
        ('{}', {'a': int}, "'a' is missing"),
        ('{"a": 1.5}', {'a': int}, "'a' is the number 1.5"),
        ('{"a": true}', {'a': int}, "'a' is true or false"),
        ('{"a": null}', {'a': (int, str)}, "'a' is null"),
        ('{"a": ["x", {}]}', {'a': [str]}, "item 1 of 'a' is an object"),
        ('{"a": {"b": "x"}}', {'a': {str: float}}, "'b' is a text"),
        ('[' * 100_000, [int], 'nested too deeply'),
        ('{"a', {}, 'Unterminated string'),
    ],
)
def test_json_of_another_shape_is_an_error_that_says_where(tmp_path, text, shape, message):
    (tmp_path / 'a.json').write_text(text)
    with pytest.raises(ValueError, match=message):
        read_json(tmp_path / 'a.json', shape)
