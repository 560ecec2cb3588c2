"""The loss of a set of sentence pairs. No pair is left out, however long."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from transformer_jax.data.batching.token_store import Sentences, sentences_from
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError
from transformer_jax.inference.sorted_batches import LOSS_POSITIONS, sorted_batches
from transformer_jax.inference.source_cut import cut_source
from transformer_jax.model import Transformer
from transformer_jax.runtime import memory, signals
from transformer_jax.runtime.program_cache import cached_jit
from transformer_jax.sharding import shard_whole_batch
from transformer_jax.training.step import eval_step

if TYPE_CHECKING:
    from transformer_jax.translator import Translator

_eval_step = cached_jit(static_argnames=('model', 'label_smoothing'))(eval_step)


def perplexity(nats: float) -> float:
    """Return exp(nats), or infinity if that overflows."""
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf


class CorpusLoss(NamedTuple):
    """Means over target tokens.

    Attributes:
      loss: label-smoothed cross-entropy, nats per token.
      nll: negative log-likelihood, nats per token.
      perplexity: exp(nll), per token of the target vocabulary.
      tokens: number of target tokens, including EOS.
    """

    loss: float
    nll: float
    perplexity: float
    tokens: int


class _Encoded(NamedTuple):
    """Sentence pairs as token ids, and the length of the longer side of each pair."""

    source: Sentences
    target: Sentences
    lengths: np.ndarray


class LossEvaluator:
    """Measures the loss of sentence pairs, without dropout.

    Attributes:
      model: the Transformer.
      vocabulary: the vocabularies of both sides.
      label_smoothing: eps of the smoothed loss.
      mesh: the devices, which share the rows of a batch.
      source_limit: tokens to which longer sources are cut, EOS included, as the search does, which
        says so; 0 is no limit. No target is cut.
    """

    def __init__(
        self,
        model: Transformer,
        vocabulary: VocabularyPair,
        label_smoothing: float,
        mesh: Mesh,
        source_limit: int = 0,
    ):
        self.model, self.vocabulary = model, vocabulary
        self.label_smoothing, self.mesh = label_smoothing, mesh
        self.source_limit = source_limit
        self._long_lines = memory.MemoryCheck(mesh.local_devices[0])

    def __call__(self, params: Any, pairs: Sequence[tuple[str, str]]) -> CorpusLoss:
        """Return the loss of `pairs`.

        Args:
          params: the model's parameters, on the devices of the mesh.
          pairs: source and target texts, at least one pair.

        Raises:
          UserError: if a pair is too long for the memory of a device or for learned positions.
        """
        loss = nll = tokens = 0.0
        for batch in self._batches(self.check(params, pairs)):
            sums = self._sums(params, batch)
            # Added on the host in double precision.
            loss, nll, tokens = (
                a + float(b) for a, b in zip((loss, nll, tokens), sums, strict=True)
            )
        return CorpusLoss(loss / tokens, nll / tokens, perplexity(nll / tokens), int(tokens))

    def prepare(self, params: Any, pairs: Sequence[tuple[str, str]]) -> None:
        """Compile all that measuring `pairs` runs, by running one batch of each shape."""
        shapes = {batch['source'].shape: batch for batch in self._batches(self._encoded(pairs))}
        for batch in shapes.values():
            signals.stop_if_requested()
            jax.block_until_ready(self._sums(params, batch))

    def check(
        self, params: Any, pairs: Sequence[tuple[str, str]], of: str = 'this set'
    ) -> '_Encoded':
        """Raise UserError if one of `pairs` is too long for learned positions or for the memory."""
        encoded = self._encoded(pairs)
        longest = int(np.argmax(encoded.lengths))
        length, reach = encoded.lengths[longest], self.model.config.max_sequence_length
        name = (
            f'pair {longest + 1} of {of}, which starts with {pairs[longest][0][:40]!r} and has '
            f'{length} tokens'
        )
        remedy = 'shorten it, or remove it.'
        if reach is not None and length > reach:
            raise UserError(
                f'model.max_positions={reach}: too few learned positions for {name}: {remedy}'
            )
        batch = next(self._batches(encoded))  # the longest pair, alone if it is long
        shape = batch['source'].shape
        if shape[1] >= memory.CHECK_FROM_TOKENS:
            self._long_lines.check(
                shape,
                lambda: [self._sums(params, batch, run=_eval_step.lower)],
                f'{name},',
                remedy,
            )
        return encoded

    def _sums(self, params: Any, batch: dict[str, np.ndarray], run: Callable = _eval_step) -> Any:
        batch = shard_whole_batch(batch, self.mesh)
        return run(params, batch, model=self.model, label_smoothing=self.label_smoothing)

    def _encoded(self, pairs: Sequence[tuple[str, str]]) -> '_Encoded':
        sources, targets = zip(*pairs, strict=True)
        encoded = self.vocabulary.source.encode(sources)
        source = sentences_from([cut_source(ids, self.source_limit) for ids in encoded])
        target = sentences_from(self.vocabulary.target.encode(targets))
        return _Encoded(source, target, np.maximum(source.lengths, target.lengths))

    def _batches(self, encoded: _Encoded) -> Iterator[dict[str, np.ndarray]]:
        sides = {'source': encoded.source, 'target': encoded.target}
        most = self.model.config.max_sequence_length
        for _, batch in sorted_batches(sides, positions=LOSS_POSITIONS, most=most):
            yield batch


def loss_of_references(
    translator: 'Translator', sources: Sequence[str], references: Sequence[str], limit: int
) -> CorpusLoss:
    """Return the loss of the references; the smoothed loss of an ensemble is NaN.

    Args:
      translator: has the models.
      sources: raw texts.
      references: their translations.
      limit: tokens to which sources are cut, as in the search; 0 is no limit.
    """
    network = translator.network
    if len(network.params) > 1:
        scores = translator.scorer(sources, references, source_limit=limit)
        tokens = sum(score.tokens for score in scores)
        nll = -sum(score.log_prob for score in scores) / tokens
        return CorpusLoss(math.nan, nll, perplexity(nll), tokens)
    measure = LossEvaluator(
        network.ensemble.models[0],
        translator.vocabulary,
        translator.config.optimizer.label_smoothing,
        network.mesh,
        limit,
    )
    return measure(network.params[0], list(zip(sources, references, strict=True)))
