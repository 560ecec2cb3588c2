"""metrics.jsonl and TensorBoard: the same numbers in both."""

import functools
import json
import logging
import os
from pathlib import Path
from typing import Any

from transformer_jax.storage.files import atomic_write, check_shape, parse_json, read_regular

_logger = logging.getLogger('transformer_jax')


class MetricsWriter:
    """Appends lines to metrics.jsonl and scalars to TensorBoard."""

    def __init__(self, path: Path, tensorboard: Path, *, step: int, read_only: bool = False):
        """Opens metrics.jsonl; what was logged after `step`, where the run goes on, is dropped.

        Args:
          path: of metrics.jsonl.
          tensorboard: folder of event files.
          step: the last step that is kept.
          read_only: keeps records in memory alone, for processes other than the first.
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
                '%d lines of %s cannot be read and are left out; as it was, it is kept as %s.',
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
        """Writes one record: 'step', 'kind' ('train' or 'dev') and numbers; at once on disk."""
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
        # tf.summary.scalar needs the tensorboard package, which only those who look need.
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
        """Closes both files."""
        if self._file is not None:
            self._file.close()
        if self._summary is not None:
            self._summary.close()

    @functools.cached_property
    def _tensorflow(self) -> Any:
        """Imported for the first record, since that takes seconds; None where there is none."""
        try:
            from transformer_jax.data._tensorflow import import_tensorflow

            return import_tensorflow()
        except ImportError:
            _logger.warning('tensorflow is not installed: metrics go to metrics.jsonl alone.')
            return None


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records of metrics.jsonl; lines that are none are left out."""
    return _read(path)[0]


def _read(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The records, and how many lines are none; the last one may have been cut short by a kill."""
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
