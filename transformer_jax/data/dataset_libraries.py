"""Sentence pairs from TensorFlow Datasets and from Hugging Face's package `datasets`."""

import contextlib
import csv
import http.client
import io
import logging
import os
import pathlib
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

from transformer_jax.config import DataConfig
from transformer_jax.data._tensorflow import import_tensorflow
from transformer_jax.data.text_files import JSON_LINES, Pair, TextFile, column_names
from transformer_jax.errors import UserError, did_you_mean, first_line, listing
from transformer_jax.storage.cache import content_digest

_PROBE_SECONDS = 4.0
# The suffixes of files that the package `datasets` reads, and what it calls their formats.
_HUGGING_FACE_FILES = {
    '.csv': 'csv',
    '.tsv': 'csv',
    '.json': 'json',
    **dict.fromkeys(JSON_LINES, 'json'),
    '.parquet': 'parquet',
    '.arrow': 'arrow',
}
_DATASET_CARDS = ('README.md', '.huggingface.yaml')
_logger = logging.getLogger('transformer_jax')


class Unavailable(UserError):
    """A dataset cannot be read here. The message tells nothing of its content."""


class TfdsCorpus:
    """A translation dataset of TensorFlow Datasets, in either direction."""

    def __init__(self, config: DataConfig, offline: bool = False):
        """Opens the dataset, which is prepared first if need be.

        Args:
          config: names it.
          offline: takes it only as it is prepared on this machine.
        """
        self._tfds = tfds = _import_tfds()
        with _features_of_tfds_alone(tfds, config):
            opened = _tfds_builder_from_files if offline else _tfds_builder
            self._builder, prepared = opened(tfds, config)
            info = self._builder.info
            is_dict = isinstance(info.features, tfds.features.FeaturesDict)
            features = info.features if is_dict else {}
            known = [name for name in features if isinstance(features[name], tfds.features.Text)]
            self._columns = _columns_or_languages(config, known)
            if not prepared:  # only now: a wrong language should not cost a download
                _prepare(tfds, self._builder, config)
        self._splits, self.names = _choose_splits(config, info.splits)

    def pairs(self, split: str) -> Iterator[Pair]:
        # One shard after the other: the order then is that of the files, on every machine.
        read = self._tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
        try:
            dataset = self._builder.as_dataset(split=self._splits[split], read_config=read)
            # Crossing from TensorFlow to Python costs more than the reading: do it by the batch.
            for batch in dataset.batch(1024).prefetch(2).as_numpy_iterator():
                sides = ([text.decode() for text in batch[name]] for name in self._columns)
                yield from zip(*sides, strict=True)
        except import_tensorflow().errors.OpError as error:
            raise UserError(
                f'{self.names[split]} cannot be read from {self._builder.data_dir} '
                f'({first_line(error)}): remove that folder and have it prepared again.'
            ) from None

    def fingerprint(self, split: str) -> str:
        info, name = self._builder.info, self._splits[split]
        return content_digest(
            [info.full_name, name, *self._columns, str(info.splits[name].num_examples)]
        )


