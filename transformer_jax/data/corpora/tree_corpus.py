"""Pairs of a sentence and its constituency tree, from files of the Penn Treebank's format."""

import hashlib
from collections.abc import Iterator

from transformer_jax.config import DataConfig
from transformer_jax.data.corpora.text_files import Pair, TextFile, matching_files
from transformer_jax.errors import UserError
from transformer_jax.parsing.trees import cleaned, read_trees, symbols
from transformer_jax.storage.buckets import local_path


class TreeCorpus:
    """The words of each tree, and its symbols; see `trees.symbols`.

    A file is parsed only when `pairs` is called for its split.
    """

    def __init__(self, config: DataConfig):
        self._tags = config.tree_tags
        self._files: dict[str, list[TextFile]] = {}
        for split in ('train', 'dev', 'test'):
            field = f'data.{split}_source'
            if path := getattr(config, f'{split}_source'):
                paths = matching_files(local_path(path, field))
                self._files[split] = [TextFile(field, x) for x in paths]
        self.names = {split: ', '.join(map(str, files)) for split, files in self._files.items()}

    def pairs(self, split: str) -> Iterator[Pair]:
        for file in self._files[split]:
            try:
                for _, tree in read_trees(file.sentences()):
                    tree = cleaned(tree)
                    if tree is not None:
                        yield ' '.join(tree.words()), ' '.join(symbols(tree, self._tags))
            except UserError:
                raise
            except ValueError as error:
                raise UserError(f'{file}, {error}: fix the file.') from None

    def fingerprint(self, split: str) -> str:
        return hashlib.blake2b(
            repr(self._tags).encode() + b''.join(file.digest() for file in self._files[split]),
            digest_size=16,
        ).hexdigest()
