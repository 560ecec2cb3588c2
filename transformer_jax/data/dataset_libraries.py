"""Sentence pairs from TensorFlow Datasets and from Hugging Face's package `datasets`."""

import contextlib
import csv
import dataclasses
import functools
import http.client
import io
import logging
import os
import pathlib
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from transformer_jax.cache import content_digest
from transformer_jax.config import DataConfig
from transformer_jax.data._tensorflow import import_tensorflow
from transformer_jax.data.text_files import JSON_LINES, Pair, TextFile, column_names
from transformer_jax.errors import UserError, did_you_mean, first_line, listing

_PROBE_SECONDS = 4.0
_logger = logging.getLogger('transformer_jax')


class TfdsCorpus:
    """A translation dataset of TensorFlow Datasets, in either direction."""

    def __init__(self, config: DataConfig):
        tfds = _import_tfds()
        self._tf = import_tensorflow()
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
                f'({first_line(error)}): remove that folder and have it prepared again.'
            ) from None

    def fingerprint(self, split: str) -> str:
        info, name = self._builder.info, self._splits[split]
        return content_digest(
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
            f'({type(error).__name__}: {first_line(error)}): mend that, or prepare it on another '
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
            texts = (text for pair in self.pairs(split) for text in pair)
            self._digests[split] = content_digest(texts)
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
                    f'{first_line(error.__cause__ or error)}.'
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
    kind = TextFile('data.dataset', path).kind
    if kind in ('.csv', '.tsv'):
        # Without the first option 'None' and 'NA' would be taken for missing text.
        options = {'keep_default_na': False}
        if kind == '.tsv':
            options |= {'sep': '\t', 'quoting': csv.QUOTE_NONE}
        return datasets.load_dataset('csv', data_files=str(path), **options)
    module = 'json' if kind in ('.json', *JSON_LINES) else kind[1:]
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
    columns = column_names(where, features, config)
    for side, column in zip(('source', 'target'), columns, strict=True):
        if getattr(features[column], 'dtype', None) not in ('string', 'large_string'):
            raise UserError(
                f'data.{side}_column={column!r} holds no text in {where}: name another of '
                f'{listing(features)}.'
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
                f'{listing(names)}.'
            )
    return chosen


def _split_labels(config: DataConfig, splits: dict[str, str]) -> dict[str, str]:
    return {
        split: f'data.{split}_split={name!r} of {config.dataset!r}'
        for split, name in splits.items()
    }


def _check_language(field: str, language: str, dataset: str, known: list[str]) -> None:
    if language not in known:
        has = f'which has {listing(known)}' if known else 'which has no text by language'
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
