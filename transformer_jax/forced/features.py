"""The encoder's outputs as features of texts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from transformer_jax.data.batching.token_store import sentences_from
from transformer_jax.inference.network import Ensemble, Network
from transformer_jax.inference.sorted_batches import rows_of, sorted_batches, usual_positions
from transformer_jax.runtime.program_cache import cached_jit
from transformer_jax.sharding import shard_whole_batch


class Features(NamedTuple):
    """The encoder's outputs for B texts; S is the number of tokens of the longest.

    Attributes:
      states: [B, S, D] float32, a vector for each token, EOS included; zeros at padding.
      mask: [B, S] bool, True at the tokens of each text.
      tokens: [B, S] int32 ids, 0 at padding.
    """

    states: np.ndarray
    mask: np.ndarray
    tokens: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """[B] int, the number of tokens of each text."""
        return self.mask.sum(axis=1)

    def mean(self) -> np.ndarray:
        """Return [B, D] float32, the mean vector of each text's tokens."""
        return self.states.sum(axis=1) / self.lengths[:, None].astype(np.float32)


def encode(network: Network, sentences: Sequence[np.ndarray]) -> Features:
    """Return the outputs of the first model's encoder.

    Args:
      network: the models on their devices.
      sentences: int32 ids that end with EOS.
    """
    packed = sentences_from(sentences)
    lengths = packed.lengths
    longest = int(lengths.max(initial=0))
    tokens = packed.padded(np.arange(len(sentences)), longest)
    mask = np.arange(longest)[None] < lengths[:, None]
    width = network.ensemble.models[0].config.d_model
    states = np.zeros((len(sentences), longest, width), np.float32)
    most = network.max_sequence_length
    for ids, batch in sorted_batches({'source': packed}, positions=usual_positions(), most=most):
        batch = shard_whole_batch(batch, network.mesh)
        found = jax.device_get(_encode(network.variables, batch, ensemble=network.ensemble))
        for index, states_SD in rows_of(ids, found):
            states[index, : len(states_SD)] = states_SD[:longest]
    states[~mask] = 0.0
    return Features(states, mask, tokens)


@cached_jit(static_argnames=('ensemble',))
def _encode(
    variables: Sequence[Any], batch: dict[str, jax.Array], *, ensemble: Ensemble
) -> jax.Array:
    """Return [B, S, D] float32, replicated, so that every process can read all of it."""
    model = ensemble.models[0]
    states_BSD = model.apply(variables[0], batch['source'], method='encode')
    return model.layout(states_BSD.astype(jnp.float32), '---')