def _import_tfds():
    try:
        import_tensorflow()
        import tensorflow_datasets as tfds
    except ModuleNotFoundError as error:
        remedy = 'pip install tensorflow-cpu tensorflow-datasets importlib_resources.'
        if sys.version_info >= (3, 14):
            remedy = 'TensorFlow has no build for Python 3.14 yet, so take Python 3.11 to 3.13.'
        raise Unavailable(
            f"data.corpus='tfds' needs the package {error.name!r}: {remedy}"
        ) from None
    return tfds


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """A context in which an attribute of a class or module is another."""
    before = owner.__dict__[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _features_of_tfds_alone(tfds: Any, config: DataConfig) -> contextlib.AbstractContextManager:
    """A context in which a folder of a dataset names no feature classes but those of TFDS.

    The names stand in features.json, and TFDS would import whatever module they begin with.
    """
    connector = tfds.features.FeatureConnector
    resolve = connector.cls_from_name

    def resolve_own(_, name):
        known = connector._registered_features.get(name)  # by now those of TFDS are all registered
        if known is None or not known.__module__.startswith('tensorflow_datasets.'):
            raise UserError(
                f'data.dataset={config.dataset!r} has a feature of the class {name!r}, which is '
                'not one of TFDS and may run any code: prepare the dataset with features of TFDS.'
            )
        return resolve(name)

    return _replaced(connector, 'cls_from_name', classmethod(resolve_own))


def _tfds_builder_from_files(tfds: Any, config: DataConfig) -> tuple[Any, bool]:
    """The builder of a dataset that is prepared on this machine, without its code, and True."""
    from tensorflow_datasets.core import read_only_builder, registered

    def no_code(name):
        raise tfds.core.DatasetNotFoundError(name)

    data_dir = os.path.expanduser(config.data_dir) or None
    if '://' in config.data_dir:
        raise Unavailable(
            f'data.data_dir={config.data_dir!r} is not on this machine: name files (--source, '
            '--reference).'
        )
    # TFDS would import the code of the dataset to know the default among its parts.
    with _replaced(registered, 'imported_builder_cls', no_code):
        try:
            return read_only_builder.builder_from_files(config.dataset, data_dir=data_dir), True
        except tfds.core.DatasetNotFoundError:
            raise Unavailable(
                f'data.dataset={config.dataset!r} is not prepared in '
                f'{data_dir or "the folder of TFDS"}: prepare it there, as a training does, or '
                'name files (--source, --reference).'
            ) from None


def _tfds_builder(tfds: Any, config: DataConfig) -> tuple[Any, bool]:
    """The builder of the dataset, and whether it is prepared on this machine."""
    from tensorflow_datasets.core import naming, read_only_builder

    name = config.dataset
    data_dir = os.path.expanduser(config.data_dir) or None
    try:
        base, options = naming.parse_builder_name_kwargs(name)
    except ValueError as error:
        raise UserError(f'data.dataset={name!r} is not a name: {first_line(error)}.') from None
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
            f'{data_dir or "its folder"}{did_you_mean(base.name, known)}'
        ) from None
    kinds = builder_class.builder_configs
    if options.get('config') and options['config'] not in kinds:
        raise UserError(
            f'data.dataset={name!r} is not a part of {base.name}, which has {listing(kinds)}.'
        )
    try:
        return tfds.builder(name, data_dir=data_dir), False
    except (AssertionError, ValueError) as error:  # such as a version that does not exist
        raise UserError(f'data.dataset={name!r} cannot be used: {first_line(error)}.') from None


def _prepare(tfds: Any, builder: Any, config: DataConfig) -> None:
    """Downloads the dataset, or builds it from the archives in data.manual_dir.

    TFDS alone retries for minutes where there is no network; here that is found in seconds.
    """
    name = config.dataset
    manual_dir = os.path.expanduser(config.manual_dir) or None
    if manual_dir and not os.path.isdir(manual_dir):
        raise UserError(f'data.manual_dir={config.manual_dir!r} is not a folder: make it.')
    online = _reachable(list(builder.url_infos) or [builder.info.homepage])
    refused: list[str] = []

    def refuse(_, resource):
        refused.append(resource.url)
        raise ConnectionError(resource.url)

    with contextlib.ExitStack() as stack:
        # TFDS announces downloads on stdout, which is for results; offline they would be a lie.
        stack.enter_context(contextlib.redirect_stdout(sys.stderr if online else io.StringIO()))
        if not online:
            # No setting of TFDS shortens its retries or says "local files only".
            manager = tfds.download.DownloadManager
            stack.callback(setattr, manager, '_download', manager._download)
            manager._download = refuse
            stack.callback(tfds.enable_progress_bar)
            tfds.disable_progress_bar()
        settings = tfds.download.DownloadConfig(manual_dir=manual_dir, try_download_gcs=False)
        try:
            builder.download_and_prepare(download_config=settings)
        except Exception as error:
            if not refused:
                raise UserError(
                    f'data.dataset={name!r} could not be prepared by TFDS '
                    f'({type(error).__name__}: {first_line(error)}): mend that, or prepare it on '
                    'another machine and copy the folder to data.data_dir.'
                ) from error
            raise UserError(
                f'data.dataset={name!r} is not prepared in {builder.data_dir_root} and '
                f'{refused[0]} cannot be reached: on a machine with a network run '
                f'python -c "import tensorflow_datasets as tfds; tfds.load({name!r})" and copy '
                'the folder ~/tensorflow_datasets that it fills to data.data_dir, or set '
                'data.manual_dir to a folder with the archives.'
            ) from None


