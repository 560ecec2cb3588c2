"""Sentence pairs from TensorFlow Datasets (TFDS)."""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from transformer_jax.config import DataConfig
from transformer_jax.data._tensorflow import import_tensorflow
from transformer_jax.data.corpora.columns import (
    Unavailable,
    check_languages,
    choose_splits,
    column_names,
    listed_pairs,
)
from transformer_jax.data.corpora.text_files import Pair
from transformer_jax.errors import UserError, did_you_mean, first_line, listing
from transformer_jax.storage.cache import content_digest

_BATCH = 1024  # rows


class TfdsCorpus:
    """A translation dataset of TFDS, in either direction."""

    def __init__(self, config: DataConfig, offline: bool = False):
        """Open the dataset, and prepare it first if necessary.

        Args:
          config: names the dataset.
          offline: reads only what is prepared on this machine, and runs no code of the dataset.

        Raises:
          UserError: if the dataset, its languages or its columns cannot be read.
        """
        self._tfds = tfds = _import_tfds()
        from transformer_jax.data.corpora import tfds_private

        with tfds_private.only_features_of_tfds(config.dataset):
            open_builder = _builder_from_files if offline else _find_builder
            self._builder, prepared = open_builder(tfds, config)
            info = self._builder.info
            self._columns, self._inside, self._is_listed = _text_columns(tfds, info, config)
            if not prepared:  # last, because a wrong language should not cost a download
                _prepare(tfds, self._builder, config)
        self._splits, self.names = choose_splits(config, info.splits)

    def pairs(self, split: str) -> Iterator[Pair]:
        name = f'{self.names[split]} cannot be read from {self._builder.data_dir}'
        try:
            for batch in self._batches(self._splits[split]):
                if self._is_listed:
                    for row in zip(*batch, strict=True):
                        listed = ([text.decode() for text in texts] for texts in row)
                        yield from listed_pairs(*listed, self._columns)
                else:
                    sides = ([text.decode() for text in texts] for texts in batch)
                    yield from zip(*sides, strict=True)
        except (ImportError, NotImplementedError) as error:
            files = f'{self._builder.info.file_format.value} files ({first_line(error)})'
            raise UserError(
                f'{name}, which has {files}: install what reads these, or prepare the dataset '
                'again, as tfrecord.'
            ) from None
        except (import_tensorflow().errors.OpError, RuntimeError) as error:
            raise UserError(
                f'{name} ({first_line(error)}): remove that folder, and it will be prepared again.'
            ) from None

    def _batches(self, split: str) -> Iterator[list[Sequence[Any]]]:
        """Yield the columns of many rows; if texts are listed, their languages and the texts."""
        names = ('language', 'translation') if self._is_listed else self._columns

        def columns(row: Any) -> list[Any]:
            row = row[self._inside] if self._inside else row
            return [row[name] for name in names]

        # In batches, because crossing from TensorFlow to Python costs more than reading.
        if self._builder.info.file_format.value == 'array_record':
            rows = self._builder.as_data_source(split=split)
            for begin in range(0, len(rows), _BATCH):
                found = rows.__getitems__(range(begin, min(begin + _BATCH, len(rows))))
                yield list(zip(*map(columns, found), strict=True))
            return
        # Reading one shard after the other gives the same order on every machine.
        read = self._tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
        dataset = self._builder.as_dataset(split=split, read_config=read)
        dataset = dataset.map(lambda row: tuple(columns(row)))
        batched = dataset.ragged_batch if self._is_listed else dataset.batch
        yield from map(list, batched(_BATCH).prefetch(2).as_numpy_iterator())

    def fingerprint(self, split: str) -> str:
        info, name = self._builder.info, self._splits[split]
        return content_digest(
            [info.full_name, name, *self._columns, str(info.splits[name].num_examples)]
        )


def _text_columns(tfds: Any, info: Any, config: DataConfig) -> tuple[tuple[str, str], str, bool]:
    """Return the two columns, the feature that holds them, and whether it lists texts by language.

    The feature is '' if they are columns of the row itself.
    """
    kinds, features, inside = tfds.features, info.features, ''
    named = config.source_column or config.target_column
    if isinstance(features, kinds.FeaturesDict) and not named:
        by_language = (kinds.Translation, kinds.TranslationVariableLanguages)
        nested = [name for name in features if isinstance(features[name], by_language)]
        if len(nested) == 1:
            (inside,) = nested
            features = features[inside]
    if isinstance(features, kinds.TranslationVariableLanguages):
        languages = (config.source_language, config.target_language)
        return check_languages(config, sorted(features.languages or languages)), inside, True
    is_dict = isinstance(features, kinds.FeaturesDict)
    known = [x for x in features if isinstance(features[x], kinds.Text)] if is_dict else []
    if named:
        return column_names(f'data.dataset={config.dataset!r}', known, config), '', False
    return check_languages(config, known), inside, False


