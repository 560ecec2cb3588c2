"""Sentence pairs from files: two text files aligned by line, or a TSV, CSV or JSON-lines table."""

import codecs
import contextlib
import dataclasses
import glob
import hashlib
import itertools
import json
import os
import pathlib
import re
import stat
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from transformer_jax.config import DataConfig
from transformer_jax.data.corpora.compression import DAMAGED, WRITERS, decompressed
from transformer_jax.data.corpora.tables import TABLES, table_pairs
from transformer_jax.errors import UserError, did_you_mean
from transformer_jax.runtime.signals import stop_if_requested
from transformer_jax.storage.buckets import local_path

Pair = tuple[str, str]

_OTHER_COMPRESSIONS = ('.bz2', '.zip', '.zst', '.7z', '.lz4')
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def decoded(lines: Iterable[bytes], name: str, first: int = 1) -> Iterator[str]:
    """Yield lines as text, without a byte-order mark.

    Args:
      lines: lines of a binary file.
      name: of the file, for messages.
      first: number of the first of these lines.

    Raises:
      UserError: if a line is not UTF-8.
    """
    for number, line in enumerate(lines, first):
        try:
            text = line.decode('utf-8')
        except UnicodeDecodeError:
            if number == 1 and line.startswith(_UTF16_MARKS):
                what, remedy = 'UTF-16', 'convert the text (iconv -f UTF-16 -t UTF-8).'
            else:
                what, remedy = 'not UTF-8', 'convert the text (iconv -t UTF-8) or fix the line.'
            raise UserError(f'{name}, line {number}, is {what}: {remedy}') from None
        yield text.removeprefix('\ufeff') if number == 1 else text


