"""What our own model computes, with which the results of other programs are compared."""

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from transformer_jax.conversion.original import Original
from transformer_jax.inference.outputs import Translation
from transformer_jax.model import Transformer, shift_right
from transformer_jax.translator import Translator

_MULTIPLE = 32  # of lengths, because each length is compiled


class Reference:
    """Our model in float32.

    Attributes:
      original: the model.
      translator: translates with it.
    """

    def __init__(self, original: Original):
        """Put the parameters on the devices."""
        self.original = original
        model = dataclasses.replace(
            original.config.model, dtype='float32', attention_implementation='xla'
        )
        config = dataclasses.replace(original.config, model=model)
        self._module = Transformer.of(model, original.vocabulary.sizes)
        self.translator = Translator(config, original.vocabulary, original.params)
        self._params = jax.device_put(original.params, jax.local_devices()[0])

    def logits(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return the logits [T, V] of each token of a target.

        Args:
          source: [S] int32 ids.
          target: [T] int32 ids.
        """
        ids = [_padded(x) for x in (source, target)]
        return np.asarray(self._apply(self._params, *ids)[0, : len(target)])

    @functools.cached_property
    def _apply(self):
        def logits(params, source_BS, target_BT):
            # The default of accelerators is less precise.
            with jax.default_matmul_precision('highest'):
                return self._module.apply({'params': params}, source_BS, shift_right(target_BT))

        return jax.jit(logits)

    def greedy(self, sources: Sequence[str]) -> list[Translation]:
        """Return the output of greedy search for each text, without constraints."""
        with jax.default_matmul_precision('highest'):
            found = self.translator.translate(
                sources,
                beam_size=1,
                coverage_penalty=0.0,
                min_length=0,
                no_repeat_ngram=0,
                suppress_tokens='',
                max_source_length=0,
            )
        return [best for best, *_ in found]


def log_probs_without_padding(logits: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the log-probability of each token, if padding has probability 0.

    Args:
      logits: [T, V].
      target: [T] int32 ids.

    Returns:
      [T] float32, nats.
    """
    log_probs_TV = jax.nn.log_softmax(jnp.asarray(logits).at[:, 0].set(-jnp.inf), axis=-1)
    return np.asarray(log_probs_TV)[np.arange(len(target)), target]


def _padded(ids: np.ndarray) -> np.ndarray:
    """Return [1, T] ids, padded."""
    return np.pad(ids, (0, -len(ids) % _MULTIPLE))[None]
