"""A folder that is complete or absent."""

import pytest

from transformer_jax.errors import UserError
from transformer_jax.storage.new_folder import NewFolder


def test_the_first_of_two_programs_keeps_the_name(tmp_path):
    folder = NewFolder(tmp_path / 'a')
    with (
        pytest.raises(UserError, match='has been made by another program meanwhile: name a new'),
        folder.writing() as partial,
    ):
        (partial / 'x').write_text('second')
        (tmp_path / 'a').mkdir()
        (tmp_path / 'a' / 'x').write_text('first')
    assert (tmp_path / 'a' / 'x').read_text() == 'first'
    assert [path.name for path in tmp_path.iterdir()] == ['a']
