import os
import sys

import pytest

from transformer_jax.runtime import huge_pages


@pytest.fixture
def restarts(tmp_path, monkeypatch):
    """A machine on which huge pages have to be asked for, and the restarts that there were."""
    policy = tmp_path / 'enabled'
    policy.write_text('always [madvise] never\n')
    monkeypatch.setattr(huge_pages, '_POLICY', policy)
    monkeypatch.setattr(os, 'confstr', lambda _: 'glibc 2.36')
    monkeypatch.delenv('GLIBC_TUNABLES', raising=False)
    monkeypatch.setattr(sys, 'orig_argv', ['python', '-m', 'transformer_jax.main', '--help'])
    found = []
    monkeypatch.setattr(os, 'execve', lambda *call: found.append(call))
    return found


def test_the_same_command_starts_again_with_the_variable(restarts):
    huge_pages.restart_with_huge_pages()
    [(program, arguments, environment)] = restarts
    assert program == sys.executable
    assert arguments == [sys.executable, '-m', 'transformer_jax.main', '--help']
    assert environment == os.environ | {'GLIBC_TUNABLES': 'glibc.malloc.hugetlb=1'}


def test_once_is_enough_and_the_users_own_setting_stays(restarts, monkeypatch):
    monkeypatch.setenv('GLIBC_TUNABLES', 'glibc.malloc.tcache_count=0')
    huge_pages.restart_with_huge_pages()
    assert restarts == []


@pytest.mark.parametrize('policy', ['[always] madvise never', 'always madvise [never]'])
def test_where_asking_changes_nothing_it_goes_on(restarts, policy):
    huge_pages._POLICY.write_text(policy)
    huge_pages.restart_with_huge_pages()
    assert restarts == []


def test_elsewhere_it_goes_on(restarts, monkeypatch, tmp_path):
    monkeypatch.setattr(huge_pages, '_POLICY', tmp_path / 'missing')
    huge_pages.restart_with_huge_pages()
    assert restarts == []
