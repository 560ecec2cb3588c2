"""Scores of given translations: their log-probabilities."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError
from transformer_jax.forced.teacher_forcing import TeacherForcing
from transformer_jax.inference.network import Network
from transformer_jax.inference.source_cut import cut_source
from transformer_jax.runtime.progress import progress_bar

_logger = logging.getLogger('transformer_jax')


class Score(NamedTuple):
    """How likely a target is for its source.

    Attributes:
      log_prob: log-probability in nats, the sum of `log_probs`.
      mean: log_prob / tokens.
      tokens: number of target tokens, EOS included.
      pieces: of the target, then '</s>'.
      log_probs: log-probability of each piece, in nats.
    """

    log_prob: float
    mean: float
    tokens: int
    pieces: tuple[str, ...]
    log_probs: tuple[float, ...]


class Scorer:
    """Scores pairs of texts with one or more models.

    Attributes:
      vocabulary: vocabularies of both sides.
      pairs_per_call: about how many pairs fill batches well, when there are more than fit into
        memory.
    """

    def __init__(self, network: Network, vocabulary: VocabularyPair):
        """Score with the models of `network`."""
        self.vocabulary = vocabulary
        self._teacher_forcing = TeacherForcing(network)
        self.pairs_per_call = self._teacher_forcing.positions // 2

    def __call__(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        source_limit: int = 0,
        first_line: int = 1,
        progress: bool = False,
    ) -> list[Score]:
        """Return the score of each pair.

        The score of an empty target is that of EOS. For an empty source, the models see EOS alone.
        A target is never cut.

        Args:
          sources: raw texts.
          targets: their translations, raw texts.
          source_limit: tokens to which longer sources are cut with a warning, EOS included; 0 is no
            limit.
          first_line: line number of the first pair, for messages.
          progress: whether to show a progress bar on stderr.

        Raises:
          UserError: if there are more sources or more targets, or if a pair is too long for learned
            positions or for the memory of a device.
        """
        if len(sources) != len(targets):
            raise UserError(
                f'sources has {len(sources):,} texts but targets has {len(targets):,}: give a '
                'target for each source.'
            )
        lines = range(first_line, first_line + len(sources))
        source_ids = [
            cut_source(ids, source_limit, line)
            for ids, line in zip(self.vocabulary.source.encode(sources), lines, strict=True)
        ]
        target_ids = self.vocabulary.target.encode(targets)
        scores: list[Score | None] = [None] * len(sources)
        with progress_bar('Scoring', total=len(sources), unit=' lines', shown=progress) as bar:
            for index, log_probs in self._teacher_forcing.log_probs(source_ids, target_ids, lines):
                scores[index] = self._score(target_ids[index], log_probs)
                bar.update()
        failed = [lines[k] for k, score in enumerate(scores) if not np.isfinite(score.log_prob)]
        if failed:
            _logger.warning(
                '%d lines have scores that are not finite, the first of them is line %d. The model '
                'diverged in training, or its weights are damaged.',
                len(failed),
                failed[0],
            )
        return scores

    def _score(self, ids: np.ndarray, log_probs: np.ndarray) -> Score:
        values = log_probs.astype(float)
        total = float(values.sum())
        pieces = (*self.vocabulary.target.pieces(ids.tolist()), '</s>')
        return Score(total, total / len(ids), len(ids), pieces, tuple(values.tolist()))
