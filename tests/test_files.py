"""Files that are there whole or not at all."""

import os
import time

import pytest

from transformer_jax.files import partial_path, remove_leftovers, written_whole


def test_a_file_takes_the_name_when_it_is_whole(tmp_path):
    path = tmp_path / 'a'
    path.write_text('old')
    with written_whole(path) as file:
        file.write('né')
        assert path.read_text() == 'old'
    assert path.read_bytes() == 'né'.encode()
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_what_was_there(tmp_path):
    path = tmp_path / 'a'
    path.write_text('old')
    with pytest.raises(KeyboardInterrupt), written_whole(path, 'wb') as file:
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


def test_files_that_killed_processes_left_go_with_the_next_writing(tmp_path):
    old, fresh = partial_path(tmp_path / 'a'), partial_path(tmp_path / 'a')
    own = tmp_path / 'a.partial-by-me'
    for path in (old, fresh, own):
        path.write_text('half')
    for path in (old, own):
        os.utime(path, (YESTERDAY, YESTERDAY))
    with written_whole(tmp_path / 'a') as file:
        file.write('whole')
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / 'a', fresh, own])
