"""Sentence pairs from wherever they are: files, TFDS, Hugging Face or the embedded phrasebook.

`open_corpus` finds mistakes before any work begins; `pairs` then streams, so that 36 million pairs
(WMT14 French-English) never are in memory at once.
"""

import contextlib
import csv
import dataclasses
import difflib
import functools
import gzip
import hashlib
import heapq
import http.client
import io
import json
import logging
import lzma
import os
import pathlib
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, Protocol

from transformer_jax.config import DataConfig
from transformer_jax.data import phrasebook
from transformer_jax.data._tensorflow import import_tensorflow
from transformer_jax.errors import UserError

Pair = tuple[str, str]

_logger = logging.getLogger('transformer_jax')
_JSON_LINES = ('.jsonl', '.jsonlines', '.json-lines', '.ndjson')
_TABLES = ('.tsv', '.csv', *_JSON_LINES)
_PROBE_SECONDS = 4.0


class Corpus(Protocol):
    """Sentence pairs in three splits: 'train', 'dev' and 'test'."""

    def pairs(self, split: str) -> Iterator[Pair]:
        """Raw (source, target) sentences, the same ones in the same order at every call.

        Raises:
          UserError: when what is read turns out to be damaged.
        """

    def fingerprint(self, split: str) -> str:
        """Hex digest of the content that `pairs(split)` yields."""


def open_corpus(config: DataConfig) -> Corpus:
    """The corpus that `config` names, with dev and test held out of train where it has none.

    Raises:
      UserError: when the corpus is missing, damaged or empty, or lacks the languages or columns.
    """
    if config.corpus == 'phrasebook':
        return PhrasebookCorpus(config)
    kinds = {'files': FilesCorpus, 'tfds': TfdsCorpus, 'huggingface': HuggingFaceCorpus}
    corpus = kinds[config.corpus](config)
    for split in ('train', 'dev', 'test'):
        if split in corpus.names and next(corpus.pairs(split), None) is None:
            raise UserError(f'{corpus.names[split]} has no sentence pairs: name one that has some.')
    missing = [split for split in ('dev', 'test') if split not in corpus.names]
    return HeldOutCorpus(corpus, missing, config) if missing else corpus


class _NamedCorpus(Corpus, Protocol):
    """A corpus that may lack dev and test; `names` has what messages call the splits it has."""

    names: dict[str, str]


class HeldOutCorpus:
    """A corpus whose missing dev or test pairs are taken out of its training pairs.

    The source sentences with the smallest keyed hash are held out, so what is chosen depends on the
    seed and on the set of sentences but not on their order, and no source sentence of dev or test
    is left in train. The first pair of each stands for all of its pairs.
    """

    def __init__(self, corpus: _NamedCorpus, missing: list[str], config: DataConfig):
        self._corpus = corpus
        self._seed = config.seed
        self._sizes = {split: getattr(config, f'{split}_size') for split in missing}
        self._held: dict[str, list[Pair]] = {}
        # The full pass waits until pairs are wanted: a cache hit on the fingerprint saves it.
        distinct = set()
        for source, _ in corpus.pairs('train'):
            distinct.add(source)
            if len(distinct) > 2:
                break
        else:
            parts = ' and '.join(missing)
            raise UserError(
                f'{corpus.names["train"]} has fewer than 3 distinct source sentences, too few to '
                f'hold out {parts}: add pairs to it, or give {parts} data of their own.'
            )
        _logger.info('Holding %s data out of the training pairs.', ' and '.join(missing))

    def pairs(self, split: str) -> Iterator[Pair]:
        if split not in self._sizes and split != 'train':
            return self._corpus.pairs(split)
        if not self._held:
            self._held = self._hold_out()
        return iter(self._held[split]) if split in self._held else self._train()

    def fingerprint(self, split: str) -> str:
        if split not in self._sizes and split != 'train':
            return self._corpus.fingerprint(split)
        held_out = [self._seed, self._sizes, split]
        return _digest([self._corpus.fingerprint('train'), json.dumps(held_out)])

    def _train(self) -> Iterator[Pair]:
        held_out = {source for pairs in self._held.values() for source, _ in pairs}
        return (pair for pair in self._corpus.pairs('train') if pair[0] not in held_out)

    def _hold_out(self) -> dict[str, list[Pair]]:
        """One pass over train; memory is that of ten times the pairs asked for, at most."""
        asked = sum(self._sizes.values())
        key = self._seed.to_bytes(16, 'little')
        seen: set[int] = set()  # distinct sources, counted as far as it matters
        best: dict[int, Pair] = {}
        heap: list[int] = []  # the hashes in `best`, negated: heapq knows minima only
        for pair in self._corpus.pairs('train'):
            hashed = hashlib.blake2b(pair[0].encode(), digest_size=16, key=key).digest()
            rank = int.from_bytes(hashed, 'big')
            if len(seen) < 10 * asked:
                seen.add(rank)
            if rank in best or (len(heap) == asked and rank > -heap[0]):
                continue
            best[rank] = pair
            if len(heap) < asked:
                heapq.heappush(heap, -rank)
            else:
                del best[-heapq.heappushpop(heap, -rank)]
        sizes = self._sizes
        if len(seen) < 10 * asked:
            share = len(seen) // 10 / asked
            sizes = {split: max(1, int(size * share)) for split, size in sizes.items()}
            _logger.warning(
                'Only %d distinct source sentences to train on: holding out %s of them, not %s.',
                len(seen),
                ' and '.join(f'{size} ({split})' for split, size in sizes.items()),
                ' and '.join(map(str, self._sizes.values())),
            )
        ranked = iter(sorted(best))
        return {split: [best[next(ranked)] for _ in range(sizes[split])] for split in sizes}


