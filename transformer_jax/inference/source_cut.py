"""Cuts sources that are longer than their limit."""

import logging

import numpy as np

_logger = logging.getLogger('transformer_jax')


def cut_source(ids: np.ndarray, limit: int, line: int | None = None) -> np.ndarray:
    """Return a source within the limit; log a warning if it had to be cut.

    Args:
      ids: int32 ids that end with EOS.
      limit: the greatest number of ids, EOS included; 0 is no limit.
      line: line number of the source; None logs nothing.
    """
    if not limit or len(ids) <= limit:
        return ids
    if line is not None:
        _logger.warning(
            'Line %d has %d tokens and is cut to the limit of %d.', line, len(ids), limit
        )
    return np.append(ids[: limit - 1], ids[-1:])
