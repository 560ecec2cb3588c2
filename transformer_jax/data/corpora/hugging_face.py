"""Sentence pairs from datasets that Hugging Face's package `datasets` reads."""

import contextlib
import csv
import logging
import os
import pathlib
import pkgutil
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from transformer_jax.config import DataConfig
from transformer_jax.data.corpora.columns import (
    Unavailable,
    check_languages,
    choose_splits,
    column_names,
    listed_pairs,
)
from transformer_jax.data.corpora.tables import JSON_LINES
from transformer_jax.data.corpora.text_files import Pair, TextFile
from transformer_jax.errors import UserError, first_line, listing
from transformer_jax.storage.cache import content_digest

# Suffixes of the files that `datasets` reads, and its names of their formats.
_FORMATS = {
    '.csv': 'csv',
    '.tsv': 'csv',
    '.json': 'json',
    **dict.fromkeys(JSON_LINES, 'json'),
    '.parquet': 'parquet',
    '.arrow': 'arrow',
}
_LISTED = ('language', 'translation')  # keys of rows that list texts with their languages
_DATASET_CARDS = ('README.md', '.huggingface.yaml')
_logger = logging.getLogger('transformer_jax')


class HuggingFaceCorpus:
    """A dataset of the Hugging Face hub, or a file or folder on disk."""

    def __init__(self, config: DataConfig, offline: bool = False):
        """Open the dataset, and download or convert it first if necessary.

        Args:
          config: names the dataset.
          offline: reads only what is on this machine, and keeps no converted copy of a file.

        Raises:
          UserError: if the dataset, its languages or its columns cannot be read.
        """
        # Keeping a reference here removes the folder together with this object.
        self._copies = copies = (
            tempfile.TemporaryDirectory(prefix='transformer_jax-') if offline else None
        )
        loaded = _load(config, copies and copies.name)
        chosen, self.names = choose_splits(config, loaded)
        self._digests: dict[str, str] = {}
        self._reported: set[str] = set()
        self._tables = {}
        for split, name in chosen.items():
            keys, nested, is_listed = _text_columns(loaded[name], config)
            table = loaded[name].with_format(None).select_columns(nested or list({*keys}))
            self._tables[split] = (table, keys, nested, is_listed)

    def pairs(self, split: str) -> Iterator[Pair]:
        table, keys, nested, is_listed = self._tables[split]
        empty = 0
        for batch in table.iter(batch_size=1024):
            rows = [row or {} for row in batch[nested]] if nested else []
            if is_listed:
                for row in rows:
                    found = [*listed_pairs(*(row.get(key) or () for key in _LISTED), keys)]
                    empty += not found
                    yield from found
                continue
            if nested:
                batch = {key: [row.get(key) for row in rows] for key in keys}
            for pair in zip(*(batch[key] for key in keys), strict=True):
                if None in pair:
                    empty += 1
                else:
                    yield pair
        if empty and split not in self._reported:
            self._reported.add(split)
            _logger.warning('%s: left out %d rows without text.', self.names[split], empty)

    def fingerprint(self, split: str) -> str:
        if split not in self._digests:
            texts = (text for pair in self.pairs(split) for text in pair)
            self._digests[split] = content_digest(texts)
        return self._digests[split]