def without_ends(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines without their line ends."""
    return (line.removesuffix('\n').removesuffix('\r') for line in lines)


def _has_end(device: pathlib.Path) -> bool:
    """Return whether reading a device ends, as with a terminal or /dev/null."""
    with open(os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)) as file:
        return file.isatty() or os.path.samefile(device, os.devnull)


@dataclasses.dataclass(frozen=True)
class TextFile:
    """A file and the field or flag that names it.

    Attributes:
      field: the field or flag.
      path: the file.
      read_once: whether the file is read only once, so that it may also be a pipe.
    """

    field: str
    path: pathlib.Path
    read_once: bool = False

    def __str__(self) -> str:
        return f"{self.field}='{self.path}'"

    @property
    def kind(self) -> str:
        """The suffix of the format, in lower case, without that of a compression."""
        name = pathlib.Path(self.path.stem) if self._compression else self.path
        return name.suffix.lower()

    @property
    def _compression(self) -> str:
        suffix = self.path.suffix.lower()
        return suffix if suffix in (*WRITERS, *_OTHER_COMPRESSIONS) else ''

    @contextlib.contextmanager
    def reading(self, raw: bool = False) -> Iterator[BinaryIO]:
        """Open the file for reading bytes.

        Args:
          raw: reads the bytes on disk, without decompressing them.

        Raises:
          UserError: if the file cannot be read or decompressed.
        """
        compression = '' if raw else self._compression
        if compression in _OTHER_COMPRESSIONS and os.path.isfile(self.path):
            raise UserError(
                f'{self} is compressed as {compression[1:]}, which is not supported: '
                f'decompress it, or compress it as {" or ".join(WRITERS)} instead.'
            )
        try:
            self._check_kind()
            with open(self.path, 'rb') as file:
                yield decompressed(file, compression) if compression else file
        except (FileNotFoundError, NotADirectoryError):
            if glob.has_magic(str(self.path)):
                raise UserError(f'{self} is a pattern that matches no file: check it.') from None
            raise UserError(f'{self} does not exist{self._nearest()}') from None
        except IsADirectoryError:
            raise UserError(f'{self} is a folder, but must be a file.') from None
        except PermissionError:
            raise UserError(f'{self} may not be read: change its permissions.') from None
        except DAMAGED as error:
            what = f'{compression[1:]} file ({error})'
            raise UserError(f'{self} is a damaged {what}: fetch or compress it again.') from None
        except OSError as error:
            raise UserError(f'{self} cannot be read: {error.strerror or error}.') from None

    def _check_kind(self) -> None:
        """Raise UserError for pipes and devices, because opening a pipe would wait for a writer."""
        mode = os.stat(self.path).st_mode
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            return
        if stat.S_ISFIFO(mode):
            if not self.read_once:
                raise UserError(
                    f'{self} is a pipe, which can be read only once: write its content to a file, '
                    'and name that file.'
                )
        elif not (self.read_once and stat.S_ISCHR(mode) and _has_end(self.path)):
            raise UserError(f'{self} is a device or a socket: name a file.')

    @property
    def is_compressed(self) -> bool:
        """Whether the name ends as that of a compressed file."""
        return bool(self._compression)

    def check_writing(self) -> None:
        """Raise UserError if the name asks for a compression that cannot be written."""
        compression = self._compression
        if compression in _OTHER_COMPRESSIONS:
            raise UserError(
                f'{self} would have to be compressed as {compression[1:]}, which is not written: '
                f'let its name end in {" or ".join(WRITERS)}, or in neither for plain text.'
            )

    def compressing(self, file: BinaryIO) -> BinaryIO:
        """Return a writer into `file` that compresses if the name asks for it."""
        return WRITERS[self._compression](file, 'wb') if self._compression else file

    def lines(self) -> Iterator[str]:
        r"""Yield decoded lines with their ends. Only '\n' ends a line, unlike in str.splitlines."""
        with self.reading() as file:
            yield from decoded(file, str(self))

    def sentences(self) -> Iterator[str]:
        """Yield decoded lines without their ends."""
        return without_ends(self.lines())

    def count_lines(self) -> int:
        """Return the number of lines; the last one may lack a line end."""
        count, block = 0, b'\n'
        with self.reading() as file:
            while chunk := file.read(1 << 20):
                stop_if_requested()
                block = chunk
                count += chunk.count(b'\n')
        return count + (not block.endswith(b'\n'))

    def check_whole(self) -> None:
        """Raise UserError if the file is compressed and damaged."""
        if self._compression in WRITERS:
            self.count_lines()

    def digest(self) -> bytes:
        """Return a digest of the bytes on disk.

        Raises:
          UserError: if they cannot be read.
        """
        if os.path.exists(self.path) and not (self.path.is_file() or self.path.is_dir()):
            raise UserError(f'{self} is a pipe or a device, but must be a file.')
        # Decompressing would take longer and add no information.
        with self.reading(raw=True) as file:
            return hashlib.file_digest(file, 'blake2b').digest()

    def _nearest(self) -> str:
        if not os.path.isdir(self.path.parent):
            return f": there is no folder '{self.path.parent}'."
        with contextlib.suppress(OSError):
            return did_you_mean(self.path.name, os.listdir(self.path.parent))
        return '.'


def matching_files(path: pathlib.Path) -> list[pathlib.Path]:
    """Return the files that a pattern such as 'web/*.tsv' matches, in the order of their names.

    A path that exists, or that nothing matches, stands for itself.
    """
    if os.path.exists(path):
        return [path]
    return [pathlib.Path(x) for x in sorted(glob.glob(str(path)))] or [path]


class FilesCorpus:
    """Two text files aligned by line, or two columns of one table, for each split; or many of them.

    A file is parsed only when `pairs` is called for its split.
    """

    def __init__(self, config: DataConfig):
        self._config = config
        self._digests: dict[str, str] = {}
        self._aligned: set[str] = set()
        self._files: dict[str, list[list[TextFile]]] = {}
        self.names: dict[str, str] = {}
        for split in ('train', 'dev', 'test'):
            fields = [f'{split}_source', f'{split}_target']
            paths = [getattr(config, field) for field in fields]
            if paths[0]:
                files = [
                    TextFile(f'data.{field}', local_path(path, f'data.{field}'))
                    for field, path in zip(fields, paths, strict=True)
                    if path
                ]
                self._files[split] = _shards(files)
                self.names[split] = str(files[0])

    def pairs(self, split: str) -> Iterator[Pair]:
        shards = self._files[split]
        if split not in self._aligned:
            for files in shards:
                if len(files) == 2:
                    check_aligned(*files)
            self._aligned.add(split)
        return itertools.chain.from_iterable(map(self._pairs, shards))

    def _pairs(self, files: list[TextFile]) -> Iterator[Pair]:
        if len(files) == 2:
            return zip(files[0].sentences(), files[1].sentences(), strict=True)
        return table_pairs(files[0], self._config)

    def fingerprint(self, split: str) -> str:
        if split not in self._digests:
            self._digests[split] = self._digest(split)
        return self._digests[split]

    def _digest(self, split: str) -> str:
        config = self._config
        columns = [config.source_column, config.target_column]
        shards = self._files[split]
        if len(shards[0]) == 1:
            columns += [config.source_language, config.target_language]
        digest = hashlib.blake2b(json.dumps(columns).encode(), digest_size=16)
        for file in itertools.chain.from_iterable(shards):
            digest.update(file.digest())
        return digest.hexdigest()


def _shards(named: list[TextFile]) -> list[list[TextFile]]:
    """Return what to read, one table or two texts at a time; a name may be a pattern of many."""
    sides = [
        [dataclasses.replace(file, path=path) for path in matching_files(file.path)]
        for file in named
    ]
    if len(sides) == 2 and len(sides[0]) != len(sides[1]):
        raise UserError(
            f'{named[0]} matches {len(sides[0])} files, but {named[1]} {len(sides[1])}: give as '
            'many of each.'
        )
    for files in zip(*sides, strict=True):
        varying = [_varying(a.path, b.path) for a, b in zip(named, files, strict=True)]
        if len({*varying}) > 1:
            raise UserError(
                f'{named[0]} matches {varying[0]!r} where {named[1]} matches {varying[1]!r}: give '
                'the files of both sides the same names but for the languages.'
            )
    return [_files_to_read(list(files)) for files in zip(*sides, strict=True)]


def _varying(pattern: pathlib.Path, path: pathlib.Path) -> str:
    """Return the part of a path between the fixed ends of the pattern that has matched it."""
    if pattern == path:
        return ''
    first, *_, last = re.split('[*?[\\]]', str(pattern))
    return str(path)[len(first) : len(str(path)) - len(last)]


def _files_to_read(files: list[TextFile]) -> list[TextFile]:
    """Return the files to read: one table or two texts, depending on their names."""
    source, target = files[0], files[-1]
    alone = source.path == target.path
    if source.kind in TABLES or target.kind in TABLES:
        if alone:
            return [source]
        raise UserError(
            f'{target} is given together with {source}: give one table '
            f'({", ".join(TABLES[:3])}), or two text files.'
        )
    if alone:
        with source.reading():  # a missing file is the more likely mistake
            pass
        raise UserError(
            f'{source} is not a table ({", ".join(TABLES[:3])}), so it needs a second file in '
            f'{source.field.replace("source", "target")}.'
        )
    return files


def check_aligned(source: TextFile, target: TextFile) -> None:
    """Raise UserError unless both texts have the same number of lines."""
    counts = source.count_lines(), target.count_lines()
    if counts[0] != counts[1]:
        for file in (source, target):
            next(file.lines(), None)  # files that are not UTF-8 may have other line ends
        raise UserError(
            f'{source} has {counts[0]} lines but {target} has {counts[1]}: '
            'give files in which line N of one translates line N of the other.'
        )
