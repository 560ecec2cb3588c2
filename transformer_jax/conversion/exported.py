"""What all exports need: the proof, checks of what others cannot express, and the README."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import jax

from transformer_jax.config import ModelConfig
from transformer_jax.conversion.card import model_card
from transformer_jax.conversion.original import Original
from transformer_jax.conversion.parity.check_sentences import CheckSentences, bleu_in_words
from transformer_jax.conversion.parity.compare import Comparison
from transformer_jax.conversion.parity.ours import Ours
from transformer_jax.conversion.parity.peer import Peer
from transformer_jax.conversion.parity.report import write_report
from transformer_jax.conversion.release import without_paths
from transformer_jax.errors import UserError
from transformer_jax.storage.files import atomic_write

WITH_BLEU = 1000  # sentences
_SCORED, _TRANSLATED = 20, 200  # sentences


@dataclasses.dataclass
class Proof:
    """An export to a program with a search of its own, and what conversion.json holds about it.

    Attributes:
      kind: form of the export.
      original: the model, with the rules of search that the other program has, too.
      notes: what the other program does otherwise, a sentence each.
      checks: what was compared; empty if the other program is not installed.
    """

    kind: str
    original: Original
    notes: list[str]
    checks: dict[str, Any] = dataclasses.field(default_factory=dict)
    _lines: list[str] = dataclasses.field(default_factory=list)

    def check(self, peer: Peer) -> None:
        """Compare float32 weights.

        Raises:
          RuntimeError: if they do not compute the same.
        """
        comparison = self._comparison(peer)
        self._greedy(comparison, _TRANSLATED)
        findings = comparison.findings
        self.checks |= {'weights': 'float32', **findings.report()}
        self._lines.append(f'with float32 weights, {findings}')
        if not findings.passed:
            raise RuntimeError(f'the export to {self.kind} computes something else: {findings}')

    def check_quantized(self, peer: Peer, quantization: str, computed_in: str) -> None:
        """State what is lost by quantized weights.

        Args:
          peer: the program with quantized weights.
          quantization: their type.
          computed_in: the type in which the program computes on this machine.
        """
        comparison = self._comparison(peer)
        texts = self._greedy(comparison, WITH_BLEU, explain=False)
        findings = comparison.findings
        language = self.original.config.data.target_language
        bleu = self._sentences.bleu_lost(*texts, language)
        self.checks['quantized'] = {
            'weights': quantization,
            'computed_in': computed_in,
            **findings.report(),
            'bleu': bleu,
        }
        text = f'with {quantization} weights, computed in {computed_in}: {findings}; '
        (outputs,) = findings.searches
        if 2 * outputs.same < outputs.number:
            text = f'most outputs have changed: compare them before you use these weights; {text}'
        self._lines.append(text + bleu_in_words(bleu, 'greedy search'))

    def write(self, folder: Path) -> None:
        """Write conversion.json."""
        write_report(folder, self.kind, notes=self.notes, checks=self.checks)

    def text(self) -> str:
        """Return what was found, for people, in lines."""
        return '\n'.join([*self._lines, *self.notes])

    def _comparison(self, peer: Peer) -> Comparison:
        comparison = Comparison(self._ours, peer, self._sentences.origin)
        comparison.values(self._pairs[:_SCORED])
        return comparison

    def _greedy(
        self, comparison: Comparison, count: int, **options: bool
    ) -> tuple[list[str], list[str]]:
        """Compare the outputs of greedy search for up to `count` sentences; return both texts."""
        longest = 1 + max(len(pieces) for pair in self._pairs for pieces in pair)
        limit = longest + self.original.config.decode.max_extra_length
        return comparison.greedy(
            comparison.pieces(self._sentences.sources[:count]), limit, **options
        )

    @functools.cached_property
    def _ours(self) -> Ours:
        return Ours(self.original.config, self.original.vocabulary, self.original.params)

    @functools.cached_property
    def _sentences(self) -> CheckSentences:
        return CheckSentences.of(self.original)

    @functools.cached_property
    def _pairs(self) -> list[tuple]:
        return self._sentences.pairs(self._ours)


def check_heads(config: ModelConfig, peer: str) -> None:
    """Raise UserError unless the heads share d_model, as other toolkits have it."""
    size = config.d_model / config.num_heads
    if (config.key_size, config.value_size) != (size, size):
        raise UserError(
            f'model.d_k={config.key_size} and model.d_v={config.value_size} cannot be expressed in '
            f'{peer}, whose heads have d_model / num_heads = {size:g} each: export to release or '
            'stablehlo.'
        )


def write_readme(original: Original, folder: Path, use: str) -> None:
    """Write README.md, a model card.

    Args:
      original: the model.
      folder: where to write it.
      use: Markdown that says how to use the folder.
    """
    vocabulary = original.vocabulary
    pieces = f'{vocabulary.sizes} pieces' + (', shared' if vocabulary.shared else '')
    count = sum(x.size for x in jax.tree.leaves(original.params))
    config = without_paths(original.config)
    # A run has checkpoints.
    origin = (
        '' if original.steps else 'Another program has trained it; transformer_jax imported it.'
    )
    card = model_card(
        original.name, config, count, pieces, original.release, origin=origin, use=use
    )
    with atomic_write(folder / 'README.md') as file:
        file.write(card)
