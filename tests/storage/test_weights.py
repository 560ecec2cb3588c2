"""Weights in safetensors files."""

import numpy as np
import pytest

from transformer_jax.storage.weights import WeightsFile, write_weights


def test_arrays_come_back_in_float32(tmp_path):
    arrays = {'a/b': np.array([[1, -2.5], [3e-39, 1e30]], np.float32), 'c': np.float32(7)}
    write_weights(tmp_path / 'w', arrays)
    file = WeightsFile(tmp_path / 'w')
    assert file.shapes == {'a/b': (2, 2), 'c': ()}
    assert set(file.dtypes.values()) == {'float32'}
    for name, array in arrays.items():
        np.testing.assert_array_equal(file.read(name), array)


def test_bfloat16_has_eight_bits_of_precision(tmp_path):
    write_weights(tmp_path / 'w', {'x': np.array([1, 1.003, 1.005], np.float32)}, 'bfloat16')
    file = WeightsFile(tmp_path / 'w')
    assert file.dtypes == {'x': 'bfloat16'}
    found = file.read('x')
    assert (found.dtype, found.tolist()) == (np.float32, [1, 1, 1.0078125])


def test_a_transposed_view_is_written_as_it_reads(tmp_path):
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    write_weights(tmp_path / 'w', {'x': array})
    np.testing.assert_array_equal(WeightsFile(tmp_path / 'w').read('x'), array)


def test_a_file_gets_the_mode_that_the_umask_leaves(tmp_path):
    write_weights(tmp_path / 'w', {'x': np.zeros(2, np.float32)})
    (tmp_path / 'other').touch()
    assert (tmp_path / 'w').stat().st_mode == (tmp_path / 'other').stat().st_mode


def test_a_text_file_is_no_safetensors_file(tmp_path):
    (tmp_path / 'w').write_text('x' * 100)
    with pytest.raises(ValueError, match=r'header'):
        WeightsFile(tmp_path / 'w')
