"""Files and streams that translations are written to."""

import contextlib
import os

import pytest

from transformer_jax.errors import UserError
from transformer_jax.terminal.line_output import open_output


def test_a_pipe_without_a_reader_is_reported():
    reading, writing = os.pipe()
    with contextlib.ExitStack() as stack, os.fdopen(writing):
        output = open_output(f'/dev/fd/{writing}', stack)
        os.close(reading)
        with pytest.raises(UserError, match=r'cannot be written \(Broken pipe\): choose another'):
            output.write(['x'], ['a'], 0)


def test_line_ends_inside_an_output_become_spaces(tmp_path):
    with contextlib.ExitStack() as stack:
        output = open_output(str(tmp_path / 'out'), stack)
        output.begin(None, '')
        output.write(['x'], ['a\rb\nc'], 0)
        output.commit()
    assert (tmp_path / 'out').read_bytes() == b'a b c\n'


def test_a_second_command_for_the_same_file_is_refused(tmp_path):
    with contextlib.ExitStack() as stack:
        first = open_output(str(tmp_path / 'out'), stack)
        (tmp_path / 'out.partial.json').write_text('{}')
        with pytest.raises(UserError, match='is being written by another command'):
            open_output(str(tmp_path / 'out'), stack)
        (tmp_path / 'out.partial.json').unlink()
        first.begin(None, '')
        first.write(['x'], ['a'], 0)
        first.commit()
    assert (tmp_path / 'out').read_text() == 'a\n'


def test_a_foreign_file_with_the_name_of_the_partial_file_is_kept(tmp_path):
    (tmp_path / 'out.partial').write_text("somebody's own")
    with (
        contextlib.ExitStack() as stack,
        pytest.raises(UserError, match=r'out\.partial.* exists already: move it'),
    ):
        open_output(str(tmp_path / 'out'), stack)
    assert (tmp_path / 'out.partial').read_text() == "somebody's own"
