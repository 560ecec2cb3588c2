"""Writes metrics to metrics.jsonl and to a tracker: the same numbers in both."""

import json
import logging
import os
from pathlib import Path
from typing import Any

from transformer_jax.storage.files import (
    atomic_write,
    check_shape,
    finite,
    parse_json,
    read_regular,
)
from transformer_jax.training.logs.trackers import Tracker

_logger = logging.getLogger('transformer_jax')


class MetricsWriter:
    """Appends records to metrics.jsonl, and their numbers to a tracker."""

    def __init__(self, path: Path, tracker: Tracker, *, step: int, read_only: bool = False):
        """Open metrics.jsonl and drop the records of steps after `step`, where the run resumes.

        Args:
          path: the path of metrics.jsonl.
          tracker: takes the numbers as well.
          step: the last step whose records are kept.
          read_only: keep records in memory only, for processes other than process 0.
        """
        records, unreadable = _read(path)
        kept = self.records = [record for record in records if record['step'] <= step]
        # The tracker has the records that are dropped; the resumed run repeats their numbers.
        self._tracked = {(record['kind'], record['step']) for record in records}
        self._file = None
        self._tracker = tracker
        if read_only:
            return
        if unreadable:
            aside = path.with_name(f'{path.name}.damaged')
            _logger.warning(
                '%d lines of %s cannot be read and are removed; a copy of the file is kept as %s.',
                unreadable,
                path,
                aside.name,
            )
            with atomic_write(aside, 'wb') as copy:
                copy.write(path.read_bytes())
        with atomic_write(path) as file:
            file.writelines(json.dumps(finite(record)) + '\n' for record in kept)
        self._file = path.open('a', encoding='utf-8')

    def write(self, record: dict[str, Any]) -> None:
        """Write one record at once: 'step', 'kind' ('train' or 'dev') and numbers.

        A number that is not finite becomes None, and no number of the tracker.
        """
        record = finite(record)
        self.records.append(record)
        if self._file is None:
            return
        self._file.write(json.dumps(record) + '\n')
        self._file.flush()
        kind = record['kind']
        if (kind, record['step']) in self._tracked:
            return
        named = {k: v for k, v in record.items() if k not in ('step', 'kind')}
        numbers = {name: value for name, value in named.items() if value is not None}
        self._tracker.write(record['step'], {f'{kind}/{name}': x for name, x in numbers.items()})

    def close(self) -> None:
        """Close both."""
        if self._file is not None:
            self._file.close()
        self._tracker.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the records of metrics.jsonl, without lines that are not records."""
    return _read(path)[0]


def _read(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the records and the number of damaged lines.

    The last line does not count as damaged: a kill may have cut it.
    """
    if not os.path.exists(path):
        return [], 0
    records, unreadable = [], 0
    *lines, rest = read_regular(path).split(b'\n')
    for line in [*lines, rest]:
        try:
            record = parse_json(line, {'step': int, 'kind': str})
            if record['kind'] == 'dev':
                check_shape(record, {'bleu': float, 'loss': (float, None)})
        except ValueError:
            unreadable += line is not rest
        else:
            records.append(record)
    return records, unreadable
