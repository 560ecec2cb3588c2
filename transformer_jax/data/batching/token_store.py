"""The token store: sentence pairs that are tokenised once and then read from mapped files.

A store is a folder. For each side it has a file with the ids of all sentences and a file with the
offset of each sentence, both raw numbers. `meta.json` has their types and checksums. The folder is
written under another name and renamed when it is complete. Writing that was stopped goes on after
the last half million pairs, which `progress.json` counts.
"""

import contextlib
import errno
import fcntl
import itertools
import json
import logging
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from transformer_jax.data.batching.lengths import Lengths
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.runtime.progress import progress_bar
from transformer_jax.runtime.signals import stop_if_requested
from transformer_jax.storage.files import (
    atomic_write,
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
_SAVED_CHUNKS = 50  # chunks after which the progress is saved
_PROGRESS = {'format': int, 'pairs': int, 'empty': int, 'sizes': dict.fromkeys(_PARTS, int)}
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

    def sentence(self, number: int) -> np.ndarray:
        """Return the int32 ids of a sentence."""
        first, end = self.offsets[number : number + 2]
        return np.asarray(self.tokens[first:end], np.int32)

    def padded(self, ids: np.ndarray, length: int) -> np.ndarray:
        """Return [rows, length] int32 tokens of the sentences `ids` [rows]; -1 is an empty row."""
        ids = np.asarray(ids)
        start = self.offsets[ids]
        count = np.where(ids >= 0, self.offsets[np.maximum(ids, 0) + 1] - start, 0)
        column = np.arange(length)[None, :]
        real = column < count[:, None]
        where = np.where(real, start[:, None] + column, 0)
        return np.where(real, self.tokens[where], 0).astype(np.int32)


def packed(
    sentences: 'Sentences | JoinedSentences', ids: np.ndarray, length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return tokens and segments, [rows, length] int32 each, of several sentences in each row.

    Args:
      sentences: the sentences of one side.
      ids: [rows, sentences of a row] numbers of the sentences, each row ended with -1.
      length: tokens of a row, at least those of its sentences.

    Returns:
      The tokens, 0 for padding, and the number of each token's sentence in its row, counted from 1.
    """
    real = ids >= 0
    lines = sentences.padded(ids[real], length)
    is_token = lines != 0
    counts = np.zeros(ids.shape, np.int64)
    counts[real] = is_token.sum(axis=1)
    tokens, segments = np.zeros((2, len(ids), length), np.int32)
    filled = np.arange(length) < counts.sum(axis=1)[:, None]
    tokens[filled] = lines[is_token]
    numbers = np.broadcast_to(np.arange(1, ids.shape[1] + 1), ids.shape)
    segments[filled] = np.repeat(numbers.ravel(), counts.ravel())
    return tokens, segments


class JoinedSentences:
    """Sentences of several sets, whose numbers go on from one to the next."""

    def __init__(self, sets: Sequence[Sentences]):
        """Join sets without copying them."""
        self.sets = sets
        self._starts = np.cumsum([0, *(len(x.offsets) - 1 for x in sets)])

    @property
    def lengths(self) -> np.ndarray:
        """[sentences] int64 lengths in tokens, including EOS."""
        return np.concatenate([x.lengths for x in self.sets])

    def sentence(self, number: int) -> np.ndarray:
        """Return the int32 ids of a sentence."""
        k = int(np.searchsorted(self._starts, number, side='right')) - 1
        return self.sets[k].sentence(number - self._starts[k])

    def padded(self, ids: np.ndarray, length: int) -> np.ndarray:
        """Return tokens as `Sentences.padded` does."""
        ids = np.asarray(ids)
        result = np.zeros((len(ids), length), np.int32)
        sets = np.searchsorted(self._starts, ids, side='right') - 1
        for k in np.unique(sets[ids >= 0]):
            own = np.flatnonzero(sets == k)
            result[own] = self.sets[k].padded(ids[own] - self._starts[k], length)
        return result


class TokenStore(NamedTuple):
    """Tokenised sentence pairs.

    Attributes:
      source: the source sentences.
      target: the target sentences.
      empty: number of pairs that were left out because a side had no text.
    """

    source: Sentences | JoinedSentences
    target: Sentences | JoinedSentences
    empty: int = 0

    @classmethod
    def joined(cls, stores: Sequence['TokenStore']) -> 'TokenStore':
        """Return the pairs of several stores as one, without copying them."""
        if len(stores) == 1:
            return stores[0]
        sides = ([getattr(x, side) for x in stores] for side in ('source', 'target'))
        return cls(*map(JoinedSentences, sides), empty=sum(x.empty for x in stores))

    def __len__(self) -> int:
        return len(self.lengths[0])

    @property
    def lengths(self) -> tuple[Lengths, Lengths]:
        """The lengths of the sources and of the targets, in tokens with EOS."""
        sides = (getattr(side, 'sets', [side]) for side in (self.source, self.target))
        source, target = (Lengths([x.offsets for x in sets]) for sets in sides)
        return source, target


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
    with _folder_to_fill(directory) as folder:
        _write_files(folder, pairs, vocabulary)
        store = open_store(folder)  # its files stay mapped when the folder is renamed or removed
        (folder / 'progress.json').unlink(missing_ok=True)
        while True:
            try:
                os.replace(folder, directory)
                return store
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            try:
                return open_store(directory)
            except DamagedStoreError:
                _remove(directory)


@contextlib.contextmanager
def _folder_to_fill(directory: Path) -> Iterator[Path]:
    """Yield a folder beside `directory`, which may hold what a stopped process has written.

    A second process that writes the same store has a folder of its own. What is left without
    progress to go on from is removed.
    """
    folder = shared = directory.with_name(f'{directory.name}.unfinished')
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another process may have completed and renamed it meanwhile.
            if not _is_open(handle, folder):
                raise FileNotFoundError
        except OSError:
            folder = partial_path(directory)
            folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            own = folder != shared or _is_open(handle, folder)
            if own and (folder != shared or not os.path.exists(folder / 'progress.json')):
                remove(folder)


def _is_open(handle: int, folder: Path) -> bool:
    """Return whether a handle is of the folder that is there now."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(folder))
    except FileNotFoundError:
        return False


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
    progress = _read_progress(folder)
    with (
        contextlib.ExitStack() as stack,
        progress_bar('Tokenising', unit=' pairs', initial=progress['pairs']) as bar,
    ):
        files = {part: stack.enter_context((folder / part).open('ab')) for part in _PARTS}
        for part, file in files.items():
            file.truncate(progress['sizes'][part])
            if part.endswith('.offsets') and not progress['pairs']:
                file.write(np.zeros(1, dtypes['offsets']).tobytes())
        ends = {
            side: progress['sizes'][f'{side}.tokens'] // np.dtype(dtypes['tokens']).itemsize
            for side in ('source', 'target')
        }
        pairs = iter(pairs)
        for _ in itertools.islice(pairs, progress['pairs']):
            stop_if_requested()
        number = 0
        while chunk := list(itertools.islice(pairs, _CHUNK)):
            stop_if_requested()
            sources, targets = zip(*chunk, strict=True)
            encoded = vocabulary.source.encode(sources), vocabulary.target.encode(targets)
            whole = [
                pair for pair in zip(*encoded, strict=True) if all(len(ids) > 1 for ids in pair)
            ]
            for side, ids in zip(ends, zip(*whole, strict=True), strict=False):
                # Not `tofile`, whose errors lack the reason.
                tokens = np.concatenate(ids).astype(dtypes['tokens'])
                files[f'{side}.tokens'].write(tokens.tobytes())
                offsets = ends[side] + np.cumsum([len(line) for line in ids])
                files[f'{side}.offsets'].write(offsets.astype(dtypes['offsets']).tobytes())
                ends[side] = int(offsets[-1])
            progress['pairs'] += len(chunk)
            progress['empty'] += len(chunk) - len(whole)
            number += 1
            if number % _SAVED_CHUNKS == 0:
                _save_progress(folder, files, progress)
            bar.update(len(chunk))
    checksums = {part: _checksum(folder / part) for part in _PARTS}
    empty = progress['empty']
    meta = {'format': _FORMAT, 'empty': empty, 'dtypes': dtypes, 'checksums': checksums}
    (folder / 'meta.json').write_text(json.dumps(meta))


def _read_progress(folder: Path) -> dict[str, Any]:
    """Return how far the files of a folder are complete."""
    try:
        progress = read_json(folder / 'progress.json', _PROGRESS)
        whole = all(
            os.path.getsize(folder / part) >= size for part, size in progress['sizes'].items()
        )
        if whole and progress['format'] == _FORMAT:
            _logger.info('Tokenising goes on after %s pairs.', f'{progress["pairs"]:,}')
            return progress
    except (OSError, ValueError):
        pass
    return {'format': _FORMAT, 'pairs': 0, 'empty': 0, 'sizes': dict.fromkeys(_PARTS, 0)}


def _save_progress(folder: Path, files: Mapping[str, BinaryIO], progress: dict[str, Any]) -> None:
    for part, file in files.items():
        file.flush()
        os.fsync(file.fileno())
        progress['sizes'][part] = os.path.getsize(folder / part)
    with atomic_write(folder / 'progress.json') as file:
        json.dump(progress, file)


def _checksum(path: Path) -> int:
    value = 0
    with open_regular(path) as file:
        while block := file.read(1 << 24):
            value = zlib.crc32(block, value)
    return value


def _mapped(path: Path, dtype: str) -> np.ndarray:
    # An empty file cannot be mapped.
    return np.memmap(path, dtype, 'r') if path.stat().st_size else np.zeros(0, dtype)
