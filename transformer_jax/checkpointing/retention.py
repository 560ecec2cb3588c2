"""Which checkpoints stay: the latest, and those of the highest dev score."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from orbax.checkpoint.checkpoint_managers import preservation_policy as policies


@dataclasses.dataclass
class LatestAndBest(policies.PreservationPolicy):
    """Keeps the latest checkpoints and those of the highest dev score.

    Attributes:
      latest: number of latest checkpoints to keep.
      best: number of checkpoints with the highest dev score to keep.
      every: steps between two regular checkpoints. A checkpoint that a stop has saved between two
        regular ones stays only while it is the newest, so a run that was stopped ends with the
        same checkpoints as one that was not.
      quality: returns the dev score of a step, or None.
    """

    latest: int
    best: int
    every: int
    quality: Callable[[int], float | None]

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> list[bool]:
        """Return for each checkpoint, the oldest first, whether it stays."""
        steps = [checkpoint.step for checkpoint in checkpoints]
        scored = [step for step in steps if self.quality(step) is not None]
        best = sorted(scored, key=self.quality)[-self.best :]
        latest = [step for step in steps[:-1] if step % self.every == 0] + steps[-1:]
        return [step in best or step in latest[-self.latest :] for step in steps]
