"""Sentence pairs from tables: TSV, CSV and JSON lines."""

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from transformer_jax.config import DataConfig
from transformer_jax.data.corpora.columns import check_single, column_names
from transformer_jax.errors import UserError

if TYPE_CHECKING:
    from transformer_jax.data.corpora.text_files import TextFile

JSON_LINES = ('.jsonl', '.jsonlines', '.json-lines', '.ndjson')
TABLES = ('.tsv', '.csv', *JSON_LINES)


def table_pairs(file: 'TextFile', config: DataConfig) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a table, by the columns that a config names.

    CSV has quotes and TSV has none; their first row names the columns. JSON lines have an object in
    each line.

    Raises:
      UserError: if a column is missing or there twice, or a line cannot be read.
    """
    return (_json_pairs if file.kind in JSON_LINES else _pairs_of_rows)(file, config)


def _pairs_of_rows(file: 'TextFile', config: DataConfig) -> Iterator[tuple[str, str]]:
    rows = _csv_rows(file) if file.kind == '.csv' else _tsv_rows(file)
    _, header = next(rows, (0, None))
    if header is None:
        return
    source, target = (header.index(column) for column in column_names(file, header, config))
    for number, row in rows:
        if len(row) != len(header):
            raise UserError(
                f'{file}, line {number}, has {len(row)} fields but the header has {len(header)}: '
                'fix the line.'
            )
        yield row[source], row[target]


def _tsv_rows(file: 'TextFile') -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(file.sentences(), 1):
        if line:
            yield number, line.split('\t')


def _csv_rows(file: 'TextFile') -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(sys.maxsize)  # global; the default is 131,072 characters
    # Without `strict`, an unclosed quote would take the rest of the file as one cell.
    reader = csv.reader(file.lines(), strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise UserError(
            f'{file}, line {reader.line_num}, is not valid CSV ({error}): fix the line.'
        ) from None


def _json_pairs(file: 'TextFile', config: DataConfig) -> Iterator[tuple[str, str]]:
    """Yield pairs from one JSON object per line, or from its object 'translation'."""
    named = config.source_column or config.target_column
    by_language = not named and config.source_language != config.target_language
    for number, line in enumerate(file.lines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=_Row)
        except (ValueError, RecursionError) as error:
            reason = str(error).split(':')[0]
            raise UserError(
                f'{file}, line {number}, is not valid JSON ({reason}): fix the line.'
            ) from None
        place = f', line {number},'
        if by_language and isinstance(row, _Row) and isinstance(row.get('translation'), _Row):
            check_single(file, row.names, 'translation', place)
            row = row['translation']
        if not isinstance(row, _Row):
            raise UserError(f'{file}{place} is not a JSON object: fix the line.')
        source, target = column_names(file, row.names, config, place)
        pair = (row[source], row[target])
        try:
            ''.join(pair).encode()
        except (TypeError, UnicodeEncodeError):  # JSON can escape half a character: "\ud83d"
            raise UserError(
                f'{file}, line {number}, holds something other than text: fix the line.'
            ) from None
        yield pair


class _Row(dict[str, Any]):
    """A JSON object, and the names of its members as they are written, maybe twice."""

    def __init__(self, members: Sequence[tuple[str, Any]]):
        super().__init__(members)
        self.names = [name for name, _ in members]
