"""Within jax.shard_map, gradients are summed over the devices as those of any flax model."""

import jax
import jax.numpy as jnp
import numpy as np
from closeness import assert_close
from flax import linen as nn
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from tiny_model import normal, parameters, tiny

from transformer_jax.model import Encoder
from transformer_jax.training import label_smoothed_loss


class Model(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(11)(Encoder(tiny(num_layers=1))(x))


def test_gradients_of_replicated_parameters_are_summed_over_devices():
    x = normal(0, 8, 5, 8)
    targets = jnp.asarray(np.random.default_rng(0).integers(1, 11, (8, 5)))
    variables = parameters(Model(), x)

    def loss(variables, x, targets):
        return label_smoothed_loss(Model().apply(variables, x), targets, 0.1).mean()

    mesh = Mesh(np.array(jax.devices()), ('data',))
    sharded = jax.shard_map(
        jax.grad(loss), mesh=mesh, in_specs=(P(), P('data'), P('data')), out_specs=P()
    )
    found, expected = (jax.jit(f)(variables, x, targets) for f in (sharded, jax.grad(loss)))
    for one, whole in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert_close(one / len(jax.devices()), whole)
