"""The gate of exports: another program computes what our model computes, or the export fails."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from transformer_jax import __version__
from transformer_jax.conversion.check_sentences import CheckSentences
from transformer_jax.conversion.original import Original
from transformer_jax.conversion.pieces import piece_table
from transformer_jax.conversion.reference import Reference
from transformer_jax.inference.outputs import Translation
from transformer_jax.inference.translation_metrics import score
from transformer_jax.storage.files import atomic_write

TOLERANCE = 1e-4  # of logits and log-probabilities in float32
_NEAR_TIE = 1e-3  # difference of logits at which rounding may choose either token
_SCORED, _TRANSLATED, _WITH_BLEU = 20, 200, 1000  # sentences
FILE = 'conversion.json'


class Peer(Protocol):
    """A program with the exported model.

    Attributes:
      name: name and version.
      compared: what `values` returns, in words.
    """

    name: str
    compared: str

    def values(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return what the program computes for [S] and [T] int32 ids."""

    def of_logits(self, logits: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return what `values` should be for our logits [T, V]."""

    def greedy(self, sources: Sequence[str], limit: int) -> list[list[str]]:
        """Return the pieces of the output of greedy search, at most `limit`, for each text."""

    def text(self, pieces: Sequence[str]) -> str:
        """Return the text of pieces."""


class Agreement:
    """Compares programs with our model on the same sentences.

    Attributes:
      sentences: the sentences.
    """

    def __init__(self, original: Original):
        """Choose the sentences and load our model."""
        self._original = original
        self.sentences = CheckSentences.of(original)
        self._reference = Reference(original)
        self._outputs: list[Translation] = []

    def largest_difference(self, peer: Peer) -> tuple[float, int]:
        """Return the largest difference of a value, and the number of sentences."""
        pairs = self.sentences.token_pairs(self._original, _SCORED)
        largest = 0.0
        for source, target in pairs:
            ours = peer.of_logits(self._reference.logits(source, target), target)
            largest = max(largest, float(np.max(np.abs(ours - peer.values(source, target)))))
        return largest, len(pairs)

    def compare_greedy(self, peer: Peer) -> dict[str, int]:
        """Return how many greedy outputs are the same, and how many others are near ties.

        'same_text' counts our outputs of whose pieces the program makes the same text.
        """
        ours, theirs = self._translate(_TRANSLATED), self._translate_by(peer, _TRANSLATED)
        different = [
            k
            for k, (own, other) in enumerate(zip(ours, theirs, strict=True))
            if list(own.tokens) != (other[: len(own.tokens)] if own.cut else other)
        ]
        ties = sum(self._is_near_tie(k, theirs[k]) for k in different)
        return {
            'sentences': len(ours),
            'same': len(ours) - len(different),
            'near_ties': ties,
            'same_text': sum(peer.text(output.tokens) == output.text for output in ours),
        }

    def compare_bleu(self, peer: Peer) -> dict[str, Any] | None:
        """Return BLEU of both programs' greedy outputs; None without a dev set."""
        references = self.sentences.references[:_WITH_BLEU]
        if not references:
            return None
        target = self._original.vocabulary.target
        table = {piece: k for k, piece in enumerate(piece_table(target))}
        ours = [output.text for output in self._translate(_WITH_BLEU)]
        theirs = [
            target.decode([table[piece] for piece in pieces])
            for pieces in self._translate_by(peer, _WITH_BLEU)
        ]
        language = self._original.config.data.target_language
        own, other = (score(x, references, target_language=language) for x in (ours, theirs))
        return {
            'sentences': len(references),
            'before': round(own.bleu, 2),
            'after': round(other.bleu, 2),
            'signature': own.bleu_signature,
        }

    def _translate(self, count: int) -> list[Translation]:
        sources = self.sentences.sources[:count]
        done = len(self._outputs)
        self._outputs += self._reference.greedy(sources[done:]) if done < len(sources) else []
        return self._outputs[: len(sources)]

    def _translate_by(self, peer: Peer, count: int) -> list[list[str]]:
        sources = self.sentences.sources[:count]
        longest = max(map(len, self._original.vocabulary.source.encode(sources)))
        return peer.greedy(sources, longest + self._original.config.decode.max_extra_length)

    def _is_near_tie(self, k: int, theirs: Sequence[str]) -> bool:
        """Whether our model finds the first different token as likely as its own."""
        vocabulary = self._original.vocabulary
        table = {piece: i for i, piece in enumerate(piece_table(vocabulary.target))}
        eos = vocabulary.eos_id
        own, other = (
            [*(table[piece] for piece in pieces), eos]
            for pieces in (self._outputs[k].tokens, theirs)
        )
        place = next((i for i, (a, b) in enumerate(zip(own, other, strict=False)) if a != b), None)
        if place is None:
            return False
        (source,) = vocabulary.source.encode([self.sentences.sources[k]])
        logits_V = self._reference.logits(source, np.array(own, np.int32))[place]
        return abs(float(logits_V[own[place]] - logits_V[other[place]])) < _NEAR_TIE


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
        greedy = agreement.compare_greedy(peer)
        self.checks |= {
            'program': peer.name,
            'text': agreement.sentences.origin,
            'compared': peer.compared,
            'sentences': count,
            'largest_difference': largest,
            'tolerance': TOLERANCE,
            'greedy': greedy,
        }
        # Also catches NaN.
        if not largest <= TOLERANCE or greedy['same'] + greedy['near_ties'] < greedy['sentences']:
            raise RuntimeError(f'the export to {self.kind} computes something else: {self.text()}')

    def check_quantized(self, agreement: Agreement, peer: Peer, quantization: str) -> None:
        """Compare quantized weights, and state what they lose."""
        largest, _ = agreement.largest_difference(peer)
        self.checks['quantized'] = {
            'weights': quantization,
            'computed_in': getattr(peer, 'compute_type', quantization),
            'largest_difference': largest,
            'greedy': agreement.compare_greedy(peer),
            'bleu': agreement.compare_bleu(peer),
        }

    def write(self, folder: Path) -> None:
        """Write conversion.json."""
        content = {'format': 1, 'transformer_jax': __version__, **dataclasses.asdict(self)}
        with atomic_write(folder / FILE) as file:
            json.dump(content, file, ensure_ascii=False, indent=2)

    def text(self) -> str:
        """Return the report for people, in lines."""
        lines = []
        if self.checks:
            checks = self.checks
            lines.append(
                f'{checks["program"]} with float32 weights, {checks["text"]}: largest difference '
                f'of {checks["compared"]} {checks["largest_difference"]:.1e} in '
                f'{checks["sentences"]} sentences; {_outputs(checks["greedy"])}'
            )
        if 'quantized' in self.checks:
            lines.append(_quantized(self.checks['quantized']))
        return '\n'.join([*lines, *self.notes])


def _outputs(greedy: dict[str, int]) -> str:
    ties = f', {greedy["near_ties"]} more differ by a near tie' if greedy['near_ties'] else ''
    text = f'{greedy["same"]} of {greedy["sentences"]} greedy outputs are the same{ties}'
    others = greedy['sentences'] - greedy['same_text']
    return text + (f', {others} have other spaces or characters' if others else '')


def _quantized(found: dict[str, Any]) -> str:
    text = (
        f'with {found["weights"]} weights, computed in {found["computed_in"]}: largest difference '
        f'{found["largest_difference"]:.1e}; {_outputs(found["greedy"])}; '
    )
    bleu = found['bleu']
    if bleu is None:
        return f'{text}BLEU was not measured, because the dev set of the run cannot be read here'
    return (
        f'{text}greedy BLEU on {bleu["sentences"]:,} sentences of the dev set '
        f'{bleu["before"]:.2f} before, {bleu["after"]:.2f} after ({bleu["signature"]})'
    )
