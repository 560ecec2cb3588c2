"""Dev scores that are saved beside checkpoints."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformer_jax.errors import in_bucket
from transformer_jax.runtime import processes
from transformer_jax.storage.files import atomic_write, parse_json, read_json

FILE_NAME = 'scores.json'


def quality(scores: Mapping[str, Any]) -> float:
    """Return the score by which checkpoints are compared: F1 of a parser, BLEU of a translator."""
    return scores['f1'] if 'f1' in scores else scores['bleu']


class DevScores:
    """The dev scores of the checkpoints in a directory; a damaged file counts as absent."""

    def __init__(self, directory: Path):
        """Read from `directory`, the folder of all checkpoints; creates nothing."""
        self._directory = directory
        self._known: dict[int, float | None] = {}

    def quality(self, step: int) -> float | None:
        """Return the `quality` of a checkpoint on dev, or None if it has no readable scores."""
        if step not in self._known:
            try:
                self._known[step] = quality(self._read(step))
            except (FileNotFoundError, ValueError):
                self._known[step] = None
            except OSError:
                if in_bucket(self._directory):  # out of reach, which is not absent
                    raise
                self._known[step] = None
        return self._known[step]

    def remember(self, step: int, scores: dict[str, float]) -> None:
        """Note scores that are being saved with a checkpoint, so that no file is read for them."""
        self._known[step] = quality(scores)

    def add(self, step: int, scores: dict[str, float]) -> None:
        """Write scores beside a checkpoint that was saved without them.

        Args:
          step: the checkpoint's step.
          scores: by name; 'bleu' must be among them.
        """
        self.remember(step, scores)
        if processes.is_first():
            path = self._path(step)
            if in_bucket(path):
                path.write_text(json.dumps(scores))
                return
            path.parent.mkdir(exist_ok=True)
            with atomic_write(path) as file:
                json.dump(scores, file)

    def _read(self, step: int) -> dict[str, Any]:
        path, shape = self._path(step), {'bleu': float}
        if in_bucket(path):
            return parse_json(path.read_bytes(), shape)
        return read_json(path, shape)

    def _path(self, step: int) -> Path:
        return self._directory / str(step) / 'scores' / FILE_NAME
