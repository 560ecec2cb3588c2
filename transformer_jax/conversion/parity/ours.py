"""Our own model, asked what other programs are asked."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from transformer_jax.config import Config
from transformer_jax.conversion.parity.peer import Output, Pieces
from transformer_jax.conversion.piece_tables import piece_table
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.forced.teacher_forcing import TeacherForcing, target_log_probs
from transformer_jax.inference.network import Ensemble, Network
from transformer_jax.inference.sorted_batches import ATTENTION_POSITIONS
from transformer_jax.model import shift_right
from transformer_jax.runtime.program_cache import cached_jit
from transformer_jax.sharding import make_mesh
from transformer_jax.translating.segment_translator import SegmentTranslator


class Ours:
    """Our model in float32, on one device; see `peer.Peer`.

    Attributes:
      config: of the model.
      vocabulary: vocabularies of both sides.
      translator: translates with the model.
    """

    def __init__(
        self, config: Config, vocabulary: VocabularyPair, params: Any, mesh: Mesh | None = None
    ):
        """Put the parameters on the device.

        Args:
          config: of the model.
          vocabulary: vocabularies of both sides.
          params: nested dicts of float32 arrays.
          mesh: of one device; None for the first of this process.
        """
        model = dataclasses.replace(
            config.model,
            dtype='float32',
            activation_dtype='float32',
            attention_implementation='xla',
            remat=False,
        )
        self.config, self.vocabulary = dataclasses.replace(config, model=model), vocabulary
        # Few rows are computed at a time, which several devices could not divide.
        mesh = mesh or make_mesh(devices=jax.local_devices()[:1])
        network = Network([(model, params)], vocabulary.sizes, mesh)
        self.translator = SegmentTranslator(network, vocabulary, config.data)
        # All logits of a batch are in memory together.
        self._forced = TeacherForcing(network, ATTENTION_POSITIONS)
        self._tables = [piece_table(side) for side in (vocabulary.source, vocabulary.target)]
        self._ids = [{piece: k for k, piece in enumerate(table)} for table in self._tables]

    def source_pieces(self, texts: Sequence[str]) -> list[Pieces]:
        """See `Peer`."""
        return [self._pieces(0, ids) for ids in self.vocabulary.source.encode(texts)]

    def target_pieces(self, texts: Sequence[str]) -> list[Pieces]:
        """Return the pieces of texts in the language of the outputs."""
        return [self._pieces(1, ids) for ids in self.vocabulary.target.encode(texts)]

    def search(
        self,
        sources: Sequence[Pieces],
        beam_size: int,
        limit: int | None,
        *,
        prefix: Pieces = (),
    ) -> list[Output]:
        """Return the best output of each source, see `Peer`.

        Args:
          sources: pieces of each source.
          beam_size: 1 is greedy search.
          limit: least number of tokens at which the search may end; None for the model's limit.
          prefix: the first pieces of each output.
        """
        decode = dataclasses.replace(self.config.decode, beam_size=beam_size)
        if limit is not None:
            decode = dataclasses.replace(decode, max_extra_length=limit)
        # The same sentence may be given for several programs.
        ids = {source: self._to_ids(0, source) for source in sources}
        prefixes = [self._to_ids(1, prefix)[:-1]] * len(ids)
        options = self.translator.search_options(decode)
        with _precise():
            results = self.translator.decoder([*ids.values()], options, prefixes=prefixes)
            found = {
                result.index: Output(self._pieces(1, result.tokens[0]), float(result.scores[0]))
                for result in results
            }
        outputs = {source: found[k] for k, source in enumerate(ids)}
        return [outputs[source] for source in sources]

    def values(
        self, sources: Sequence[Pieces], outputs: Sequence[Pieces]
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yield all that a `Peer` may tell, with logits [T, V], the longest pairs first."""
        source_ids = [self._to_ids(0, source) for source in sources]
        target_ids = [self._to_ids(1, output) for output in outputs]
        for k, arrays in self._forced.run(_values, {}, source_ids, target_ids, None):
            yield {
                name: x[: len(source_ids[k] if name == 'encoder' else target_ids[k])]
                for name, x in arrays.items()
            }

    def score(self, log_probs: np.ndarray) -> float:
        """Return the score of an output, for length_norm='power', from log-probabilities [T]."""
        return float(np.sum(log_probs) / len(log_probs) ** self.config.decode.length_penalty)

    def text(self, pieces: Sequence[str]) -> str:
        """See `Peer`."""
        return self.vocabulary.target.decode(self._to_ids(1, pieces).tolist())

    def _pieces(self, side: int, ids: np.ndarray) -> Pieces:
        """Return the pieces of ids, which EOS ends if the search has not been cut."""
        ids = ids.tolist()
        end = ids.index(self.vocabulary.eos_id) if self.vocabulary.eos_id in ids else len(ids)
        return tuple(self._tables[side][k] for k in ids[:end])

    def _to_ids(self, side: int, pieces: Sequence[str]) -> np.ndarray:
        ids = [*(self._ids[side][piece] for piece in pieces), self.vocabulary.eos_id]
        return np.array(ids, np.int32)


def _precise() -> contextlib.AbstractContextManager:
    # The default of accelerators is less precise.
    return jax.default_matmul_precision('highest')


@cached_jit(static_argnames=('ensemble',))
def _values(
    variables: Sequence[Any], batch: dict[str, jax.Array], *, ensemble: Ensemble
) -> dict[str, jax.Array]:
    """Return the arrays of `Ours.values`, with an axis B before the others."""
    (model,), (of_model,) = ensemble.models, variables
    source, target_BT = batch['source'], batch['target']
    with _precise():
        encoder_BSD = model.apply(of_model, source, method='encode')
        logits_BTV = model.apply(of_model, source, shift_right(target_BT))
    without_padding = logits_BTV.at[..., 0].set(-jnp.inf)
    return {
        'encoder': encoder_BSD,
        'logits': logits_BTV,
        'log-probabilities': target_log_probs(logits_BTV, target_BT),
        'log-probabilities without padding': target_log_probs(without_padding, target_BT),
    }
