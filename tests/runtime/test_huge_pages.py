import os
import sys

import pytest

from transformer_jax.runtime import huge_pages


@pytest.fixture
def restarts(tmp_path, monkeypatch):
    """The restarts on a machine where a process has to ask for huge pages."""
    policy = tmp_path / 'enabled'
    policy.write_text('always [madvise] never\n')
    monkeypatch.setattr(huge_pages, '_POLICY', policy)
    monkeypatch.setattr(os, 'confstr', lambda _: 'glibc 2.36')
    monkeypatch.delenv('GLIBC_TUNABLES', raising=False)
    monkeypatch.setattr(sys, 'orig_argv', ['python', '-m', 'transformer_jax.main', '--help'])
    found = []
    monkeypatch.setattr(os, 'execve', lambda *call: found.append(call))
    return found


def test_the_command_starts_again_with_the_variable_set(restarts):
    huge_pages.restart_with_huge_pages()
    [(program, arguments, environment)] = restarts
    assert program == sys.executable
    assert arguments == [sys.executable, '-m', 'transformer_jax.main', '--help']
    assert environment == os.environ | {'GLIBC_TUNABLES': 'glibc.malloc.hugetlb=1'}


def test_a_setting_of_the_user_is_kept_without_a_restart(restarts, monkeypatch):
    monkeypatch.setenv('GLIBC_TUNABLES', 'glibc.malloc.tcache_count=0')
    huge_pages.restart_with_huge_pages()
    assert restarts == []


@pytest.mark.parametrize('policy', ['[always] madvise never', 'always madvise [never]'])
def test_a_policy_that_needs_no_request_causes_no_restart(restarts, policy):
    huge_pages._POLICY.write_text(policy)
    huge_pages.restart_with_huge_pages()
    assert restarts == []


def test_without_the_policy_file_there_is_no_restart(restarts, monkeypatch, tmp_path):
    monkeypatch.setattr(huge_pages, '_POLICY', tmp_path / 'missing')
    huge_pages.restart_with_huge_pages()
    assert restarts == []
