"""Writes metrics to metrics.jsonl and to TensorBoard: the same numbers in both."""

import functools
import json
import logging
import os
from pathlib import Path
from typing import Any

from transformer_jax.storage.files import atomic_write, check_shape, parse_json, read_regular

_logger = logging.getLogger('transformer_jax')


class MetricsWriter:
    """Appends records to metrics.jsonl and scalars to TensorBoard."""

    def __init__(self, path: Path, tensorboard: Path, *, step: int, read_only: bool = False):
        """Open metrics.jsonl and drop the records of steps after `step`, where the run resumes.

        Args:
          path: the path of metrics.jsonl.
          tensorboard: the folder of event files.
          step: the last step whose records are kept.
          read_only: keep records in memory only, for processes other than process 0.
        """
        records, unreadable = _read(path)
        kept = self.records = [record for record in records if record['step'] <= step]
        self._file = self._summary = None
        self._folder = tensorboard
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
            file.writelines(json.dumps(record) + '\n' for record in kept)
        self._file = path.open('a', encoding='utf-8')

    def write(self, record: dict[str, Any]) -> None:
        """Write one record at once: 'step', 'kind' ('train' or 'dev') and numbers."""
        self.records.append(record)
        if self._file is None:
            return
        self._file.write(json.dumps(record) + '\n')
        self._file.flush()
        tf = self._tensorflow
        if tf is None:
            return
        if self._summary is None:
            self._summary = tf.summary.create_file_writer(str(self._folder))
        # tf.summary.scalar would need the tensorboard package, which only readers need.
        metadata = tf.compat.v1.SummaryMetadata(
            plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name='scalars')
        )
        metadata.data_class = 1  # DATA_CLASS_SCALAR
        for name, value in record.items():
            if name not in ('step', 'kind'):
                tag, tensor = f'{record["kind"]}/{name}', tf.constant(value, tf.float32)
                with self._summary.as_default():
                    tf.summary.write(tag, tensor, step=record['step'], metadata=metadata)
        self._summary.flush()

    def close(self) -> None:
        """Close both files."""
        if self._file is not None:
            self._file.close()
        if self._summary is not None:
            self._summary.close()

    @functools.cached_property
    def _tensorflow(self) -> Any:
        """TensorFlow, imported for the first record because that takes seconds; None if missing."""
        try:
            from transformer_jax.data._tensorflow import import_tensorflow

            return import_tensorflow()
        except ImportError:
            _logger.warning('tensorflow is not installed: metrics go to metrics.jsonl only.')
            return None


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
                check_shape(record, {'bleu': float, 'loss': float})
        except ValueError:
            unreadable += line is not rest
        else:
            records.append(record)
    return records, unreadable