def _load(config: DataConfig, copies: str | None) -> dict[str, Any]:
    """Return the splits by name, each a memory-mapped `datasets.Dataset`.

    Args:
      config: names the dataset.
      copies: the folder for converted files; nothing is downloaded then. None uses the cache of the
        package, and downloads what is missing.
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
    # The name of a format alone would read all files of the current folder.
    if name in {module.name for module in pkgutil.iter_modules(datasets.packaged_modules.__path__)}:
        raise Unavailable(
            f'data.dataset={name!r} is a format of the package datasets, not a dataset: name a '
            'file, a folder or a dataset of the hub.'
        )
    if os.path.isfile(path) and TextFile('data.dataset', path).kind not in _FORMATS:
        # The package would look for a dataset of that name, or run a pickle.
        raise Unavailable(
            f'data.dataset={name!r} is a file of an unknown kind: name a folder, or a file that '
            f'ends in {", ".join(_FORMATS)}.'
        )
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        if copies:  # never download; the environment variable counts only before the first import
            for settings in (datasets.config, huggingface_hub.constants):
                stack.callback(setattr, settings, 'HF_HUB_OFFLINE', settings.HF_HUB_OFFLINE)
                settings.HF_HUB_OFFLINE = True
        try:
            if os.path.exists(path):
                loaded = _load_local(datasets, path, copies)
            else:
                # 'owner/name/configuration', as in 'name/configuration' of TFDS.
                parts = name.split('/')
                loaded = datasets.load_dataset('/'.join(parts[:2]), '/'.join(parts[2:]) or None)
        except UserError:
            raise
        except Exception as error:
            if copies and not os.path.exists(path):
                raise Unavailable(
                    f'data.dataset={name!r} is neither a file or folder here nor in the cache of '
                    'the package datasets: train with it here first, or name files (--source, '
                    '--reference).'
                ) from None
            problem = (
                f'data.dataset={name!r} cannot be loaded by the package datasets: '
                f'{first_line(error.__cause__ or error)}.'
            )
            if not os.path.exists(path):
                problem += (
                    ' Check the name and the network, or name a folder made by save_to_disk; with '
                    'HF_HUB_OFFLINE=1 the package reads its cache only.'
                )
            raise UserError(problem) from error
    return dict(loaded) if isinstance(loaded, dict) else {'train': loaded}


def _load_local(datasets: Any, path: pathlib.Path, copies: str | None) -> Any:
    if os.path.isdir(path):
        if any(os.path.isfile(path / name) for name in ('dataset_dict.json', 'state.json')):
            return datasets.load_from_disk(str(path))
        if copies and any(os.path.exists(path / name) for name in _DATASET_CARDS):
            raise Unavailable(
                f'data.dataset={str(path)!r} has a README.md, which may name files anywhere: '
                'name files (--source, --reference), or train with a folder made by save_to_disk.'
            )
        return datasets.load_dataset(str(path), cache_dir=copies)
    file = TextFile('data.dataset', path)
    file.check_whole()  # the package ignores what stands behind the end
    kind = file.kind
    options: dict[str, Any] = {}
    if kind in ('.csv', '.tsv'):
        options['keep_default_na'] = False  # otherwise 'None' and 'NA' would be missing values
    if kind == '.tsv':
        options |= {'sep': '\t', 'quoting': csv.QUOTE_NONE}
    return datasets.load_dataset(_FORMATS[kind], data_files=str(path), cache_dir=copies, **options)


def _text_columns(table: Any, config: DataConfig) -> tuple[tuple[str, str], str, bool]:
    """Return the two keys to read, the column of dicts that holds them, and if it lists texts.

    The column is '' if the keys are columns of the row itself.
    """
    where, features = f'data.dataset={config.dataset!r}', table.features
    if 'translation' in features and not (config.source_column or config.target_column):
        nested = features['translation']
        keys = list(nested) if isinstance(nested, dict) else []
        is_listed = type(nested).__name__ == 'TranslationVariableLanguages' or (
            sorted(keys) == sorted(_LISTED)
        )
        if is_listed:  # unless it names the languages, each row does
            keys = [config.source_language, config.target_language]
        languages = list(getattr(nested, 'languages', None) or keys)
        return check_languages(config, languages), 'translation', is_listed
    # The package calls the second column 'en' of a CSV file 'en.1'.
    is_csv = table.info.builder_name == 'csv'
    again = [name for name in features if is_csv and f'{name}.1' in features]
    columns = column_names(where, [*features, *again], config)
    for side, column in zip(('source', 'target'), columns, strict=True):
        if getattr(features[column], 'dtype', None) not in ('string', 'large_string'):
            raise UserError(
                f'data.{side}_column={column!r} holds no text in {where}: name another of '
                f'{listing(features)}.'
            )
    return columns, '', False