class HuggingFaceCorpus:
    """A dataset of the Hugging Face hub, or one on disk that its `datasets` package reads."""

    def __init__(self, config: DataConfig, offline: bool = False):
        """Opens the dataset, which is downloaded or converted first if need be.

        Args:
          config: names it.
          offline: takes it only as it is on this machine, and keeps no converted copy of a file.
        """
        copies = tempfile.TemporaryDirectory(prefix='transformer_jax-') if offline else None
        self._copies = copies  # it is removed with this object
        loaded = _load_hugging_face(config, copies and copies.name)
        chosen, self.names = _choose_splits(config, loaded)
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
            texts = (text for pair in self.pairs(split) for text in pair)
            self._digests[split] = content_digest(texts)
        return self._digests[split]


def _load_hugging_face(config: DataConfig, copies: str | None) -> dict[str, Any]:
    """The splits by name, each a memory-mapped `datasets.Dataset`.

    Args:
      config: names the dataset.
      copies: where to convert files to, and nothing is downloaded; None for the package's cache.
    """
    try:
        import datasets
        import huggingface_hub
    except ModuleNotFoundError:
        raise Unavailable(
            "data.corpus='huggingface' needs the package datasets: pip install -e '.[huggingface]'."
        ) from None
    name = config.dataset
    path = pathlib.Path(os.path.expanduser(name))
    hub = datasets.config.HF_ENDPOINT
    offline = copies is not None or datasets.config.HF_HUB_OFFLINE
    found = os.path.exists(path) or (not offline and _reachable([hub]))
    # Named alone, a format reads all files of the folder that the process is in.
    if name in getattr(datasets.packaged_modules, '_PACKAGED_DATASETS_MODULES', ()):
        raise Unavailable(
            f'data.dataset={name!r} is a format of the package datasets, not a dataset: name a '
            'file, a folder or a dataset of the hub.'
        )
    if os.path.isfile(path) and TextFile('data.dataset', path).kind not in _HUGGING_FACE_FILES:
        # The package would look for a dataset of that name, or run a pickle.
        raise Unavailable(
            f'data.dataset={name!r} is a file of a kind that is not read: give one whose name ends '
            f'in {", ".join(_HUGGING_FACE_FILES)}, or a folder.'
        )
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        if not found or offline:
            # In this mode the package looks into its cache only, where else it retries.
            for settings in (datasets.config, huggingface_hub.constants):
                stack.callback(setattr, settings, 'HF_HUB_OFFLINE', settings.HF_HUB_OFFLINE)
                settings.HF_HUB_OFFLINE = True
        try:
            if os.path.exists(path):
                loaded = _load_local(datasets, path, copies)
            else:
                # 'owner/name/part' names a configuration, as 'name/part' does with TFDS.
                parts = name.split('/')
                loaded = datasets.load_dataset('/'.join(parts[:2]), '/'.join(parts[2:]) or None)
        except Unavailable:
            raise
        except Exception as error:
            if found:
                raise UserError(
                    f'data.dataset={name!r} cannot be loaded by the package datasets: '
                    f'{first_line(error.__cause__ or error)}.'
                ) from error
            remedy = (
                f', and {hub} cannot be reached: name a folder made by save_to_disk, or start once '
                'on a machine with a network.'
                if copies is None
                else ': train with it here first, or name files (--source, --reference).'
            )
            raise Unavailable(
                f'data.dataset={name!r} is neither a file or folder here nor in the cache of the '
                f'package datasets{remedy}'
            ) from None
    return dict(loaded) if isinstance(loaded, dict) else {'train': loaded}


