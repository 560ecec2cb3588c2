"""The token store: sentence pairs that are tokenised once and then read from mapped files.

A store is a folder. For each side it has a file with the ids of all sentences and a file with the
offset of each sentence, both raw numbers. `meta.json` has their types and checksums. The folder is
written under a temporary name and renamed when it is complete.
"""

import contextlib
import errno
import itertools
import json
import logging
import os
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from transformer_jax.data.vocabulary_pair import VocabularyPair
from transformer_jax.runtime.progress import progress_bar
from transformer_jax.runtime.signals import stop_if_requested
from transformer_jax.storage.files import (
    check_shape,
    open_regular,
    partial_path,
    read_json,
    remove,
    remove_leftovers,
)

_FORMAT = 3
_PARTS = ('source.tokens', 'source.offsets', 'target.tokens', 'target.offsets')
_META = {
    'empty': int,
    'dtypes': {'tokens': str, 'offsets': str},
    'checksums': dict.fromkeys(_PARTS, int),
}
_CHUNK = 10_000  # pairs tokenised at a time
_logger = logging.getLogger('transformer_jax')


class Sentences(NamedTuple):
    """Token ids of many sentences.

    Attributes:
      tokens: [total] uint16 or int32 ids of all sentences, each with EOS.
      offsets: [sentences + 1] int64, the start of each sentence; the last is the total.
    """

    tokens: np.ndarray
    offsets: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """[sentences] int64 lengths in tokens, including EOS."""
        return np.diff(self.offsets)

    def padded(self, ids: np.ndarray, length: int) -> np.ndarray:
        """Return [rows, length] int32 tokens of the sentences `ids` [rows]; -1 is an empty row."""
        ids = np.asarray(ids)
        start = self.offsets[ids]
        count = np.where(ids >= 0, self.offsets[np.maximum(ids, 0) + 1] - start, 0)
        column = np.arange(length)[None, :]
        real = column < count[:, None]
        where = np.where(real, start[:, None] + column, 0)
        return np.where(real, self.tokens[where], 0).astype(np.int32)


class TokenStore(NamedTuple):
    """Tokenised sentence pairs.

    Attributes:
      source: the source sentences.
      target: the target sentences.
      empty: number of pairs that were left out because a side had no text.
    """

    source: Sentences
    target: Sentences
    empty: int = 0

    def __len__(self) -> int:
        return len(self.source.offsets) - 1


class DamagedStoreError(Exception):
    """The folder is not a complete token store."""


def sentences_from(lines: Sequence[np.ndarray]) -> Sentences:
    """Pack the ids of sentences, one int array each, in memory."""
    offsets = np.cumsum([0, *map(len, lines)], dtype=np.int64)
    tokens = np.concatenate(lines) if lines else np.zeros(0, np.int32)
    return Sentences(tokens.astype(np.int32), offsets)


def open_store(directory: Path) -> TokenStore:
    """Check a store against its checksums and map it into memory.

    Raises:
      DamagedStoreError: if a file is missing, truncated, changed or of another format.
    """
    try:
        meta = read_json(directory / 'meta.json', {'format': int})
        if meta['format'] != _FORMAT:
            raise DamagedStoreError(f'its format is {meta["format"]}, not {_FORMAT}')
        check_shape(meta, _META)
        sides = []
        for side in ('source', 'target'):
            arrays = []
            for part in ('tokens', 'offsets'):
                path = directory / f'{side}.{part}'
                if _checksum(path) != meta['checksums'][path.name]:
                    raise DamagedStoreError(f'{path.name} does not match its checksum')
                arrays.append(_mapped(path, meta['dtypes'][part]))
            sides.append(Sentences(arrays[0], np.asarray(arrays[1])))
        return TokenStore(*sides, empty=meta['empty'])
    except (OSError, ValueError) as error:
        raise DamagedStoreError(str(error)) from error


def write_store(
    directory: Path, pairs: Iterable[tuple[str, str]], vocabulary: VocabularyPair
) -> TokenStore:
    """Tokenise `pairs` (source text, target text) into a new store and open it.

    Pairs with an empty side are left out and counted. If another process has written a complete
    store at `directory` meanwhile, that store is opened.
    """
    remove_leftovers(directory)
    partial = partial_path(directory)
    partial.mkdir(parents=True)
    try:
        _write_files(partial, pairs, vocabulary)
        store = open_store(partial)  # its files stay mapped when the folder is renamed or removed
        while True:
            try:
                os.replace(partial, directory)
                return store
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            try:
                return open_store(directory)
            except DamagedStoreError:
                _remove(directory)
    finally:
        remove(partial)


def _remove(directory: Path) -> None:
    """Remove a folder: rename it first, so that no process sees half of it."""
    aside = partial_path(directory)
    with contextlib.suppress(FileNotFoundError):  # another process was faster
        os.rename(directory, aside)
        remove(aside)


def cached_store(
    directory: Path, pairs: Iterable[tuple[str, str]], vocabulary: VocabularyPair
) -> TokenStore:
    """Open the store at `directory`; write it first if it is missing or damaged."""
    if os.path.exists(directory):
        try:
            return open_store(directory)
        except DamagedStoreError as error:
            _logger.warning(
                'The token store %s cannot be used (%s): tokenising again.', directory, error
            )
    return write_store(directory, pairs, vocabulary)


def _write_files(
    folder: Path, pairs: Iterable[tuple[str, str]], vocabulary: VocabularyPair
) -> None:
    dtypes = {'tokens': '<u2' if max(vocabulary.sizes) <= 1 << 16 else '<i4', 'offsets': '<i8'}
    pairs = iter(pairs)
    lengths: dict[str, list[np.ndarray]] = {'source': [], 'target': []}
    empty = 0
    with (
        (folder / 'source.tokens').open('wb') as source,
        (folder / 'target.tokens').open('wb') as target,
        progress_bar('Tokenising', unit=' pairs') as bar,
    ):
        while chunk := list(itertools.islice(pairs, _CHUNK)):
            stop_if_requested()
            sources, targets = zip(*chunk, strict=True)
            encoded = vocabulary.source.encode(sources), vocabulary.target.encode(targets)
            whole = [
                pair for pair in zip(*encoded, strict=True) if all(len(ids) > 1 for ids in pair)
            ]
            empty += len(chunk) - len(whole)
            for side, file, ids in zip(
                ('source', 'target'), (source, target), zip(*whole, strict=True), strict=False
            ):
                # Not `tofile`, whose errors lack the reason.
                file.write(np.concatenate(ids).astype(dtypes['tokens']).tobytes())
                lengths[side].append(np.array([len(line) for line in ids], np.int64))
            bar.update(len(chunk))
    checksums = {}
    for side, parts in lengths.items():
        counts = np.concatenate([np.zeros(1, np.int64), *parts])
        offsets = np.cumsum(counts, dtype=dtypes['offsets'])
        (folder / f'{side}.offsets').write_bytes(offsets.tobytes())
        for part in dtypes:
            path = folder / f'{side}.{part}'
            checksums[path.name] = _checksum(path)
    meta = {'format': _FORMAT, 'empty': empty, 'dtypes': dtypes, 'checksums': checksums}
    (folder / 'meta.json').write_text(json.dumps(meta))


def _mapped(path: Path, dtype: str) -> np.ndarray:
    # An empty file cannot be mapped.
    return np.memmap(path, dtype, 'r') if path.stat().st_size else np.zeros(0, dtype)


def _checksum(path: Path) -> int:
    value = 0
    with open_regular(path) as file:
        while block := file.read(1 << 24):
            value = zlib.crc32(block, value)
    return value
