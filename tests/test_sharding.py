import jax
import numpy as np

from transformer_jax.sharding import make_mesh, padded_rows, shard_batch


def test_the_mesh_has_all_devices():
    assert make_mesh().shape == {'data': 8}


def test_rows_are_divided_among_the_devices():
    batch = shard_batch({'source': np.arange(32).reshape(16, 2)}, make_mesh())
    assert [s.data.shape for s in batch['source'].addressable_shards] == [(2, 2)] * 8


def test_rows_that_do_not_divide_are_filled_up_with_padding():
    mesh = make_mesh(jax.devices()[:3])
    source = shard_batch({'source': np.ones((8, 2), np.int32)}, mesh)['source']
    assert padded_rows(8, mesh) == 9
    assert np.asarray(source).tolist() == [[1, 1]] * 8 + [[0, 0]]
