"""Which of a run's checkpoints to average."""

import dataclasses
import logging
import math
from collections.abc import Callable, Sequence

from transformer_jax.checkpointing.manager import Checkpoints
from transformer_jax.config import TrainConfig
from transformer_jax.config.decode import DecodeConfig
from transformer_jax.errors import UserError

_logger = logging.getLogger('transformer_jax')
_MOST = 1_000_000


def best(steps: Sequence[int], quality: Callable[[int], float | None]) -> list[int]:
    """Return the checkpoints that have a dev score, the best first; of equals the newest first."""
    scores = {step: quality(step) for step in steps[::-1]}
    return sorted((s for s in scores if scores[s] is not None), key=lambda s: -scores[s])


@dataclasses.dataclass(frozen=True)
class CheckpointChoice:
    """A choice of checkpoints to average; a field that is None takes the config's value.

    Attributes:
      count: how many checkpoints (default: decode.average_checkpoints).
      which: 'latest' or 'best' (default: decode.average; if no checkpoint has a dev score yet, the
        default 'best' becomes 'latest', with a warning).
      steps: exactly these, in place of `count` and `which`.

    Raises:
      UserError: if a value is not allowed or two of them contradict each other.
    """

    count: int | None = None
    which: str | None = None
    steps: Sequence[int] | None = None

    def __post_init__(self):
        count, steps = self.count, self.steps
        if count is not None and not (isinstance(count, int) and 1 <= count <= _MOST):
            raise UserError(f'checkpoints={count} must be a whole number from 1 to {_MOST:,}.')
        if self.which not in (None, 'latest', 'best'):
            raise UserError(f"average={self.which!r} must be 'latest' or 'best'.")
        if isinstance(steps, int):
            raise UserError(f'steps={steps} must be a list of steps, for example [{steps}].')
        if steps is None:
            return
        object.__setattr__(self, 'steps', list(dict.fromkeys(steps)))
        if not self.steps or count is not None:
            raise UserError(
                f'steps={self.steps} with checkpoints={count}: name the steps of at least one '
                'checkpoint, or how many checkpoints to average.'
            )

    def candidates(self, checkpoints: Checkpoints, decode: DecodeConfig) -> list[int]:
        """Return the steps to average in order of preference; there may be more than `limit`.

        Args:
          checkpoints: the run's checkpoints.
          decode: the run's decode settings.

        Raises:
          UserError: if one of `steps` does not exist, or no checkpoint has a dev score for 'best'.
        """
        there = checkpoints.steps()
        if self.steps is not None:
            if not set(self.steps) <= set(there):
                raise UserError(
                    f'steps={",".join(map(str, self.steps))} are not all saved in '
                    f'{str(checkpoints.directory)!r}: choose among {", ".join(map(str, there))}.'
                )
            return list(self.steps)
        if not there or (self.which or decode.average) == 'latest':
            return there[::-1]
        if ranked := best(there, checkpoints.scores.quality):
            return ranked
        if self.which is None:
            _logger.warning('No checkpoint has a dev score yet: the latest are averaged.')
            return there[::-1]
        raise UserError(
            f'{str(checkpoints.directory)!r} has no checkpoint with a dev score, by which to '
            "choose the best: use average='latest'."
        )

    def limit(self, decode: DecodeConfig) -> int | None:
        """Return the largest number of checkpoints to average; None averages all candidates."""
        return None if self.steps is not None else self.count or decode.average_checkpoints

    def largest_gap(self, decode: DecodeConfig, every: int) -> float:
        """Return the largest distance in steps between two neighbours of the latest checkpoints.

        A checkpoint behind a larger gap was kept for its score and may be old, so it has no place
        in the mean of the latest. A single missing one is no such gap: damaged ones are moved away.

        Args:
          decode: the run's decode settings.
          every: steps between two regular checkpoints.
        """
        is_latest = self.steps is None and (self.which or decode.average) == 'latest'
        return 2 * every if is_latest else math.inf

    def warn_of_fewer(self, used: Sequence[int], train: TrainConfig) -> None:
        """Warn if fewer checkpoints were left than the choice asks for.

        Args:
          used: the steps that were averaged.
          train: the run's train settings.
        """
        if self.count is not None and len(used) < self.count:
            _logger.warning('There are %d checkpoints to average, not %d.', len(used), self.count)
        if self.which == 'best' and len(used) > train.keep_best:
            _logger.warning(
                'The mean is of the %d best that are left: train.keep_best=%d kept only that many '
                'for their dev score, so the others may not be the next best.',
                len(used),
                train.keep_best,
            )
