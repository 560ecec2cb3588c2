"""What our own model computes, with which the results of other programs are compared."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from transformer_jax.conversion.original import Original
from transformer_jax.model import Transformer, shift_right

_ROWS = 4  # sentences of a batch, all of whose logits are in memory
_MULTIPLE = 32  # of lengths


class Reference:
    """Our model in float32, on one device, for sentences of limited length.

    Attributes:
      length: the greatest number of tokens of a sentence.
    """

    def __init__(self, original: Original, length: int):
        """Put the parameters on the device.

        Args:
          original: the model.
          length: the greatest number of tokens of a sentence. The program is compiled for it.
        """
        model = dataclasses.replace(
            original.config.model, dtype='float32', attention_implementation='xla'
        )
        most = model.max_sequence_length
        self.length = min(length + -length % _MULTIPLE, most or length + _MULTIPLE)
        self._module = Transformer.of(model, original.vocabulary.sizes)
        self._params = jax.device_put(original.params, jax.local_devices()[0])

    def logits(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return the logits [T, V] of each token of a target.

        Args:
          source: [S] int32 ids.
          target: [T] int32 ids.
        """
        logits_BTV, _ = self._run([source], [target])
        return np.asarray(logits_BTV[0, : len(target)])

    def gaps(self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]) -> list[float]:
        """Return how far each target is from what greedy search would choose.

        That is the largest difference, over its tokens, of the logit of the best token and that of
        its own token; 0 if greedy search gives this target.

        Args:
          sources: [S] int32 ids of each sentence.
          targets: [T] int32 ids of each sentence.
        """
        found = []
        for k in range(0, len(sources), _ROWS):
            batch = targets[k : k + _ROWS]
            _, gaps_BT = self._run(sources[k : k + _ROWS], batch)
            rows = zip(np.asarray(gaps_BT), batch, strict=False)
            found += [float(np.max(row_T[: len(target)], initial=0)) for row_T, target in rows]
        return found

    def _run(
        self, sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]
    ) -> tuple[jax.Array, jax.Array]:
        """Return logits [B, T, V], and by how much the best token's is greater, [B, T]."""
        ids = np.zeros((2, _ROWS, self.length), np.int32)
        for side, sentences in enumerate((sources, targets)):
            for row, of_row in enumerate(sentences):
                ids[side, row, : len(of_row)] = of_row
        return self._program(self._params, *ids)

    @functools.cached_property
    def _program(self) -> Callable[..., tuple[jax.Array, jax.Array]]:
        def program(params, source_BS, target_BT):
            inputs_BT = shift_right(target_BT)
            # The default of accelerators is less precise.
            with jax.default_matmul_precision('highest'):
                logits_BTV = self._module.apply({'params': params}, source_BS, inputs_BT)
            best_BT = jnp.max(logits_BTV[..., 1:], axis=-1)  # padding is no choice
            own_BT1 = jnp.take_along_axis(logits_BTV, target_BT[..., None], axis=-1)
            return logits_BTV, best_BT - own_BT1[..., 0]

        return jax.jit(program)


def log_probs_without_padding(logits: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the log-probability of each token, if padding has probability 0.

    Args:
      logits: [T, V].
      target: [T] int32 ids.

    Returns:
      [T] float32, nats.
    """
    logits_TV = logits[:, 1:].astype(np.float64)
    highest_T1 = logits_TV.max(axis=-1, keepdims=True)
    total_T = np.log(np.sum(np.exp(logits_TV - highest_T1), axis=-1)) + highest_T1[:, 0]
    return (logits[np.arange(len(target)), target] - total_T).astype(np.float32)
