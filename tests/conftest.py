"""Every test sees eight CPU devices, strict shapes, and a cache folder of its own."""

import os

os.environ.setdefault('JAX_PLATFORMS', 'cpu')  # before jax chooses a backend
# A third of the tests' time went into optimising programs that run for milliseconds.
os.environ['XLA_FLAGS'] = os.environ.get('XLA_FLAGS', '') + ' --xla_backend_optimization_level=0'

import jax
import pytest

jax.config.update('jax_num_cpu_devices', 8)
# A [D] silently added to a [B, D] is how a transposed axis goes unnoticed.
jax.config.update('jax_numpy_rank_promotion', 'raise')


@pytest.fixture(scope='session', autouse=True)
def _own_cache(tmp_path_factory):
    """Keeps the tests out of the user's cache, and the user's cache out of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('TRANSFORMER_JAX_CACHE', str(tmp_path_factory.mktemp('cache')))
        yield
