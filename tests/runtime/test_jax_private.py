"""JAX still has what it has no public name for."""

import jax
import jax.numpy as jnp

from transformer_jax.runtime import jax_private


def test_one_process_has_no_client_of_the_coordination_service():
    assert jax_private.coordination_client() is None


def test_a_program_names_its_devices():
    device = jax.devices()[1]
    x = jax.device_put(jnp.zeros(2), device)
    assert jax_private.device_ids(jax.jit(jnp.sin).lower(x).compile()) == [device.id]


def test_the_options_are_those_of_this_process():
    assert jax_private.options()['jax_numpy_rank_promotion'] == 'raise'


def test_the_folder_of_the_cache_can_be_forgotten():
    jax_private.forget_cache_folder()
