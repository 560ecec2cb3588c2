"""The gate of exports: another program computes what our model computes, or the export fails."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from transformer_jax.conversion.original import Original
from transformer_jax.conversion.parity.check_sentences import CheckSentences, bleu_in_words
from transformer_jax.conversion.parity.reference import Reference
from transformer_jax.conversion.parity.report import write_report
from transformer_jax.conversion.piece_tables import piece_table

TOLERANCE = 1e-4  # in float32
_NEAR_TIE = 1e-3  # difference of logits at which rounding may choose either token
WITH_BLEU = 1000  # sentences
_SCORED, _TRANSLATED = 20, 200  # sentences


class Peer(Protocol):
    """A program with the exported model.

    Attributes:
      name: name and version.
      compared: what `values` returns, in words.
      is_relative: whether differences count relative to the largest value of a sentence.
      compute_type: type in which it computes on this machine.
    """

    name: str
    compared: str
    is_relative: bool
    compute_type: str

    def values(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return what the program computes for [S] and [T] int32 ids."""

    def of_logits(self, logits: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return what `values` should be for our logits [T, V]."""

    def greedy(self, sources: Sequence[str], limit: int) -> list[list[str]]:
        """Return the pieces of the output of greedy search for each text, at most `limit`."""

    def text(self, pieces: Sequence[str]) -> str:
        """Return the text of pieces."""


class Agreement:
    """Compares programs with our model on the same sentences.

    Attributes:
      sentences: the sentences.
    """

    def __init__(self, original: Original):
        """Choose the sentences and load our model."""
        self.sentences = CheckSentences.of(original)
        self._vocabulary = original.vocabulary
        self._language = original.config.data.target_language
        table = piece_table(original.vocabulary.target)
        self._ids = {piece: k for k, piece in enumerate(table)}
        self._limit = self.sentences.longest(original) + original.config.decode.max_extra_length
        self._reference = Reference(original, self._limit)

    def largest_difference(self, peer: Peer) -> tuple[float, int]:
        """Return the largest difference of a value, and the number of sentences."""
        pairs = self.sentences.token_pairs(self._vocabulary, _SCORED)
        largest = 0.0
        for source, target in pairs:
            ours = peer.of_logits(self._reference.logits(source, target), target)
            difference = np.max(np.abs(ours - peer.values(source, target)))
            if peer.is_relative:
                difference /= np.max(np.abs(ours))
            largest = max(largest, float(difference if np.isfinite(difference) else np.inf))
        return largest, len(pairs)

    def check_greedy(self, peer: Peer) -> dict[str, int]:
        """Count a program's greedy outputs whose tokens our model chooses, too.

        'near_ties' counts other outputs, each of whose tokens is nearly as likely as the best one.
        'same_text' counts outputs of whose pieces the program makes the same text.
        """
        sources = self.sentences.sources[:_TRANSLATED]
        outputs = peer.greedy(sources, self._limit)
        ids = [self._token_ids(pieces) for pieces in outputs]
        gaps = self._reference.gaps(self._vocabulary.source.encode(sources), ids)
        return {
            'sentences': len(gaps),
            'same': sum(gap == 0 for gap in gaps),
            'near_ties': sum(0 < gap < _NEAR_TIE for gap in gaps),
            'same_text': sum(peer.text(pieces) == self._text(pieces) for pieces in outputs),
        }

    def compare(self, before: Peer, after: Peer) -> dict[str, Any]:
        """Count equal greedy outputs of two programs, with their BLEU if there is a dev set."""
        sources = self.sentences.sources[:WITH_BLEU]
        outputs = [peer.greedy(sources, self._limit) for peer in (before, after)]
        same = sum(own == other for own, other in zip(*outputs, strict=True))
        texts = [list(map(self._text, of_peer)) for of_peer in outputs]
        bleu = self.sentences.bleu_lost(*texts, self._language)
        return {'sentences': len(sources), 'same': same, 'bleu': bleu}

    def _token_ids(self, pieces: Sequence[str]) -> np.ndarray:
        ids = [self._ids[piece] for piece in pieces]
        # At the length limit EOS is forced, so it is not compared.
        ended = [self._vocabulary.eos_id] if len(ids) + 1 < self._limit else []
        return np.array([*ids, *ended], np.int32)

    def _text(self, pieces: Sequence[str]) -> str:
        return self._vocabulary.target.decode([self._ids[piece] for piece in pieces])


@dataclasses.dataclass
class Report:
    """What conversion.json holds.

    Attributes:
      kind: form of the export.
      notes: what the other program does otherwise, a sentence each.
      checks: what was compared; empty if the other program is not installed.
    """

    kind: str
    notes: list[str]
    checks: dict[str, Any] = dataclasses.field(default_factory=dict)

    def check(self, agreement: Agreement, peer: Peer) -> None:
        """Compare float32 weights, and fail if they do not compute the same.

        Raises:
          RuntimeError: if they do not.
        """
        largest, count = agreement.largest_difference(peer)
        greedy = agreement.check_greedy(peer)
        self.checks |= {
            'program': peer.name,
            'text': agreement.sentences.origin,
            'compared': peer.compared,
            'sentences': count,
            'largest_difference': largest,
            'tolerance': TOLERANCE,
            'greedy': greedy,
        }
        if largest > TOLERANCE or greedy['same'] + greedy['near_ties'] < greedy['sentences']:
            raise RuntimeError(f'the export to {self.kind} computes something else: {self.text()}')

    def check_quantized(
        self, agreement: Agreement, before: Peer, after: Peer, quantization: str
    ) -> None:
        """State what is lost by quantized weights.

        Args:
          agreement: of the check of `before`.
          before: the program with float32 weights.
          after: the program with quantized weights.
          quantization: their type.
        """
        largest, _ = agreement.largest_difference(after)
        self.checks['quantized'] = {
            'weights': quantization,
            'computed_in': after.compute_type,
            'largest_difference': largest,
            **agreement.compare(before, after),
        }

    def write(self, folder: Path) -> None:
        """Write conversion.json."""
        write_report(folder, **dataclasses.asdict(self))

    def text(self) -> str:
        """Return the report for people, in lines."""
        lines = [] if not self.checks else [_checked(self.checks)]
        if 'quantized' in self.checks:
            lines.append(_quantized(self.checks['quantized']))
        return '\n'.join([*lines, *self.notes])


def _checked(checks: dict[str, Any]) -> str:
    greedy = checks['greedy']
    text = (
        f'{checks["program"]} with float32 weights, on {checks["text"]}: largest difference of '
        f'{checks["compared"]} {checks["largest_difference"]:.1e} in {checks["sentences"]} '
        f'sentences; {greedy["same"]} of {greedy["sentences"]} greedy outputs are the same'
    )
    if greedy['near_ties']:
        text += f', and {greedy["near_ties"]} differ by rounding at a near tie'
    if greedy['same_text'] < greedy['sentences']:
        text += f'; the text of {greedy["sentences"] - greedy["same_text"]} is spelt otherwise'
    return text


def _quantized(found: dict[str, Any]) -> str:
    text = (
        f'with {found["weights"]} weights, computed in {found["computed_in"]}: largest difference '
        f'{found["largest_difference"]:.1e}; {found["same"]} of {found["sentences"]} greedy '
        'outputs are the same; '
    )
    if 2 * found['same'] < found['sentences']:
        text = f'most outputs have changed: compare them before you use these weights; {text}'
    return text + bleu_in_words(found['bleu'], 'greedy search')