class PhrasebookCorpus:
    """The embedded English-French pairs, generated once and kept."""

    def __init__(self, config: DataConfig):
        languages = (config.source_language, config.target_language)
        if set(languages) != {'en', 'fr'}:
            field = 'source' if config.source_language not in ('en', 'fr') else 'target'
            raise UserError(
                f'data.{field}_language={getattr(config, f"{field}_language")!r} is not in the '
                "phrasebook: translate from 'en' into 'fr' or back, or choose another data.corpus."
            )
        self._splits = phrasebook.generate(
            seed=config.seed, train=config.train_size, dev=config.dev_size, test=config.test_size
        )
        if languages == ('fr', 'en'):
            self._splits = {
                split: [(french, english) for english, french in pairs]
                for split, pairs in self._splits.items()
            }

    def pairs(self, split: str) -> Iterator[Pair]:
        return iter(self._splits[split])

    def fingerprint(self, split: str) -> str:
        return _digest(text for pair in self._splits[split] for text in pair)


# --- Files ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _File:
    """A file and the field of the config that names it."""

    field: str
    path: pathlib.Path

    def __str__(self) -> str:
        return f"{self.field}='{self.path}'"

    @property
    def kind(self) -> str:
        """The suffix that tells the format, whether compressed or not."""
        name = pathlib.Path(self.path.stem) if self.path.suffix in ('.gz', '.xz') else self.path
        return name.suffix.lower()

    @contextlib.contextmanager
    def reading(self) -> Iterator[BinaryIO]:
        """Opens for reading bytes; what the system or a decompressor finds wrong is a UserError."""
        openers: dict[str, Callable[..., Any]] = {'.gz': gzip.open, '.xz': lzma.open}
        try:
            with openers.get(self.path.suffix, open)(self.path, 'rb') as file:
                # Python reads lines from decompressors one by one; the buffer does it in C.
                yield io.BufferedReader(file) if self.path.suffix in openers else file
        except (FileNotFoundError, NotADirectoryError):
            raise UserError(f'{self} does not exist{self._nearest()}') from None
        except IsADirectoryError:
            raise UserError(f'{self} is a folder, but must be a file.') from None
        except PermissionError:
            raise UserError(f'{self} may not be read: change its permissions.') from None
        except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
            what = f'{self.path.suffix[1:]} file ({error})'
            raise UserError(f'{self} is a damaged {what}: fetch or compress it again.') from None
        except OSError as error:
            raise UserError(f'{self} cannot be read: {error.strerror or error}.') from None

    def lines(self) -> Iterator[str]:
        r"""Decoded lines with their ends, which are '\n' only, unlike those of str.splitlines."""
        with self.reading() as file:
            for number, line in enumerate(file, 1):
                try:
                    text = line.decode('utf-8')
                except UnicodeDecodeError:
                    remedy = 'convert the file (iconv -t UTF-8) or mend the line.'
                    raise UserError(f'{self}, line {number}, is not UTF-8: {remedy}') from None
                yield text.removeprefix('\ufeff') if number == 1 else text

    def sentences(self) -> Iterator[str]:
        """Lines without their ends."""
        return (line.removesuffix('\n').removesuffix('\r') for line in self.lines())

    def count_lines(self) -> int:
        """Number of lines; an end of line is not needed after the last one."""
        count, block = 0, b'\n'
        with self.reading() as file:
            while chunk := file.read(1 << 20):
                block = chunk
                count += chunk.count(b'\n')
        return count + (not block.endswith(b'\n'))

    def _nearest(self) -> str:
        if not self.path.parent.is_dir():
            return f": there is no folder '{self.path.parent}'."
        with contextlib.suppress(OSError):
            return _did_you_mean(self.path.name, os.listdir(self.path.parent))
        return '.'


