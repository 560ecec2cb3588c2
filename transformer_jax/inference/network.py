"""The models that predict together, on their devices: one Transformer, or an ensemble."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from transformer_jax.config import DecodeConfig, ModelConfig, VocabSizes
from transformer_jax.decoding import average_predictions
from transformer_jax.decoding.ensembles import ENSEMBLES
from transformer_jax.decoding.hypotheses import StepFn
from transformer_jax.errors import UserError, did_you_mean, shown
from transformer_jax.model import (
    DecodingCache,
    Transformer,
    grow_cache,
    in_compute_dtype,
    reorder_hypotheses,
    select_sentences,
    transposed_kernels,
)
from transformer_jax.runtime.program_cache import cached_jit
from transformer_jax.sharding import MeshLayout, data_mesh, state_shardings

Caches = tuple[DecodingCache, ...]


@dataclasses.dataclass(frozen=True)
class CrossAttention:
    """Which attention to the source is looked at, see `DecodeConfig.alignment_layer`.

    Attributes:
      layer: of the decoder, counted from 1; 0 is the last but one.
      heads: indices of heads, counted from 0; none stands for all.
    """

    layer: int = 0
    heads: tuple[int, ...] = ()

    @classmethod
    def of(cls, decode: DecodeConfig) -> 'CrossAttention':
        """Return the attention that a section `decode` names."""
        return cls(decode.alignment_layer, decode.heads())

    def mean(self, intermediates: Any, config: ModelConfig) -> jax.Array:
        """Return the mean weights [B, T, S] float32 of the heads.

        Args:
          intermediates: the collection that a decoder has sown.
          config: the decoder's.
        """
        index = self.layer - 1 if self.layer else max(0, config.num_layers - 2)
        layer = intermediates['decoder'][f'layer_{index}']
        weights_BNTS = layer['cross_attention']['attention_weights'][0]
        if self.heads:
            weights_BNTS = weights_BNTS[:, jnp.array(self.heads)]
        return jnp.mean(weights_BNTS, axis=1)


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """The functions of one or more models of one vocabulary; their values are arguments.

    Attributes:
      models: the Transformers, of any sizes.
      ensemble: how they are averaged, see `average_predictions`.
    """

    models: tuple[Transformer, ...]
    ensemble: str = 'probabilities'

    @property
    def max_sequence_length(self) -> int | None:
        """The greatest length that all models have positions for, or None for any."""
        lengths = [model.config.max_sequence_length for model in self.models]
        return min((length for length in lengths if length is not None), default=None)

    def start_decoding(self, variables: Sequence[Any], source: jax.Array) -> Caches:
        """Encode [B, S] int32 ids, see `Transformer.start_decoding`."""
        return tuple(
            model.apply(of_model, source, method='start_decoding')
            for model, of_model in zip(self.models, variables, strict=True)
        )

    def step_fn(self, variables: Sequence[Any], attention: CrossAttention | None = None) -> StepFn:
        """Return the step for a search.

        Args:
          variables: of each model.
          attention: what the step returns as its third value, [R, S]: the mean over the models;
            None for no third value.
        """

        def step(tokens: jax.Array, position: jax.Array, caches: Caches) -> tuple:
            logits, after, weights = [], [], []
            for model, of_model, cache in zip(self.models, variables, caches, strict=True):
                arguments = (of_model, tokens, position, cache)
                if attention is None:
                    of_step = model.apply(*arguments, method='decode_step')
                else:
                    of_step, sown = model.apply(
                        *arguments, method='decode_step', mutable=['intermediates']
                    )
                    weights.append(attention.mean(sown['intermediates'], model.config))
                logits.append(of_step[0])
                after.append(of_step[1])
            mean = average_predictions(logits, self.ensemble)
            if attention is None:
                return mean, tuple(after)
            return mean, tuple(after), _by_row(sum(weights) / len(weights))

        return step


def _by_row(x_BKS: jax.Array) -> jax.Array:
    return x_BKS.reshape(-1, x_BKS.shape[-1])


def grow(caches: Caches, length: int) -> Caches:
    """Return the caches with capacity for `length` tokens."""
    return tuple(grow_cache(cache, length) for cache in caches)


def reorder(caches: Caches, origins: jax.Array) -> Caches:
    """Return the caches after new hypotheses have replaced the old, see `reorder_hypotheses`."""
    return tuple(reorder_hypotheses(cache, origins) for cache in caches)


def select(caches: Caches, sentences: jax.Array) -> Caches:
    """Return the caches of the sentences with these indices, [b] int32."""
    return tuple(select_sentences(cache, sentences) for cache in caches)


def check_ensemble(ensemble: str) -> None:
    """Raise UserError unless `ensemble` is a way to average models."""
    if ensemble not in ENSEMBLES:
        raise UserError(
            f'ensemble={shown(ensemble)} must be one of {", ".join(ENSEMBLES)}'
            f'{did_you_mean(str(ensemble), ENSEMBLES)}'
        )


class Network:
    """Models with their parameters on the devices of a mesh.

    Attributes:
      ensemble: the models' functions.
      mesh: the devices, which divide the rows of a batch among them.
      params: each model's parameters on these devices, kernels in the dtype of their products.
      variables: what the functions of `ensemble` take.
      vocab_size: V, the size of the target side.
    """

    def __init__(
        self,
        models: Sequence[tuple[ModelConfig, Any]],
        vocab_size: int | VocabSizes,
        mesh: Mesh | None = None,
        ensemble: str = 'probabilities',
    ):
        """Put the parameters on the devices.

        Args:
          models: config and parameters (nested dicts of arrays) of each model.
          vocab_size: V of both sides, or of each.
          mesh: the devices to use; None for all devices of this process.
          ensemble: how several models are averaged, see `average_predictions`.
        """
        self.mesh = data_mesh() if mesh is None else mesh
        self.vocab_size = VocabSizes.of(vocab_size).target
        layout = MeshLayout(self.mesh)
        self.ensemble = Ensemble(
            tuple(Transformer.of(config, vocab_size, layout) for config, _ in models), ensemble
        )
        self.params = tuple(
            in_compute_dtype(config, jax.device_put(params, state_shardings(params, self.mesh)))
            for config, params in models
        )
        self.variables = tuple({'params': params} for params in self.params)
        if self.mesh.size == 1:
            for variables, (config, _) in zip(self.variables, models, strict=True):
                variables['transposed_kernels'] = _transposed(variables['params'], config=config)

    @property
    def max_sequence_length(self) -> int | None:
        """The greatest length that all models have positions for, or None for any."""
        return self.ensemble.max_sequence_length


@cached_jit(static_argnames=('config',))
def _transposed(params: Any, *, config: ModelConfig) -> Any:
    return transposed_kernels(config, params)
