"""The model that a conversion begins with."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from transformer_jax.config import Config
from transformer_jax.data.vocabulary_pair import VocabularyPair
from transformer_jax.inference.load import load_trained
from transformer_jax.storage.pretrained import model_folder
from transformer_jax.storage.release import Release, read_release
from transformer_jax.storage.workdir import SavedRun


@dataclasses.dataclass(frozen=True)
class Original:
    """A trained model, and what its folder says about it.

    Attributes:
      name: name of the folder to write, which is the model's from then on.
      config: config of its run.
      vocabulary: vocabulary of both languages.
      params: its parameters, nested dicts of float32 NumPy arrays.
      steps: steps of the checkpoints that the parameters are the mean of; may be empty.
      run: content of its config.json.
      release: what config.json of a release folder holds besides; None for a run.
      test: its scores on the test set of its run, as in results.json; None if there are none.
    """

    name: str
    config: Config
    vocabulary: VocabularyPair
    params: Any
    steps: list[int]
    run: SavedRun
    release: Release | None
    test: dict[str, Any] | None

    @classmethod
    def load(
        cls,
        workdir: str | os.PathLike[str],
        name: str,
        *,
        checkpoints: int | None = None,
        average: str | None = None,
        steps: Sequence[int] | None = None,
    ) -> 'Original':
        """Read a model from its work directory; see `load_trained`."""
        trained = load_trained(workdir, checkpoints=checkpoints, average=average, steps=steps)
        folder = model_folder(workdir)
        results = folder.read_results()
        # The scores are of one choice of checkpoints.
        is_same = results is not None and results['averaged_checkpoints'] == trained.steps
        return cls(
            name=name,
            **trained._asdict(),
            run=folder.read_run(),
            release=read_release(folder),
            test=results['test'] if is_same else None,
        )
