"""The outputs of a text, put together from those of its sentences."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from transformer_jax.inference.batch_decoder import DecodeResult
from transformer_jax.inference.segments import SegmentedText


class Translation(NamedTuple):
    """One output for a text.

    Attributes:
      text: the output as raw text.
      score: log-probability in nats, divided by the length penalty; from sampling it is undivided.
        The scores of several sentences are added. With `mbr` it is the expected metric, 0 to 100.
      tokens: the pieces of the output, without EOS.
      cut: whether the output ended at its limit, which is decode.max_extra_length tokens more than
        its source has.
      alignment: pairs (source word, output word) of words that are aligned, counted from 0; None
        if they were not asked for.
    """

    text: str
    score: float
    tokens: tuple[str, ...]
    cut: bool = False
    alignment: tuple[tuple[int, int], ...] | None = None


def distinct(
    result: DecodeResult, decode: Callable[[list[int]], str], most: int
) -> dict[str, list[int]]:
    """Return the different texts of a sentence's outputs, and the indices of each, in their order.

    Args:
      result: the outputs.
      decode: from ids to a text.
      most: number of texts after which no more outputs are decoded.
    """
    found: dict[str, list[int]] = {}
    for k, ids in enumerate(result.tokens):
        if result.scores[k] > -np.inf:
            found.setdefault(decode(ids.tolist()), []).append(k)
            if len(found) == most:
                break
    return found


def join(text: SegmentedText, outputs: Sequence[Sequence[Translation]]) -> list[Translation]:
    """Return the outputs of a text: the n-th joins the n-th outputs of its sentences.

    Args:
      text: the text.
      outputs: of each of its segments, the best first; if it has fewer, its last is taken again.
    """
    count = max(map(len, outputs), default=1)
    return [
        _joined(text, [of_segment[min(n, len(of_segment) - 1)] for of_segment in outputs])
        for n in range(count)
    ]


def _joined(text: SegmentedText, parts: Sequence[Translation]) -> Translation:
    alignment = None
    if parts and all(part.alignment is not None for part in parts):
        alignment = tuple(_shifted(text.segments, parts))
    return Translation(
        text.join([part.text for part in parts]),
        sum(part.score for part in parts),
        tuple(token for part in parts for token in part.tokens),
        any(part.cut for part in parts),
        alignment,
    )


def _shifted(segments: Sequence[str], parts: Sequence[Translation]) -> Iterable[tuple[int, int]]:
    """Yield the pairs of all segments, with words counted through the text."""
    source = target = 0
    for segment, part in zip(segments, parts, strict=True):
        yield from ((s + source, t + target) for s, t in part.alignment)
        source += len(segment.split())
        target += len(part.text.split())
