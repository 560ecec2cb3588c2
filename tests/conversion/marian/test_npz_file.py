"""Files of arrays from others: what is damaged or too large is refused before it is read."""

import zipfile

import numpy as np
import pytest

from transformer_jax.conversion.marian.npz_file import NpzFile
from transformer_jax.errors import UserError


def write(path, header, data=b'', way=zipfile.ZIP_STORED):
    """Write a file with an array x of a given header."""
    content = b'\x93NUMPY\1\0' + len(header).to_bytes(2, 'little') + header.encode() + data
    with zipfile.ZipFile(path, 'w', way) as file:
        file.writestr('x.npy', content)


@pytest.mark.parametrize('order', ['C', 'F'])
def test_arrays_are_read_as_numpy_wrote_them(tmp_path, order):
    array = np.arange(6, dtype=np.float16).reshape(2, 3, order=order)
    np.savez(tmp_path / 'x.npz', x=array)
    file = NpzFile(tmp_path / 'x.npz')
    assert file.shapes == {'x': (2, 3)}
    np.testing.assert_array_equal(file.read('x'), array)


@pytest.mark.parametrize('shape', ['(10000000000, 8)', '(-1, 8)', '(3,)', '(2', 'x', '(' * 500])
def test_a_shape_that_does_not_fit_is_refused(tmp_path, shape):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    write(tmp_path / 'x.npz', header, bytes(8))
    with pytest.raises(UserError, match=r'x.npz.* cannot be read as a file of arrays .*again'):
        NpzFile(tmp_path / 'x.npz')


def test_arrays_that_are_much_larger_than_their_file_are_refused(tmp_path):
    np.savez_compressed(tmp_path / 'x.npz', x=np.zeros(10**6, np.float32))
    with pytest.raises(UserError, match=r'its arrays would be 4,000,128 bytes'):
        NpzFile(tmp_path / 'x.npz')


def test_an_encrypted_file_is_refused(tmp_path):
    np.savez(tmp_path / 'x.npz', x=np.zeros(3, np.float32))
    content = bytearray((tmp_path / 'x.npz').read_bytes())
    content[6] = content[content.index(b'PK\1\2') + 8] = 1  # the flag that says so
    (tmp_path / 'x.npz').write_bytes(content)
    with pytest.raises(UserError, match='encrypted'):
        NpzFile(tmp_path / 'x.npz')


def test_one_array_without_a_file_of_arrays_is_refused(tmp_path):
    with open(tmp_path / 'x.npz', 'wb') as file:
        np.save(file, np.zeros(3, np.float32))
    with pytest.raises(UserError, match='cannot be read as a file of arrays'):
        NpzFile(tmp_path / 'x.npz')
