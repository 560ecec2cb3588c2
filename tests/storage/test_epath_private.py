"""etils.epath still has what it has no public name for."""

import importlib.metadata
import importlib.util

from etils import epath

from transformer_jax.storage import epath_private


def test_epath_can_decide_again_whether_it_reads_buckets_through_tensorflow(monkeypatch):
    decision = getattr(epath.gpath, '_is_tf_installed', None)
    assert hasattr(decision, 'cache_clear'), (
        f'etils {importlib.metadata.version("etils")} has no cached epath.gpath._is_tf_installed '
        'any more: mend storage/epath_private.py'
    )
    has_tensorflow = importlib.util.find_spec('tensorflow') is not None
    for variable, decided in (('1', has_tensorflow), ('0', False)):
        monkeypatch.setenv('EPATH_USE_TF', variable)
        epath_private.decide_again()
        assert decision() == decided
