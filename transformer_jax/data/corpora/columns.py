"""The splits, columns and languages that a config chooses from a dataset."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from transformer_jax.config import DataConfig
from transformer_jax.errors import UserError, listing


class Unavailable(UserError):
    """A dataset cannot be read on this machine. The message quotes none of its content."""


def choose_splits(
    config: DataConfig, splits: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the dataset's name of each of our splits, and its name in messages.

    Dev or test is absent if it must be held out of train.

    Raises:
      UserError: if the dataset has no such split.
    """
    chosen, labels = {}, {}
    for split in ('train', 'dev', 'test'):
        field = f'{split}_split'
        name = getattr(config, field)
        try:  # not `in`, because TFDS also looks up expressions such as 'train[:90%]'
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


def check_languages(config: DataConfig, known: list[str]) -> tuple[str, str]:
    """Return the source and target languages.

    Raises:
      UserError: if both are the same, or the dataset does not have both.
    """
    pair = (config.source_language, config.target_language)
    if pair[0] == pair[1]:
        raise UserError(
            f'data.target_language={pair[1]!r} is also the source language, but '
            f'{config.dataset!r} has one text per language: name two columns of text in '
            'data.source_column and data.target_column, or choose another data.dataset.'
        )
    for side, language in zip(('source', 'target'), pair, strict=True):
        if language not in known:
            has = f'which has {listing(known)}' if known else 'which has no text by language'
            raise UserError(
                f'data.{side}_language={language!r} is not a language of {config.dataset!r}, {has}.'
            )
    return pair


def column_names(
    where: Any, available: Iterable[str], config: DataConfig, line: str = ','
) -> tuple[str, str]:
    """Return the source and target columns.

    They are those that the config names, otherwise those named like its languages.

    Args:
      where: the file or dataset, for messages.
      available: names of its columns.
      config: names the columns or the languages.
      line: the place in a file, for messages; it follows `where`.

    Raises:
      UserError: if a column does not exist or is there twice, or both are the same.
    """
    available = list(available)
    source = config.source_column or config.source_language
    target = config.target_column or config.target_language
    if source == target:
        raise UserError(
            f'source and target would both be the column {source!r} of {where}{line} which has '
            f'{listing(available)}: name one for each in data.source_column and '
            'data.target_column.'
        )
    for side, column in (('source', source), ('target', target)):
        if column not in available:
            name = getattr(config, f'{side}_column')
            missing = 'is not one' if name else f'must name one (there is no {column!r})'
            raise UserError(
                f'data.{side}_column={name!r} {missing} of the columns of {where}{line} which has '
                f'{listing(available)}.'
            )
        check_single(where, available, column, line)
    return source, target


def check_single(where: Any, available: Sequence[str], column: str, line: str = ',') -> None:
    """Raise UserError if a column is there more than once; see `column_names`."""
    if available.count(column) > 1:
        place = f'{where}{"" if line == "," else line}'
        raise UserError(
            f'{place} has {available.count(column)} columns {column!r}: give each a name of '
            'its own, so that it is clear which is meant.'
        )


def listed_pairs(
    languages: Sequence[str], texts: Sequence[str], pair: tuple[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a row that lists texts with their languages.

    A text with several translations makes a pair with each, and one without makes none.

    Args:
      languages: the language of each text.
      texts: in any number of languages.
      pair: the source and target languages.
    """
    sides = [[x for code, x in zip(languages, texts, strict=True) if code == own] for own in pair]
    return itertools.product(*sides)
