"""The outputs of a text, put together from those of its sentences."""

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from transformer_jax.config import DecodeConfig

if TYPE_CHECKING:
    from transformer_jax.translating.batch_decoder import DecodeResult
    from transformer_jax.translating.segments import SegmentedText

_logger = logging.getLogger('transformer_jax')


class Translation(NamedTuple):
    """One output for a text.

    Attributes:
      text: the output as raw text.
      score: beam search: log-probability in nats / length penalty + coverage penalty; sampling: the
        plain log-probability. The scores of several sentences are added. With `mbr` it
        is the expected metric, 0 to 100; of several sentences the mean, weighted by the characters
        of their outputs. Without an output it is -inf, and 0 with `mbr`.
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
    result: 'DecodeResult', decode: Callable[[list[int]], str], most: int
) -> dict[str, list[int]]:
    """Return the different texts of a sentence's outputs, and the indices of each, in their order.

    Args:
      result: the outputs.
      decode: from ids to a text.
      most: number of texts after which no more outputs are decoded.
    """
    found: dict[str, list[int]] = {}
    for k, ids in enumerate(result.tokens):
        if result.scores[k] > -math.inf:
            found.setdefault(decode(ids.tolist()), []).append(k)
            if len(found) == most:
                break
    return found


def join(
    text: 'SegmentedText',
    outputs: Sequence[Sequence[Translation]],
    *,
    align: bool,
    mean: bool = False,
) -> list[Translation]:
    """Return the outputs of a text: the n-th joins the n-th outputs of its sentences.

    Args:
      text: the text.
      outputs: of each of its segments, the best first; if it has fewer, its last is taken again.
      align: whether the outputs have alignments.
      mean: whether the score is the mean of the sentences' scores, and not their sum.
    """
    count = max(map(len, outputs), default=1)
    score = _mean_score if mean else _sum_of_scores
    return [
        _joined(
            text, [of_segment[min(n, len(of_segment) - 1)] for of_segment in outputs], align, score
        )
        for n in range(count)
    ]


def _sum_of_scores(parts: Sequence[Translation]) -> float:
    return sum(part.score for part in parts)


def _mean_score(parts: Sequence[Translation]) -> float:
    """Return the mean, weighted by the characters of the outputs; 0 if there are none."""
    characters = sum(len(part.text) for part in parts)
    return sum(len(part.text) * part.score for part in parts) / max(characters, 1)


def _joined(
    text: 'SegmentedText',
    parts: Sequence[Translation],
    align: bool,
    score: Callable[[Sequence[Translation]], float],
) -> Translation:
    joined = text.joined([part.text for part in parts])
    alignment = None
    if align:
        starts = zip(_first_words(text.joined(text.segments)), _first_words(joined), strict=True)
        pairs = {
            (s + source, t + target)
            for part, (source, target) in zip(parts, starts, strict=True)
            for s, t in part.alignment
        }
        alignment = tuple(sorted(pairs))
    return Translation(
        ''.join(joined),
        score(parts),
        tuple(token for part in parts for token in part.tokens),
        any(part.cut for part in parts),
        alignment,
    )


def _first_words(joined: Sequence[str]) -> list[int]:
    """Return the index, in the words of a whole text, of the first word of each segment.

    Segments without a blank between them share a word.

    Args:
      joined: from `SegmentedText.joined`.
    """
    found, words, in_word = [], 0, False
    for k, part in enumerate(joined):
        if k % 2:
            found.append(words - in_word)
        if part:
            words += len(part.split()) - (in_word and not part[0].isspace())
            in_word = not part[-1].isspace()
    return found


def pharaoh(alignment: Iterable[tuple[int, int]]) -> str:
    """Return an alignment in the Pharaoh format, for example '0-0 1-2'."""
    return ' '.join(f'{source}-{target}' for source, target in alignment)


def warn_of_cut_outputs(count: int, of: int, decode: DecodeConfig) -> None:
    """Log a warning about outputs that were cut, if there are any.

    Args:
      count: number of outputs that were cut.
      of: number of all outputs.
      decode: settings of the search.
    """
    if count:
        _logger.warning(
            '%s of %s outputs ended at the limit of max_extra_length=%d tokens more than the '
            'source, and may be cut: raise it (--max_extra_length) if translations are longer.',
            f'{count:,}',
            f'{of:,}',
            decode.max_extra_length,
        )
