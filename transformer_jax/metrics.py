"""metrics.jsonl and TensorBoard: the same numbers in both."""

import json
import logging
from pathlib import Path
from typing import Any

_logger = logging.getLogger('transformer_jax')


class MetricsWriter:
    """Appends lines to metrics.jsonl and scalars to TensorBoard."""

    def __init__(self, path: Path, tensorboard: Path, *, step: int, read_only: bool = False):
        """Opens both; what was logged after `step`, from which the run goes on, is dropped.

        Args:
          path: of metrics.jsonl.
          tensorboard: folder of event files.
          step: the last step that is kept.
          read_only: keeps records in memory alone, for processes other than the first.
        """
        kept = [record for record in read_metrics(path) if record['step'] <= step]
        self.records = kept
        self._file = self._summary = None
        if read_only:
            return
        text = ''.join(json.dumps(record) + '\n' for record in kept)
        partial = path.with_name(f'{path.name}.partial')
        partial.write_text(text, encoding='utf-8')
        partial.replace(path)
        self._file = path.open('a', encoding='utf-8')
        try:
            from transformer_jax.data._tensorflow import import_tensorflow

            self._tf = import_tensorflow()
        except ImportError:
            _logger.warning('tensorflow is not installed: metrics go to metrics.jsonl alone.')
        else:
            self._summary = self._tf.summary.create_file_writer(str(tensorboard))

    def write(self, record: dict[str, Any]) -> None:
        """Writes one record: 'step', 'kind' ('train' or 'dev') and numbers; at once on disk."""
        self.records.append(record)
        if self._file is None:
            return
        self._file.write(json.dumps(record) + '\n')
        self._file.flush()
        if self._summary is None:
            return
        for name, value in record.items():
            if name not in ('step', 'kind'):
                self._scalar(f'{record["kind"]}/{name}', value, record['step'])
        self._summary.flush()

    def close(self) -> None:
        """Closes both files."""
        if self._file is not None:
            self._file.close()
        if self._summary is not None:
            self._summary.close()

    def _scalar(self, tag: str, value: float, step: int) -> None:
        # tf.summary.scalar needs the tensorboard package, which only those who look need.
        metadata = self._tf.compat.v1.SummaryMetadata(
            plugin_data=self._tf.compat.v1.SummaryMetadata.PluginData(plugin_name='scalars')
        )
        metadata.data_class = 1  # DATA_CLASS_SCALAR
        with self._summary.as_default():
            tensor = self._tf.constant(value, self._tf.float32)
            self._tf.summary.write(tag, tensor, step=step, metadata=metadata)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records of metrics.jsonl; a line that a kill cut short is left out."""
    if not path.exists():
        return []
    records = []
    for line in path.read_text(encoding='utf-8').split('\n'):
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records
