"""Scores a run on its dev and test sets: loss, BLEU and chrF, and F1 of a parser."""

import logging
import math
from typing import Any, NamedTuple

from jax.sharding import Mesh

from transformer_jax.checkpointing import averaging
from transformer_jax.checkpointing.average_choice import CheckpointChoice
from transformer_jax.checkpointing.dev_scores import quality
from transformer_jax.checkpointing.manager import Checkpoints
from transformer_jax.config import Config
from transformer_jax.data.prepare import Data
from transformer_jax.model import Transformer
from transformer_jax.parsing.bracket_scores import BracketScores, score_rows, summary
from transformer_jax.sharding import MeshLayout
from transformer_jax.training.scoring.corpus_loss import CorpusLoss, LossEvaluator
from transformer_jax.translating.outputs import warn_of_cut_outputs
from transformer_jax.translating.translation_metrics import Scores, score
from transformer_jax.translator import Translation, Translator

_logger = logging.getLogger('transformer_jax')
_EXAMPLES = 3  # translations kept in results.json
_MEANINGFUL = 1.0  # up to here, BLEU and F1 do not show whether a run makes progress


class Evaluation(NamedTuple):
    """The evaluation of a set of sentence pairs.

    Attributes:
      loss: means over target tokens.
      scores: BLEU and chrF of the outputs.
      outputs: the best translation of each source.
      brackets: the scores of a parser's trees, of which malformed ones are repaired; or None.
    """

    loss: CorpusLoss
    scores: Scores
    outputs: list[Translation]
    brackets: BracketScores | None = None

    @property
    def cut_outputs(self) -> int:
        """The number of outputs that ended at their limit of length."""
        return sum(output.cut for output in self.outputs)

    @property
    def chosen_by(self) -> dict[str, float]:
        """The scores by which checkpoints are compared, see `dev_scores.quality`."""
        f1 = {} if self.brackets is None else {'f1': self.brackets.f1}
        return {'bleu': self.scores.bleu, **f1}


class Evaluator:
    """Scores weights on the dev and test sets of a run."""

    def __init__(self, config: Config, data: Data, mesh: Mesh):
        """Do no work yet; `prepare` compiles.

        Args:
          config: the run's config.
          data: the run's data.
          mesh: the devices.
        """
        self._config, self._data, self._mesh = config, data, mesh
        model = Transformer.of(config.model, data.vocabulary.sizes, MeshLayout(mesh))
        smoothing = config.optimizer.label_smoothing
        limit = config.decode.max_source_length
        self._loss = LossEvaluator(model, data.vocabulary, smoothing, mesh, limit)

    def check(self, weights: Any) -> None:
        """Raise UserError if dev or test has a pair that cannot be scored."""
        translator = self._translator(weights)
        for name, pairs, beam_size in (
            ('dev', self._data.dev, self._config.train.eval_beam_size),
            ('test', self._data.test, self._config.decode.beam_size),
        ):
            self._loss.check(weights, pairs, f'the {name} set')
            translator.check([source for source, _ in pairs], beam_size=beam_size)

    def prepare(self, weights: Any) -> None:
        """Compile all that scoring the dev set runs."""
        sources, _ = zip(*self._data.dev, strict=True)
        beam_size = self._config.train.eval_beam_size
        self._translator(weights).prepare(sources, beam_size=beam_size)
        self._loss.prepare(weights, self._data.dev)

    def dev(self, weights: Any) -> Evaluation:
        """Score `weights` on the dev set."""
        return self._score(weights, self._data.dev, self._config.train.eval_beam_size)

    def test(self, weights: Any) -> Evaluation:
        """Score `weights` on the test set, with a progress bar."""
        return self._score(weights, self._data.test, self._config.decode.beam_size, progress=True)

    def _score(
        self, weights: Any, pairs: list[tuple[str, str]], beam_size: int, progress: bool = False
    ) -> Evaluation:
        sources, references = zip(*pairs, strict=True)
        loss = self._loss(weights, pairs)
        translator = self._translator(weights)
        results = translator.translate(
            sources, beam_size=beam_size, placeholders=False, progress=progress
        )
        outputs = [best for best, *_ in results]
        language = self._config.data.target_language
        texts = [x.text for x in outputs]
        scores = score(texts, references, target_language=language)
        brackets = None
        if self._config.data.corpus == 'trees':
            repaired, _ = score_rows(sources, texts, references)
            brackets = summary(repaired)
        return Evaluation(loss, scores, outputs, brackets)

    def _translator(self, weights: Any) -> Translator:
        return Translator(self._config, self._data.vocabulary, weights, mesh=self._mesh)


def is_due(config: Config, step: int) -> bool:
    """Return whether the run evaluates after `step`."""
    return step % config.train.eval_every == 0 or step == config.train.steps


def out_of_patience(config: Config, records: list[dict[str, Any]]) -> bool:
    """Return whether the last `train.patience` evaluations are no better than those before.

    A higher dev BLEU, or F1 of a parser, is better. While it is too low to mean anything, a lower
    dev loss is better too. Evaluations during the warm-up do not count: a rising learning rate may
    raise the loss.

    Args:
      config: the run's config.
      records: the run's metrics.
    """
    patience = config.train.patience
    dev = [record for record in records if record['kind'] == 'dev']
    before, last = dev[:-patience], dev[-patience:]
    if not patience or not before or last[0]['step'] <= config.optimizer.warmup_steps:
        return False
    (score_before, loss_before), (score, loss) = map(_best, (before, last))
    loss_counts = max(score_before, score) <= _MEANINGFUL
    return score <= score_before and not (loss_counts and loss < loss_before)


def _best(dev: list[dict[str, Any]]) -> tuple[float, float]:
    """Return the highest score and the lowest loss."""
    losses = (record['loss'] for record in dev)
    return max(map(quality, dev)), min(math.inf if loss is None else loss for loss in losses)


def score_test(
    config: Config,
    checkpoints: Checkpoints,
    evaluator: Evaluator,
    weights: Any,
    test: list[tuple[str, str]],
) -> tuple[list[int], dict[str, Any]]:
    """Average checkpoints and score the mean on the test set.

    Args:
      config: the run's config; its section `decode` chooses the checkpoints.
      checkpoints: the run's.
      evaluator: the run's.
      weights: arrays with the shapes and shardings of the mean.
      test: the test set.

    Returns:
      The steps of the averaged checkpoints, and the entries 'test' and 'examples' of results.json.
    """
    decode, choice = config.decode, CheckpointChoice()
    mean, steps = averaging.average(
        checkpoints,
        choice.candidates(checkpoints, decode),
        choice.limit(decode),
        like=weights,
        largest_gap=choice.largest_gap(decode, checkpoints.every),
    )
    _logger.info('Scoring the test set with the mean of checkpoints %s.', steps)
    found = evaluator.test(mean)
    warn_of_cut_outputs(found.cut_outputs, len(found.outputs), decode)
    examples = [
        {'source': source, 'reference': reference, 'translation': output.text}
        for (source, reference), output in zip(test, found.outputs, strict=True)
    ]
    test_scores = {
        'sentences': len(found.outputs),
        **found.loss._asdict(),
        **found.scores._asdict(),
        **found.chosen_by,
        'cut_outputs': found.cut_outputs,
    }
    return steps, {'test': test_scores, 'examples': examples[-_EXAMPLES:]}