def _import_tfds():
    try:
        import_tensorflow()
        import tensorflow_datasets as tfds
    except ModuleNotFoundError as error:
        remedy = 'pip install tensorflow-cpu tensorflow-datasets importlib_resources.'
        if sys.version_info >= (3, 14):
            remedy = 'TensorFlow has no build for Python 3.14 yet, so use Python 3.11 to 3.13.'
        raise Unavailable(
            f"data.corpus='tfds' needs the package {error.name!r}: {remedy}"
        ) from None
    return tfds


def _builder_from_files(tfds: Any, config: DataConfig) -> tuple[Any, bool]:
    """Return the builder of a dataset that is prepared on this machine, and True.

    No code of the dataset is imported.
    """
    from transformer_jax.data.corpora import tfds_private

    data_dir = os.path.expanduser(config.data_dir) or None
    if '://' in config.data_dir:
        raise Unavailable(
            f'data.data_dir={config.data_dir!r} is not on this machine: name files (--source, '
            '--reference).'
        )
    try:
        return tfds_private.builder_from_files(config.dataset, data_dir, import_code=False), True
    except tfds.core.DatasetNotFoundError:
        raise Unavailable(
            f'data.dataset={config.dataset!r} is not prepared in '
            f'{data_dir or "the folder of TFDS"}: prepare it there by training with it, or name '
            'files (--source, --reference).'
        ) from None


def _find_builder(tfds: Any, config: DataConfig) -> tuple[Any, bool]:
    """Return the builder of the dataset, and whether it is prepared on this machine."""
    from transformer_jax.data.corpora import tfds_private

    name = config.dataset
    data_dir = os.path.expanduser(config.data_dir) or None
    try:
        base, options = tfds_private.parsed_name(name)
    except ValueError as error:
        raise UserError(
            f'data.dataset={name!r} is not a valid name: {first_line(error)}.'
        ) from None
    if base.namespace:
        raise UserError(
            f'data.dataset={name!r} is not a dataset of TFDS itself: drop {base.namespace!r}, or '
            "set data.corpus='huggingface'."
        )
    # A prepared dataset needs no code and no network, but tfds.builder would look for the code.
    with contextlib.suppress(tfds.core.DatasetNotFoundError):
        return tfds_private.builder_from_files(name, data_dir), True
    try:
        builder_class = tfds.builder_cls(base.name)
    except tfds.core.DatasetNotFoundError:
        known = tfds.list_builders(with_community_datasets=False)
        raise UserError(
            f'data.dataset={name!r} is not a dataset of TFDS and is not prepared in '
            f'{data_dir or "its folder"}{did_you_mean(base.name, known)}'
        ) from None
    kinds = builder_class.builder_configs
    if options.get('config') and options['config'] not in kinds:
        raise UserError(
            f'data.dataset={name!r} is not a configuration of {base.name}, which has '
            f'{listing(kinds)}.'
        )
    try:
        return tfds.builder(name, data_dir=data_dir), False
    except (AssertionError, ValueError) as error:  # such as a version that does not exist
        raise UserError(f'data.dataset={name!r} cannot be used: {first_line(error)}.') from None


def _prepare(tfds: Any, builder: Any, config: DataConfig) -> None:
    """Download the dataset, or build it from the archives in data.manual_dir."""
    name = config.dataset
    manual_dir = os.path.expanduser(config.manual_dir) or None
    if manual_dir and not os.path.isdir(manual_dir):
        raise UserError(f'data.manual_dir={config.manual_dir!r} is not a folder: make it.')
    settings = tfds.download.DownloadConfig(manual_dir=manual_dir, try_download_gcs=False)
    try:
        # TFDS announces downloads on stdout, which is for results.
        with contextlib.redirect_stdout(sys.stderr):
            builder.download_and_prepare(download_config=settings)
    except Exception as error:
        hub = ''
        if name.startswith('wmt14_translate/'):
            same = name.replace('wmt14_translate/', 'wmt/wmt14/')
            hub = f", or set data.corpus='huggingface' and data.dataset={same!r} (the hub)"
        raise UserError(
            f'data.dataset={name!r} is not prepared in {builder.data_dir_root} and TFDS cannot '
            f'prepare it ({type(error).__name__}: {first_line(error)}): on a machine with a '
            f'network run python -c "import tensorflow_datasets as tfds; tfds.load({name!r})" and '
            'copy the folder ~/tensorflow_datasets to data.data_dir, or set data.manual_dir to a '
            f'folder with the archives{hub}.'
        ) from error