class FilesCorpus:
    """Two text files aligned by line, or two columns of one table, for each split."""

    def __init__(self, config: DataConfig):
        self._config = config
        self._files: dict[str, list[_File]] = {}
        for split in ('train', 'dev', 'test'):
            fields = [f'{split}_source', f'{split}_target']
            paths = [getattr(config, field) for field in fields]
            if paths[0]:
                files = [
                    _File(f'data.{field}', pathlib.Path(os.path.expanduser(path)))
                    for field, path in zip(fields, paths, strict=True)
                    if path
                ]
                self._files[split] = _check_files(files)
        self.names = {split: str(files[0]) for split, files in self._files.items()}

    def pairs(self, split: str) -> Iterator[Pair]:
        files = self._files[split]
        if len(files) == 2:
            return zip(files[0].sentences(), files[1].sentences(), strict=True)
        if files[0].kind in _JSON_LINES:
            return _json_pairs(files[0], self._config)
        return _table_pairs(files[0], self._config)

    def fingerprint(self, split: str) -> str:
        config = self._config
        columns = [config.source_column, config.target_column]
        if len(self._files[split]) == 1:
            columns += [config.source_language, config.target_language]
        digest = hashlib.blake2b(json.dumps(columns).encode(), digest_size=16)
        for file in self._files[split]:
            digest.update(_hash_file(file))
        return digest.hexdigest()


def _check_files(files: list[_File]) -> list[_File]:
    """The file or files to read: a table alone, or two texts of as many lines."""
    source, target = files[0], files[-1]
    alone = source.path == target.path
    if source.kind in _TABLES or target.kind in _TABLES:
        if alone:
            return [source]
        raise UserError(
            f'{target} stands beside {source}: give a table ({", ".join(_TABLES[:3])}) alone, or '
            'two text files.'
        )
    if alone:
        with source.reading():  # a file that is not there is the likelier mistake
            pass
        raise UserError(
            f'{source} needs another file beside it in {source.field.replace("source", "target")}, '
            f'since its name does not end as that of a table does ({", ".join(_TABLES[:3])}).'
        )
    counts = [file.count_lines() for file in files]
    if counts[0] != counts[1]:
        raise UserError(
            f'{source} has {counts[0]} lines but {target} has {counts[1]}: '
            'give files of which each line translates the same line of the other.'
        )
    return files


def _table_pairs(file: _File, config: DataConfig) -> Iterator[Pair]:
    """Pairs from CSV (with quoting) or TSV (tabs and no quoting); the first row names columns."""
    rows = _csv_rows(file) if file.kind == '.csv' else _tsv_rows(file)
    _, header = next(rows, (0, None))
    if header is None:
        return
    source, target = (header.index(column) for column in _columns(file, header, config))
    for number, row in rows:
        if len(row) != len(header):
            raise UserError(
                f'{file}, line {number}, has {len(row)} fields but the header has {len(header)}: '
                'mend the line.'
            )
        yield row[source], row[target]


def _tsv_rows(file: _File) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(file.sentences(), 1):
        if line:
            yield number, line.split('\t')


