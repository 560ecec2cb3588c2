"""Loss of a set of sentence pairs; nothing is left out, however long."""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from transformer_jax.data.batching import ROW_MULTIPLE, round_length, rows_for
from transformer_jax.data.token_store import sentences_from
from transformer_jax.data.vocabulary import Vocabulary
from transformer_jax.model import Transformer
from transformer_jax.sharding import shard_batch
from transformer_jax.training.step import eval_step

# Positions of one batch; a bound on memory, since all logits of a batch are there at once.
_POSITIONS = 2048

_eval_step = jax.jit(eval_step, static_argnames=('model', 'label_smoothing'))


class CorpusLoss(NamedTuple):
    """Means over target tokens.

    Attributes:
      loss: label-smoothed cross-entropy, nats per token.
      nll: negative log-likelihood, nats per token.
      perplexity: exp(nll), per token of this vocabulary.
      tokens: target tokens, the end marks included.
    """

    loss: float
    nll: float
    perplexity: float
    tokens: int


def corpus_loss(
    params: Any,
    pairs: Sequence[tuple[str, str]],
    *,
    model: Transformer,
    vocabulary: Vocabulary,
    label_smoothing: float,
    mesh: Mesh,
) -> CorpusLoss:
    """The loss of `pairs` (source text, target text), without dropout.

    Args:
      params: the model's parameters, on the devices of `mesh`.
      pairs: at least one.
      model: the Transformer.
      vocabulary: of both languages.
      label_smoothing: eps of the smoothed loss.
      mesh: rows are divided among its devices.
    """
    source, target = (
        sentences_from(vocabulary.encode(texts)) for texts in zip(*pairs, strict=True)
    )
    lengths = np.maximum(source.lengths, target.lengths)
    sums = []
    for length in sorted({round_length(n) for n in lengths}):
        ids = np.array([k for k, n in enumerate(lengths) if round_length(n) == length])
        # No more rows than there are sentences, rounded up.
        rows = min(rows_for(length, _POSITIONS), -(-len(ids) // ROW_MULTIPLE) * ROW_MULTIPLE)
        for first in range(0, len(ids), rows):
            part = np.full(rows, -1)
            part[: len(ids[first : first + rows])] = ids[first : first + rows]
            batch = {
                'source': source.padded(part, length),
                'target': target.padded(part, length),
            }
            sums.append(
                _eval_step(
                    params, shard_batch(batch, mesh), model=model, label_smoothing=label_smoothing
                )
            )
    loss, nll, tokens = functools.reduce(
        lambda a, b: tuple(x + y for x, y in zip(a, b, strict=True)),
        (tuple(float(x) for x in one) for one in jax.device_get(sums)),
    )
    return CorpusLoss(loss / tokens, nll / tokens, math.exp(nll / tokens), int(tokens))
