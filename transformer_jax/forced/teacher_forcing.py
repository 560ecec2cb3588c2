"""What models predict for given outputs: one pass over all their tokens at once."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from transformer_jax.data.batching.buckets import ROW_MULTIPLE, padded_lengths
from transformer_jax.data.batching.token_store import sentences_from
from transformer_jax.decoding import average_predictions
from transformer_jax.errors import UserError
from transformer_jax.inference.network import CrossAttention, Ensemble, Network
from transformer_jax.inference.sorted_batches import rows_of, sorted_batches, usual_positions
from transformer_jax.model import shift_right
from transformer_jax.model.embedder import OutputWeights, logits
from transformer_jax.runtime import memory
from transformer_jax.runtime.program_cache import cached_jit
from transformer_jax.sharding import shard_whole_batch

# Positions that have logits at the same time: these take more memory than all else.
_CHUNK = {'cpu': 512}
_ACCELERATOR_CHUNK = 8192
_REMEDY = 'shorten it, or remove it.'


class TeacherForcing:
    """Runs models over pairs of a source and a given output, in batches of similar length.

    Attributes:
      network: the models on their devices.
      positions: tokens of a batch, for each side.
      max_rows: the greatest number of rows of a batch; None for no limit.
    """

    def __init__(self, network: Network, positions: int | None = None):
        """Prepare batches for the devices of `network`; compile nothing.

        Args:
          network: the models on their devices.
          positions: tokens of a batch, for each side; None takes what suits the devices.
        """
        self.network = network
        self.positions = usual_positions() if positions is None else positions
        self.max_rows: int | None = None
        self._memory_check = memory.MemoryCheck(network.mesh.local_devices[0])

    def log_probs(
        self,
        sources: Sequence[np.ndarray],
        targets: Sequence[np.ndarray],
        numbers: Sequence[int] | None = None,
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the log-probabilities of each output's tokens, the longest pairs first.

        Args:
          sources: int32 ids of each source, which end with EOS.
          targets: int32 ids of each output, which end with EOS.
          numbers: the line number of each pair, for error messages; None counts from 1.

        Yields:
          The index of a pair, and [T] float32, nats for each token of its output, EOS included.

        Raises:
          UserError: if a pair is too long for learned positions or for the memory of a device.
        """
        for index, found_TX in self.run(_log_probs, {}, sources, targets, numbers):
            yield index, found_TX[: len(targets[index])]

    def attention(
        self,
        sources: Sequence[np.ndarray],
        targets: Sequence[np.ndarray],
        attention: CrossAttention,
        numbers: Sequence[int] | None = None,
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the cross attention of each output, the longest pairs first.

        Args:
          sources: as for `log_probs`.
          targets: as for `log_probs`.
          attention: the layer and its heads.
          numbers: as for `log_probs`.

        Yields:
          The index of a pair, and [T, S] float32, the mean over heads and models. Row t is the step
          that predicts token t of the output; the columns are the tokens of the source.

        Raises:
          UserError: as `log_probs`.
        """
        static = {'attention': attention}
        for index, found_TS in self.run(_attention, static, sources, targets, numbers):
            yield index, found_TS[: len(targets[index]), : len(sources[index])]

    def run(
        self,
        program: Callable,
        static: dict[str, Any],
        sources: Sequence[np.ndarray],
        targets: Sequence[np.ndarray],
        numbers: Sequence[int] | None,
    ) -> Iterator[tuple[int, Any]]:
        """Yield the index of each pair and its rows of the arrays that `program` returns.

        Args:
          program: a function of the models' variables and a batch of 'source' and 'target', [B, L]
            int32 each, with the static argument `ensemble`; its arrays begin with the axis B.
          static: further static arguments.
          sources: as for `log_probs`.
          targets: as for `log_probs`.
          numbers: as for `log_probs`.

        Raises:
          UserError: as `log_probs`.
        """
        sides = {'source': sentences_from(sources), 'target': sentences_from(targets)}
        lengths = np.maximum(sides['source'].lengths, sides['target'].lengths)
        most = self.network.max_sequence_length
        static = {'ensemble': self.network.ensemble, **static}
        shapes = {'positions': self.positions, 'most': most, 'max_rows': self.max_rows}
        for ids, batch in sorted_batches(sides, **shapes):
            longest = ids[0]
            number = longest + 1 if numbers is None else numbers[longest]
            name = f'line {number}, a pair with {lengths[longest]:,} tokens'
            if most is not None and lengths[longest] > most:
                raise UserError(
                    f'model.max_positions={most}: too few learned positions for {name}: {_REMEDY}'
                )
            yield from rows_of(ids, self._run_batch(program, static, batch, name))

    def fix_shapes(self, longest: int) -> list[np.ndarray]:
        """Use few shapes from now on; return ids that need each of those up to `longest` tokens."""
        self.max_rows = ROW_MULTIPLE
        lengths = padded_lengths(longest, self.network.max_sequence_length)
        return [np.ones(length, np.int32) for length in lengths]

    def _run_batch(
        self, program: Callable, static: dict[str, Any], batch: dict[str, np.ndarray], name: str
    ) -> Any:
        arguments = self.network.variables, shard_whole_batch(batch, self.network.mesh)
        shape = batch['source'].shape
        if shape[1] >= memory.CHECK_FROM_TOKENS:
            self._memory_check.check(
                (id(program), *shape),
                lambda: [program.lower(*arguments, **static)],
                f'{name},',
                _REMEDY,
            )
        return jax.device_get(program(*arguments, **static))


@cached_jit(static_argnames=('ensemble',))
def _log_probs(
    variables: Sequence[Any], batch: dict[str, jax.Array], *, ensemble: Ensemble
) -> jax.Array:
    """Return [B, T] float32, the log-probability of each token of the targets."""
    source, target_BT = batch['source'], batch['target']
    inputs_BT = shift_right(target_BT)
    found = [
        model.apply(of_model, source, inputs_BT, method='decoder_states')
        for model, of_model in zip(ensemble.models, variables, strict=True)
    ]
    states, weights = zip(*found, strict=True)
    layout = ensemble.models[0].layout
    rows, length = target_BT.shape
    most = _CHUNK.get(jax.default_backend(), _ACCELERATOR_CHUNK)
    # A chunk has some positions of all rows, so that each device works on its own rows. C: chunks.
    chunks = min(length, math.ceil(rows * length / most))
    size = math.ceil(length / chunks)

    def split(x_BT: jax.Array) -> jax.Array:
        missing = chunks * size - length
        x_BT = jnp.pad(x_BT, ((0, 0), (0, missing), *[(0, 0)] * (x_BT.ndim - 2)))
        x_BCT = x_BT.reshape(rows, chunks, size, *x_BT.shape[2:])
        return layout(x_BCT.swapaxes(0, 1), '-B' + '-' * (x_BT.ndim - 1))

    def of_chunk(chunk: tuple[Sequence[jax.Array], jax.Array]) -> jax.Array:
        states, target_BT = chunk
        return target_log_probs(_predictions(ensemble, states, weights), target_BT)

    log_probs_CBT = jax.lax.map(of_chunk, (tuple(map(split, states)), split(target_BT)))
    log_probs_BT = log_probs_CBT.swapaxes(0, 1).reshape(rows, -1)[:, :length]
    # Replicate the results, so that every process can read all of them.
    return layout(log_probs_BT, '--')


def _predictions(
    ensemble: Ensemble, states: Sequence[jax.Array], weights: Sequence[OutputWeights]
) -> jax.Array:
    """Return [B, T, V] logits of the models together."""
    of_models = [
        logits(x_BTD, of_model, model.layout)
        for model, x_BTD, of_model in zip(ensemble.models, states, weights, strict=True)
    ]
    return average_predictions(of_models, ensemble.ensemble)


def target_log_probs(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Return the log-probability of each target.

    Args:
      logits: [B, T, V], not necessarily normalised.
      targets: [B, T] int32 ids, from 0 to V - 1.

    Returns:
      [B, T] float32, nats.
    """
    logits_BTV = logits.astype(jnp.float32)
    chosen_BT = jnp.take_along_axis(logits_BTV, targets[..., None], axis=-1)[..., 0]
    # No array of all log-probabilities: it would be as large as the logits.
    return chosen_BT - jax.nn.logsumexp(logits_BTV, axis=-1)


@cached_jit(static_argnames=('ensemble', 'attention'))
def _attention(
    variables: Sequence[Any],
    batch: dict[str, jax.Array],
    *,
    ensemble: Ensemble,
    attention: CrossAttention,
) -> jax.Array:
    """Return [B, T, S] float32, the mean cross attention of the models."""
    source, inputs_BT = batch['source'], shift_right(batch['target'])
    weights_BTS = []
    for model, of_model in zip(ensemble.models, variables, strict=True):
        _, sown = model.apply(
            of_model, source, inputs_BT, method='decoder_states', mutable=['intermediates']
        )
        weights_BTS.append(attention.mean(sown['intermediates'], model.config))
    return ensemble.models[0].layout(sum(weights_BTS) / len(weights_BTS), '---')