def _load_local(datasets: Any, path: pathlib.Path, copies: str | None) -> Any:
    if os.path.isdir(path):
        if any(os.path.isfile(path / name) for name in ('dataset_dict.json', 'state.json')):
            return datasets.load_from_disk(str(path))
        if copies and any(os.path.exists(path / name) for name in _DATASET_CARDS):
            raise Unavailable(
                f'data.dataset={str(path)!r} has a README.md, which may name files of anywhere: '
                'name files (--source, --reference), or train with a folder made by save_to_disk.'
            )
        return datasets.load_dataset(str(path), cache_dir=copies)
    kind = TextFile('data.dataset', path).kind
    options: dict[str, Any] = {}
    if kind in ('.csv', '.tsv'):
        options['keep_default_na'] = False  # else 'None' and 'NA' would be taken for missing text
    if kind == '.tsv':
        options |= {'sep': '\t', 'quoting': csv.QUOTE_NONE}
    module = _HUGGING_FACE_FILES[kind]
    return datasets.load_dataset(module, data_files=str(path), cache_dir=copies, **options)


def _text_columns(features: Any, config: DataConfig) -> tuple[tuple[str, str], str]:
    """The two keys to read, and the column of dicts that they are in ('' for the row itself)."""
    where = f'data.dataset={config.dataset!r}'
    if 'translation' in features and not (config.source_column or config.target_column):
        nested = features['translation']
        languages = list(getattr(nested, 'languages', None) or nested)
        return _check_languages(config, languages), 'translation'
    columns = column_names(where, features, config)
    for side, column in zip(('source', 'target'), columns, strict=True):
        if getattr(features[column], 'dtype', None) not in ('string', 'large_string'):
            raise UserError(
                f'data.{side}_column={column!r} holds no text in {where}: name another of '
                f'{listing(features)}.'
            )
    return columns, ''


def _choose_splits(
    config: DataConfig, splits: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, str]]:
    """The dataset's split for each of ours, and what messages call it.

    Dev or test is absent where it must be held out.
    """
    chosen, labels = {}, {}
    for split in ('train', 'dev', 'test'):
        field = f'{split}_split'
        name = getattr(config, field)
        try:  # not `in`: TFDS looks up expressions such as 'train[:90%]' as well
            found = bool(name) and splits[name] is not None
        except (KeyError, ValueError, AssertionError):
            found = False
        if found:
            chosen[split] = name
            labels[split] = f'data.{field}={name!r} of {config.dataset!r}'
        elif split == 'train' or name not in ('', getattr(DataConfig, field)):
            raise UserError(
                f'data.{field}={name!r} is not a split of {config.dataset!r}, which has '
                f'{listing(splits)}.'
            )
    return chosen, labels


def _columns_or_languages(config: DataConfig, known: list[str]) -> tuple[str, str]:
    """The columns that the config names, else those of its languages; `known` must have both."""
    if config.source_column or config.target_column:
        return column_names(f'data.dataset={config.dataset!r}', known, config)
    return _check_languages(config, known)


def _check_languages(config: DataConfig, known: list[str]) -> tuple[str, str]:
    """The source and target languages, both of which the dataset must have."""
    pair = (config.source_language, config.target_language)
    if pair[0] == pair[1]:
        raise UserError(
            f'data.target_language={pair[1]!r} is the source language as well, of which '
            f'{config.dataset!r} has one text for each pair: name two columns of text in '
            'data.source_column and data.target_column, or choose another data.dataset.'
        )
    for side, language in zip(('source', 'target'), pair, strict=True):
        if language not in known:
            has = f'which has {listing(known)}' if known else 'which has no text by language'
            raise UserError(
                f'data.{side}_language={language!r} is not a language of {config.dataset!r}, {has}.'
            )
    return pair


def _reachable(urls: list[str]) -> bool:
    """Whether the host of any of these answers within seconds."""
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
    hosts = {urllib.parse.urljoin(url, '/') for url in urls}
    threads = [threading.Thread(target=ask, args=(host,), daemon=True) for host in hosts]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + _PROBE_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return answered.is_set()
