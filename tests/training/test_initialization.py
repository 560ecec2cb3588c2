"""The state before step 1."""

import jax
from tiny_run import tiny

from transformer_jax.config import MeshConfig
from transformer_jax.sharding import make_mesh, state_shardings
from transformer_jax.training.initialization import initial_state

CONFIG = tiny()


def test_each_device_makes_its_part_of_the_first_state():
    mesh = make_mesh(MeshConfig(data=1, fsdp=8))
    state = initial_state(CONFIG, 400, mesh)
    assert jax.tree.map(lambda x: x.sharding, state) == state_shardings(state, mesh)
    embedding = state.params['embedding']
    assert embedding.addressable_shards[0].data.size == embedding.size // 8
