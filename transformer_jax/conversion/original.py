"""The model that a conversion begins with."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from transformer_jax.config import Config
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
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
      vocabulary: vocabularies of both sides.
      params: its parameters, nested dicts of float32 NumPy arrays.
      steps: steps of the checkpoints that the parameters are the mean of; may be empty.
      run: content of its config.json.
      release: its licence, the note about its data and its test scores, for a model card; of a
        release folder, what config.json holds besides.
    """

    name: str
    config: Config
    vocabulary: VocabularyPair
    params: Any
    steps: list[int]
    run: SavedRun
    release: Release

    @classmethod
    def load(
        cls,
        workdir: str | os.PathLike[str],
        name: str,
        *,
        checkpoints: int | None = None,
        average: str | None = None,
        steps: Sequence[int] | None = None,
        license: str = '',
        data_note: str = '',
    ) -> 'Original':
        """Read a model from its work directory; see `load_trained`.

        Args:
          workdir: folder of a run or a release.
          name: as in Attributes.
          checkpoints: as for `load_trained`.
          average: as for `load_trained`.
          steps: as for `load_trained`.
          license: SPDX name of the licence; '' for the one that a release states.
          data_note: text about the training data; '' for the one of a release.
        """
        trained = load_trained(workdir, checkpoints=checkpoints, average=average, steps=steps)
        folder = model_folder(workdir)
        results = folder.read_results()
        # The scores are of one choice of checkpoints.
        is_same = results is not None and results['averaged_checkpoints'] == trained.steps
        before = read_release(folder) or Release(trained.steps)
        return cls(
            name=name,
            **trained._asdict(),
            run=folder.read_run(),
            release=dataclasses.replace(
                before,
                license=license or before.license,
                data_note=data_note or before.data_note,
                test=results['test'] if is_same else before.test,
            ),
        )
