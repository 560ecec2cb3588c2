"""Where things that can be made again are kept."""

import errno
from pathlib import Path

import jax
import pytest

from transformer_jax.cache import (
    cache_folder,
    content_digest,
    failures_to_cache,
    keep_compiled_programs,
)
from transformer_jax.errors import UserError


def test_texts_that_only_join_alike_differ():
    assert content_digest(['ab', 'c']) != content_digest(['a', 'bc'])


def test_what_is_configured_goes_before_the_environment(monkeypatch):
    monkeypatch.setenv('TRANSFORMER_JAX_CACHE', 'of the environment')
    assert cache_folder('configured') == Path('configured')
    assert cache_folder() == Path('of the environment')


def test_where_there_is_no_home_the_variable_is_named(monkeypatch):
    def no_home(path):
        raise RuntimeError('Could not determine home directory.')

    monkeypatch.delenv('TRANSFORMER_JAX_CACHE', raising=False)
    monkeypatch.setattr(Path, 'expanduser', no_home)
    with pytest.raises(UserError, match=r'^\$TRANSFORMER_JAX_CACHE=.* no home here: give a full'):
        cache_folder()


@pytest.mark.parametrize('named', [None, 'home/cache/x', 'home'])
def test_a_cache_that_cannot_be_written_is_said(named):
    with (
        pytest.raises(UserError, match=r"^the cache 'home/cache' cannot be written \(full\): make"),
        failures_to_cache(Path('home/cache')),
    ):
        raise OSError(errno.ENOSPC, 'full', named)


def test_failures_elsewhere_are_not_the_caches():
    with pytest.raises(OSError, match='full'), failures_to_cache(Path('cache')):
        raise OSError(errno.ENOSPC, 'full', 'elsewhere')


def test_compiled_programs_stay_where_they_were_asked_for(monkeypatch, tmp_path):
    before = jax.config.jax_compilation_cache_dir
    monkeypatch.chdir(tmp_path)
    keep_compiled_programs(Path('cache'))
    chosen = jax.config.jax_compilation_cache_dir
    jax.config.update('jax_compilation_cache_dir', before)
    assert chosen == str(tmp_path / 'cache' / 'compiled')
