"""Imported models."""

import pytest
from conversion.nearly_ours import Program, original

from transformer_jax.conversion.imported import check_import
from transformer_jax.conversion.release import write_release
from transformer_jax.errors import UserError
from transformer_jax.storage.release import Release


def test_an_import_that_computes_something_else_is_refused(tmp_path):
    model = original()
    write_release(
        tmp_path,
        config=model.config,
        vocabulary=model.vocabulary,
        params=model.params,
        name='random',
        release=Release([]),
    )
    assert '20 of 20 source pieces, 20 of 20 greedy outputs' in check_import(tmp_path, Program())
    with pytest.raises(UserError, match=r'does not compute what its original does .*: report it'):
        check_import(tmp_path, Program(error=1e-2))