def _csv_rows(file: _File) -> Iterator[tuple[int, list[str]]]:
    # A quote that is never closed would swallow the rest of the file, were it not for `strict`.
    reader = csv.reader(file.lines(), strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise UserError(
            f'{file}, line {reader.line_num}, is not valid CSV ({error}): mend the line.'
        ) from None


def _json_pairs(file: _File, config: DataConfig) -> Iterator[Pair]:
    """Pairs from one JSON object a line, or from the object under its key 'translation'."""
    named = config.source_column or config.target_column
    source = config.source_column or config.source_language
    target = config.target_column or config.target_language
    for number, line in enumerate(file.lines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            reason = str(error).split(':')[0]
            raise UserError(
                f'{file}, line {number}, is not valid JSON ({reason}): mend the line.'
            ) from None
        if not named and isinstance(row, dict) and isinstance(row.get('translation'), dict):
            row = row['translation']
        if not isinstance(row, dict):
            raise UserError(f'{file}, line {number}, is not a JSON object: mend the line.')
        if not (source in row and target in row):
            _columns(file, row, config, f', line {number},')
        pair = (row[source], row[target])
        if not all(isinstance(text, str) and _is_unicode(text) for text in pair):
            raise UserError(
                f'{file}, line {number}, holds something other than text: mend the line.'
            )
        yield pair


def _is_unicode(text: str) -> bool:
    r"""Whether the text can be encoded: JSON may escape half a character, as in "\ud83d"."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _columns(
    where: Any, available: Iterable[str], config: DataConfig, line: str = ','
) -> tuple[str, str]:
    """Names of the source and target columns: those set, else those named like the languages.

    Raises:
      UserError: if a column is not there; it names those that are.
    """
    columns = []
    for side in ('source', 'target'):
        name = getattr(config, f'{side}_column')
        language = getattr(config, f'{side}_language')
        column = name or language
        if column not in available:
            missing = 'is not one' if name else f'must name one (there is no {language!r})'
            raise UserError(
                f'data.{side}_column={name!r} {missing} of the columns of {where}{line} which has '
                f'{_listing(available)}.'
            )
        columns.append(column)
    return columns[0], columns[1]


def _hash_file(file: _File) -> bytes:
    # The bytes as they lie on disk: decompressing them would cost more and tell nothing more.
    with open(file.path, 'rb') as raw:
        return hashlib.file_digest(raw, 'blake2b').digest()


# --- Datasets of other packages -------------------------------------------------------------------


class TfdsCorpus:
    """A translation dataset of TensorFlow Datasets, in either direction."""

    def __init__(self, config: DataConfig):
        self._tf = import_tensorflow()
        tfds = _import_tfds()
        self._builder, prepared = _tfds_builder(config)
        info = self._builder.info
        self._languages = (config.source_language, config.target_language)
        features = info.features if isinstance(info.features, tfds.features.FeaturesDict) else {}
        known = [name for name in features if isinstance(features[name], tfds.features.Text)]
        for side, language in zip(('source', 'target'), self._languages, strict=True):
            _check_language(f'data.{side}_language', language, config.dataset, known)
        if not prepared:  # only now: a wrong language should not cost a download
            _prepare(self._builder, config)
        is_split = functools.partial(_is_tfds_split, info.splits)
        self._splits = _choose_splits(config, list(info.splits), is_split)
        self.names = _split_labels(config, self._splits)

    def pairs(self, split: str) -> Iterator[Pair]:
        tfds = _import_tfds()
        # One shard after the other: the order then is that of the files, on every machine.
        read = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
        try:
            dataset = self._builder.as_dataset(split=self._splits[split], read_config=read)
            # Crossing from TensorFlow to Python costs more than the reading: do it by the batch.
            for batch in dataset.batch(1024).prefetch(2).as_numpy_iterator():
                sides = ([text.decode() for text in batch[name]] for name in self._languages)
                yield from zip(*sides, strict=True)
        except self._tf.errors.OpError as error:
            raise UserError(
                f'{self.names[split]} cannot be read from {self._builder.data_dir} '
                f'({_first_line(error)}): remove that folder and have it prepared again.'
            ) from None

    def fingerprint(self, split: str) -> str:
        info, name = self._builder.info, self._splits[split]
        return _digest(
            [info.full_name, name, *self._languages, str(info.splits[name].num_examples)]
        )


def _is_tfds_split(splits: Any, name: str) -> bool:
    """Whether TFDS takes the name for a split: expressions such as 'train[:90%]' are welcome."""
    try:
        return bool(name) and splits[name] is not None
    except (KeyError, ValueError, AssertionError):
        return False


def _import_tfds():
    try:
        import_tensorflow()
        import tensorflow_datasets as tfds
    except ModuleNotFoundError as error:
        raise UserError(
            f"data.corpus='tfds' needs the package {error.name!r}: "
            'pip install tensorflow-cpu tensorflow-datasets importlib_resources.'
        ) from None
    return tfds


def _tfds_builder(config: DataConfig) -> tuple[Any, bool]:
    """The builder of the dataset, and whether it is prepared on this machine."""
    tfds = _import_tfds()
    from tensorflow_datasets.core import naming, read_only_builder

    name = config.dataset
    data_dir = os.path.expanduser(config.data_dir) or None
    try:
        base, options = naming.parse_builder_name_kwargs(name)
    except ValueError as error:
        raise UserError(f'data.dataset={name!r} is not a name: {_first_line(error)}.') from None
    if base.namespace:
        raise UserError(
            f'data.dataset={name!r} is not a dataset of TFDS itself: drop {base.namespace!r}, or '
            "set data.corpus='huggingface'."
        )
    # What is prepared needs no code and no network; tfds.builder would ask for the code first.
    with contextlib.suppress(tfds.core.DatasetNotFoundError):
        return read_only_builder.builder_from_files(name, data_dir=data_dir), True
    try:
        builder_class = tfds.builder_cls(base.name)
    except tfds.core.DatasetNotFoundError:
        known = tfds.list_builders(with_community_datasets=False)
        raise UserError(
            f'data.dataset={name!r} is not a dataset of TFDS, nor prepared in '
            f'{data_dir or "its folder"}{_did_you_mean(base.name, known)}'
        ) from None
    kinds = builder_class.builder_configs
    if options.get('config') and options['config'] not in kinds:
        raise UserError(
            f'data.dataset={name!r} is not a part of {base.name}, which has {_listing(kinds)}.'
        )
    try:
        return tfds.builder(name, data_dir=data_dir), False
    except (AssertionError, ValueError) as error:  # such as a version that does not exist
        raise UserError(f'data.dataset={name!r} cannot be used: {_first_line(error)}.') from None


def _prepare(builder: Any, config: DataConfig) -> None:
    """Downloads the dataset, or builds it from the archives in data.manual_dir.

    TFDS alone retries for minutes where there is no network; here that is found in seconds.
    """
    tfds = _import_tfds()
    manual_dir = os.path.expanduser(config.manual_dir) or None
    if manual_dir and not os.path.isdir(manual_dir):
        raise UserError(f'data.manual_dir={config.manual_dir!r} is not a folder: make it.')
    urls = list(builder.url_infos) or [builder.info.homepage]
    hosts = {urllib.parse.urlsplit(url)._replace(path='/', query='', fragment='') for url in urls}
    online = _reachable(sorted(host.geturl() for host in hosts if host.hostname))
    refused: list[str] = []
    try:
        # TFDS announces downloads on stdout, which is for results; offline they would be a lie.
        progress = sys.stderr if online else io.StringIO()
        with contextlib.redirect_stdout(progress), _downloads(online, refused):
            builder.download_and_prepare(
                download_config=tfds.download.DownloadConfig(
                    manual_dir=manual_dir, try_download_gcs=False
                )
            )
    except Exception as error:
        name = config.dataset
        if refused:
            raise UserError(
                f'data.dataset={name!r} is not prepared in {builder.data_dir_root} and '
                f'{refused[0]} cannot be reached: on a machine with a network run '
                f'python -c "import tensorflow_datasets as tfds; tfds.load({name!r})" and copy '
                'the folder ~/tensorflow_datasets that it fills to data.data_dir, or set '
                'data.manual_dir to a folder with the archives.'
            ) from None
        raise UserError(
            f'data.dataset={name!r} could not be prepared by TFDS '
            f'({type(error).__name__}: {_first_line(error)}): mend that, or prepare it on another '
            'machine and copy the folder to data.data_dir.'
        ) from error


@contextlib.contextmanager
def _downloads(online: bool, refused: list[str]) -> Iterator[None]:
    """Where not online, makes TFDS fail at the first file it has not, and notes the address."""
    if online:
        yield
        return
    tfds = _import_tfds()
    from tensorflow_datasets.core.download import download_manager

    def refuse(self, resource):
        refused.append(resource.url)
        raise ConnectionError(resource.url)

    manager = download_manager.DownloadManager
    download = manager._download
    bars = tfds.core.utils.tqdm_utils
    # No setting of TFDS shortens its retries or says "local files only".
    manager._download = refuse
    bars.disable_progress_bar()
    try:
        yield
    finally:
        manager._download = download
        bars.enable_progress_bar()


class HuggingFaceCorpus:
    """A dataset of the Hugging Face hub, or one on disk that its `datasets` package reads."""

    def __init__(self, config: DataConfig):
        loaded = _load_hugging_face(config)
        chosen = _choose_splits(config, list(loaded), loaded.__contains__)
        self.names = _split_labels(config, chosen)
        self._digests: dict[str, str] = {}
        self._reported: set[str] = set()
        self._tables = {}
        for split, name in chosen.items():
            keys, nested = _text_columns(loaded[name].features, config)
            table = loaded[name].with_format(None).select_columns(nested or list({*keys}))
            self._tables[split] = (table, keys, nested)

    def pairs(self, split: str) -> Iterator[Pair]:
        table, keys, nested = self._tables[split]
        empty = 0
        for batch in table.iter(batch_size=1024):
            if nested:
                rows = [row or {} for row in batch[nested]]
                batch = {key: [row.get(key) for row in rows] for key in keys}
            for pair in zip(*(batch[key] for key in keys), strict=True):
                if None in pair:
                    empty += 1
                else:
                    yield pair
        if empty and split not in self._reported:
            self._reported.add(split)
            _logger.warning('%s: left out %d rows with no text.', self.names[split], empty)

    def fingerprint(self, split: str) -> str:
        if split not in self._digests:
            self._digests[split] = _digest(text for pair in self.pairs(split) for text in pair)
        return self._digests[split]


def _load_hugging_face(config: DataConfig) -> dict[str, Any]:
    """The splits by name, each a memory-mapped `datasets.Dataset`."""
    try:
        import datasets
        import huggingface_hub
    except ModuleNotFoundError:
        raise UserError(
            "data.corpus='huggingface' needs the package datasets: "
            "pip install 'transformer_jax[huggingface]'."
        ) from None
    name = config.dataset
    path = pathlib.Path(os.path.expanduser(name))
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        online = True
        try:
            if path.exists():
                if datasets.is_progress_bar_enabled():
                    datasets.disable_progress_bars()  # local files are read in a moment
                    stack.callback(datasets.enable_progress_bars)
                loaded = _load_local(datasets, path)
            else:
                # 'owner/name/part' names a configuration, as 'name/part' does with TFDS.
                parts = name.split('/')
                repository, part = (
                    ('/'.join(parts[:2]), parts[2]) if len(parts) == 3 else (name, None)
                )
                online = not datasets.config.HF_HUB_OFFLINE and _reachable(
                    [datasets.config.HF_ENDPOINT]
                )
                if not online:
                    # In this mode the package looks into its cache only, where else it retries.
                    for settings in (datasets.config, huggingface_hub.constants):
                        stack.callback(setattr, settings, 'HF_HUB_OFFLINE', settings.HF_HUB_OFFLINE)
                        settings.HF_HUB_OFFLINE = True
                loaded = datasets.load_dataset(repository, part)
        except Exception as error:
            if online:
                raise UserError(
                    f'data.dataset={name!r} cannot be loaded by the package datasets: '
                    f'{_first_line(error.__cause__ or error)}.'
                ) from error
            raise UserError(
                f'data.dataset={name!r} is neither a file or folder here nor in the cache of the '
                f'package datasets, and {datasets.config.HF_ENDPOINT} cannot be reached: '
                'name a folder made by save_to_disk, or start once on a machine with a network.'
            ) from None
    return dict(loaded) if isinstance(loaded, dict) else {'train': loaded}


def _load_local(datasets: Any, path: pathlib.Path) -> Any:
    if path.is_dir():
        saved = any((path / name).is_file() for name in ('dataset_dict.json', 'state.json'))
        return datasets.load_from_disk(str(path)) if saved else datasets.load_dataset(str(path))
    kind = _File('data.dataset', path).kind
    if kind in ('.csv', '.tsv'):
        # Without the first option 'None' and 'NA' would be taken for missing text.
        options = {'keep_default_na': False}
        if kind == '.tsv':
            options |= {'sep': '\t', 'quoting': csv.QUOTE_NONE}
        return datasets.load_dataset('csv', data_files=str(path), **options)
    module = 'json' if kind in ('.json', *_JSON_LINES) else kind[1:]
    return datasets.load_dataset(module, data_files=str(path))


def _text_columns(features: Any, config: DataConfig) -> tuple[tuple[str, str], str]:
    """The two keys to read, and the column of dicts that they are in ('' for the row itself)."""
    where = f'data.dataset={config.dataset!r}'
    if 'translation' in features and not (config.source_column or config.target_column):
        nested = features['translation']
        languages = list(getattr(nested, 'languages', None) or nested)
        pair = (config.source_language, config.target_language)
        for side, language in zip(('source', 'target'), pair, strict=True):
            _check_language(f'data.{side}_language', language, config.dataset, languages)
        return pair, 'translation'
    columns = _columns(where, features, config)
    for side, column in zip(('source', 'target'), columns, strict=True):
        if getattr(features[column], 'dtype', None) not in ('string', 'large_string'):
            raise UserError(
                f'data.{side}_column={column!r} holds no text in {where}: name another of '
                f'{_listing(features)}.'
            )
    return columns, ''


def _choose_splits(
    config: DataConfig, names: list[str], is_split: Callable[[str], bool]
) -> dict[str, str]:
    """The dataset's split for each of ours; dev or test is absent where it must be held out."""
    defaults = {field.name: field.default for field in dataclasses.fields(DataConfig)}
    chosen = {}
    for split in ('train', 'dev', 'test'):
        field = f'{split}_split'
        name = getattr(config, field)
        if is_split(name):
            chosen[split] = name
        elif split == 'train' or name not in ('', defaults[field]):
            raise UserError(
                f'data.{field}={name!r} is not a split of {config.dataset!r}, which has '
                f'{_listing(names)}.'
            )
    return chosen


def _split_labels(config: DataConfig, splits: dict[str, str]) -> dict[str, str]:
    return {
        split: f'data.{split}_split={name!r} of {config.dataset!r}'
        for split, name in splits.items()
    }


def _check_language(field: str, language: str, dataset: str, known: list[str]) -> None:
    if language not in known:
        has = f'which has {_listing(known)}' if known else 'which has no text by language'
        raise UserError(f'{field}={language!r} is not a language of {dataset!r}, {has}.')


def _reachable(urls: list[str]) -> bool:
    """Whether any of the hosts answers within seconds; true where there is none to ask."""
    answered = threading.Event()

    def ask(url: str) -> None:
        try:
            request = urllib.request.Request(url, method='HEAD')
            with urllib.request.urlopen(request, timeout=_PROBE_SECONDS):
                answered.set()
        except urllib.error.HTTPError:
            answered.set()  # a refusal is an answer
        except (OSError, ValueError, http.client.HTTPException):
            pass

    # In threads because no timeout applies to the resolver, which may take half a minute.
    threads = [threading.Thread(target=ask, args=(url,), daemon=True) for url in urls]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + _PROBE_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return answered.is_set() or not urls


# --- Small helpers -------------------------------------------------------------------------------


def _digest(texts: Iterable[str]) -> str:
    """Hex digest of a sequence of texts; their lengths keep apart what only joins alike."""
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        encoded = text.encode()
        digest.update(b'%d:%s' % (len(encoded), encoded))
    return digest.hexdigest()


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f': did you mean {near[0]!r}?' if near else '.'


def _listing(names: Iterable[str]) -> str:
    """Names for a message, cut where they would fill the screen."""
    names = [repr(name if len(name) <= 60 else f'{name[:57]}...') for name in names]
    more = f' and {len(names) - 20} more' if len(names) > 20 else ''
    return (', '.join(names[:20]) + more) or 'none'


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip('.')
