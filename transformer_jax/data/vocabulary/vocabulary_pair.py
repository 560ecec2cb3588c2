"""The vocabularies of the two sides of a model, which may be one."""

import dataclasses
import hashlib
import os
from pathlib import Path
from typing import NoReturn

from transformer_jax.config import VocabSizes
from transformer_jax.data.vocabulary.table_vocabulary import TableVocabulary
from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.errors import UserError
from transformer_jax.storage.workdir import SHARED_VOCABULARY, SIDE_VOCABULARIES


@dataclasses.dataclass(frozen=True)
class VocabularyPair:
    """The vocabularies of source and target; the same object twice if both languages share one.

    Attributes:
      source: encodes the texts to translate.
      target: encodes and decodes their translations.
    """

    source: Vocabulary
    target: Vocabulary

    def __post_init__(self):
        if self.source.eos_id != self.target.eos_id:
            raise ValueError(
                f'EOS has id {self.source.eos_id} in the source vocabulary, but '
                f'{self.target.eos_id} in the target vocabulary: both need the same.'
            )

    def __getattr__(self, name: str) -> NoReturn:
        hint = ''
        if hasattr(Vocabulary, name) or name in ('model', 'size', 'unknown_id'):
            hint = f': take .source.{name} or .target.{name}'
        raise AttributeError(f'a VocabularyPair has no {name}{hint}')

    @property
    def shared(self) -> bool:
        """Whether both sides are one vocabulary."""
        return self.source is self.target

    @property
    def sizes(self) -> VocabSizes:
        """The sizes of both sides."""
        return VocabSizes(target=self.target.size, source=self.source.size)

    @property
    def eos_id(self) -> int:
        """EOS, on both sides."""
        return self.target.eos_id

    @property
    def digest(self) -> str:
        """Hex digest of both sides: that of the vocabulary itself if they are equal."""
        if self.source.digest == self.target.digest:
            return self.target.digest
        both = f'{self.source.digest} {self.target.digest}'.encode()
        return hashlib.blake2b(both, digest_size=16).hexdigest()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the files of the vocabularies into a work directory, each atomically."""
        if self.shared and not isinstance(self.source, TableVocabulary):
            self.source.save(Path(folder, SHARED_VOCABULARY))
            return
        for name, vocabulary in zip(SIDE_VOCABULARIES, (self.source, self.target), strict=True):
            vocabulary.save(Path(folder, name))

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], field: str = 'vocabulary of the workdir'
    ) -> 'VocabularyPair':
        """Read what `save` has written.

        Args:
          folder: the work directory.
          field: the name of the files in messages.

        Raises:
          UserError: if a file cannot be read or used.
        """
        paths = [Path(folder, name) for name in SIDE_VOCABULARIES]
        if not any(map(os.path.lexists, paths)):
            vocabulary = Vocabulary.load(Path(folder, SHARED_VOCABULARY), field)
            return cls(vocabulary, vocabulary)
        sides = []
        for path, is_source in zip(paths, (True, False), strict=True):
            if os.path.lexists(path.with_suffix('.json')):
                sides.append(TableVocabulary.load_table(path, field, is_source=is_source))
            else:
                sides.append(Vocabulary.load(path, field))
        try:
            return cls(*sides)
        except ValueError as error:
            raise UserError(f'{field} in {str(folder)!r}: {error} Restore the files.') from error
