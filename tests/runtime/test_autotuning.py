"""Kernels that XLA has chosen: read once in a process, never replaced."""

from pathlib import Path

import jax
import pytest

from transformer_jax.runtime import autotuning
from transformer_jax.runtime.autotuning import chosen_kernels, use_kernels


@pytest.fixture
def files(monkeypatch):
    """The texts of the files that XLA has read; it writes 'chosen'."""
    read = []

    def compile_nothing(option, path):
        if 'dump' in option:
            Path(path).write_text('chosen')
        else:
            read.append(Path(path).read_text())

    monkeypatch.setattr(autotuning, '_compile_nothing', compile_nothing)
    monkeypatch.setattr(autotuning, '_known', set())
    return read


def test_kernels_are_read_once_in_a_process(files):
    use_kernels('stored')
    use_kernels('stored')
    assert files == ['stored']


def test_kernels_that_xla_has_just_chosen_are_not_read(files):
    use_kernels(chosen_kernels())
    assert files == []


def test_other_kernels_are_refused_once_xla_has_some(files):
    use_kernels('stored')
    with pytest.raises(ValueError, match='has other kernels'):
        use_kernels('of another run')
    assert files == ['stored']


def test_kernels_that_xla_does_not_take_are_a_value_error(files, monkeypatch):
    def refuse(option, path):
        raise jax.errors.JaxRuntimeError('INTERNAL: Duplicate autotuning result')

    monkeypatch.setattr(autotuning, '_compile_nothing', refuse)
    with pytest.raises(ValueError, match='Duplicate'):
        use_kernels('stored')


def test_xla_knows_both_options(tmp_path):
    for option in ('xla_gpu_dump_autotune_results_to', 'xla_gpu_load_autotune_results_from'):
        autotuning._compile_nothing(option, tmp_path / 'kernels.txtpb')
    with pytest.raises(jax.errors.JaxRuntimeError, match='xla_no_such_option'):
        autotuning._compile_nothing('xla_no_such_option', tmp_path)
