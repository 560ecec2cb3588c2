"""Dev scores that are saved beside checkpoints."""

import json
from pathlib import Path

from transformer_jax.runtime import processes
from transformer_jax.storage.files import atomic_write, read_json

FILE_NAME = 'scores.json'


class DevScores:
    """The dev scores of the checkpoints in a directory; a damaged file counts as absent."""

    def __init__(self, directory: Path):
        """Read from `directory`, the folder of all checkpoints; creates nothing."""
        self._directory = directory
        self._known: dict[int, float | None] = {}

    def bleu(self, step: int) -> float | None:
        """Return the dev BLEU of a checkpoint, or None if it has no readable scores."""
        if step not in self._known:
            try:
                self._known[step] = read_json(self._path(step), {'bleu': float})['bleu']
            except (OSError, ValueError):
                self._known[step] = None
        return self._known[step]

    def remember(self, step: int, scores: dict[str, float]) -> None:
        """Note scores that are being saved with a checkpoint, so that no file is read for them."""
        self._known[step] = scores['bleu']

    def add(self, step: int, scores: dict[str, float]) -> None:
        """Write scores beside a checkpoint that was saved without them.

        Args:
          step: the checkpoint's step.
          scores: by name; 'bleu' must be among them.
        """
        self.remember(step, scores)
        if processes.is_first():
            path = self._path(step)
            path.parent.mkdir(exist_ok=True)
            with atomic_write(path) as file:
                json.dump(scores, file)

    def _path(self, step: int) -> Path:
        return self._directory / str(step) / 'scores' / FILE_NAME
