"""The proof of a conversion: another program and our model on the same sentences."""

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from transformer_jax.conversion.parity.ours import Ours
from transformer_jax.conversion.parity.peer import Output, Peer, Pieces
from transformer_jax.data.vocabulary.table_vocabulary import EOS

# In float32. Of log-probabilities and ties in nats; of scores relative to those above 1; of other
# values relative to the largest one of a sentence.
TOLERANCE = 1e-4


@dataclasses.dataclass
class Outputs:
    """How the outputs of a search agree.

    Attributes:
      beam_size: of the search.
      number: of outputs that are compared.
      same: how many are the same.
      ties: how many of the others are as likely, to rounding: the programs chose between tokens
        that are equally likely, or outputs with the same score.
      explained: how many of the others get the same scores from both networks, so that only the
        rules of the searches differ.
      better: how many of these have a higher score in our search.
      spelt_otherwise: of how many outputs the other program makes another text.
    """

    beam_size: int
    number: int
    same: int = 0
    ties: int = 0
    explained: int = 0
    better: int = 0
    spelt_otherwise: int = 0

    @property
    def name(self) -> str:
        """What the outputs are, for people."""
        return 'greedy outputs' if self.beam_size == 1 else f'outputs of beam {self.beam_size}'

    def notes(self) -> list[str]:
        """Return what people should know about outputs that are not the same."""
        notes = []
        if self.ties:
            notes.append(f'{self.ties} {self.name} differ by rounding, for they are equally likely')
        if self.explained:
            notes.append(
                f'{self.explained} {self.name} differ by the rules of the searches, for both '
                f'networks give them the same scores, and {self.better} of ours score higher'
            )
        if self.spelt_otherwise:
            notes.append(f'the text of {self.spelt_otherwise} {self.name} is spelt otherwise')
        return notes


@dataclasses.dataclass
class Findings:
    """What a comparison has found.

    Attributes:
      program: the other program, with its version.
      text: what the sentences are, in words.
      sentences: number of sentences whose source pieces are compared.
      same_pieces: how many of them have the same.
      differences: the largest difference by name of what is compared, see `TOLERANCE`.
      searches: the outputs of each search.
    """

    program: str
    text: str
    sentences: int = 0
    same_pieces: int = 0
    differences: dict[str, float] = dataclasses.field(default_factory=dict)
    searches: list[Outputs] = dataclasses.field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether both programs compute the same."""
        return (
            max(self.differences.values(), default=0.0) <= TOLERANCE
            and self.same_pieces == self.sentences
            and all(x.same + x.ties + x.explained == x.number for x in self.searches)
        )

    def report(self) -> dict[str, Any]:
        """Return what conversion.json holds about the comparison."""
        return dataclasses.asdict(self) | {'tolerance': TOLERANCE}

    def __str__(self) -> str:
        """Return a sentence for people."""
        same = [f'{x.same} of {x.number} {x.name}' for x in self.searches]
        if self.sentences:
            same.insert(0, f'{self.same_pieces} of {self.sentences} source pieces')
        differences = ', '.join(f'{name} {x:.1e}' for name, x in self.differences.items())
        notes = [note for outputs in self.searches for note in outputs.notes()]
        return '; '.join(
            [
                f'compared with {self.program} on {self.text}: the same are {", ".join(same)}',
                f'largest differences: {differences}',
                *notes,
            ]
        )


class Comparison:
    """Asks another program and our model the same.

    Attributes:
      findings: what was found so far.
    """

    def __init__(self, ours: Ours, peer: Peer, text: str):
        """Ask nothing yet.

        Args:
          ours: our model.
          peer: the other program.
          text: what the sentences are, in words.
        """
        self._ours, self._peer = ours, peer
        self.findings = Findings(peer.name, text)

    def pieces(self, texts: Sequence[str]) -> list[Pieces]:
        """Compare the pieces of texts to translate, and return ours."""
        ours = self._ours.source_pieces(texts)
        same = sum(map(operator.eq, ours, self._peer.source_pieces(texts)))
        self.findings.sentences, self.findings.same_pieces = len(texts), same
        return ours

    def values(self, pairs: Sequence[tuple[Pieces, Pieces]]) -> None:
        """Compare what the networks compute for pairs of a source and a given output."""
        # Our model computes the longest pairs first.
        pairs = sorted(pairs, key=lambda pair: -max(map(len, pair)))
        sources, outputs = zip(*pairs, strict=True)
        every = self._ours.values(sources, outputs), self._peer.values(sources, outputs)
        for ours, theirs in zip(*every, strict=True):
            for name, values in theirs.items():
                self._note(name, _difference(ours[name], values))

    def greedy(
        self, sources: Sequence[Pieces], limit: int, *, explain: bool = True
    ) -> tuple[list[str], list[str]]:
        """Compare the outputs of greedy search and their texts; return the texts of both programs.

        Args:
          sources: what is translated.
          limit: tokens at which outputs are cut.
          explain: whether to look for ties.
        """
        ours, theirs = self._search(sources, 1, limit)
        found = Outputs(1, len(sources))
        texts = [self._ours.text(x.pieces) for x in theirs]
        spelt = [self._peer.text(x.pieces) for x in theirs]
        for source, (a, _), (b, _) in zip(sources, ours, theirs, strict=True):
            found.same += a == b
            found.ties += a != b and explain and self._is_tie(source, a, b, limit)
        found.spelt_otherwise = sum(map(operator.ne, texts, spelt))
        self.findings.searches.append(found)
        return [self._ours.text(x.pieces) for x in ours], texts

    def search(
        self, sources: Sequence[Pieces], limit: int | None = None
    ) -> tuple[list[str], list[str]]:
        """Compare outputs and scores of the model's own search; return our texts of both programs.

        Args:
          sources: what is translated.
          limit: tokens at which outputs are cut, which are not compared then; None if the other
            program has the limit of our search.
        """
        beam_size = self._ours.config.decode.beam_size
        outputs = self._search(sources, beam_size, limit)
        triples = [
            (source, ours, theirs)
            for source, ours, theirs in zip(sources, *outputs, strict=True)
            if limit is None or max(len(ours.pieces), len(theirs.pieces)) < limit - 1
        ]
        others = [(source, a, b) for source, a, b in triples if a.pieces != b.pieces]
        found = Outputs(beam_size, len(triples), same=len(triples) - len(others))
        for _, a, b in triples:
            if a.pieces == b.pieces and not np.isnan(b.score):
                self._note('scores', _score_difference(a.score, b.score))
        if others:
            # What the other network computes for our outputs.
            every = self._peer.values([x for x, _, _ in others], [a.pieces for _, a, _ in others])
            for (source, a, b), values in zip(others, every, strict=True):
                self._explain(found, source, a, b, values.get('log-probabilities'))
        self.findings.searches.append(found)
        ours, theirs = ([self._ours.text(x.pieces) for x in of_program] for of_program in outputs)
        return ours, theirs

    def _note(self, name: str, difference: float) -> None:
        differences = self.findings.differences
        differences[name] = max(differences.get(name, 0.0), difference)

    def _search(
        self, sources: Sequence[Pieces], beam_size: int, limit: int | None
    ) -> list[list[Output]]:
        # At the limit one of the programs may end an output with EOS.
        end = None if limit is None else limit - 1
        return [
            [Output(x.pieces[:end], x.score) for x in program.search(sources, beam_size, limit)]
            for program in (self._ours, self._peer)
        ]

    def _is_tie(self, source: Pieces, ours: Pieces, theirs: Pieces, limit: int) -> bool:
        """Whether our search finds their output if it makes their choices between equal tokens."""
        while ours != theirs:
            steps = zip((*ours, EOS), (*theirs, EOS), strict=False)
            first = next(k for k, (a, b) in enumerate(steps) if a != b)
            a, b = (self._log_probs(source, output)[first] for output in (ours, theirs))
            if not abs(a - b) <= TOLERANCE:
                return False
            if first == len(theirs):
                return True
            (found,) = self._ours.search([source], 1, limit, prefix=theirs[: first + 1])
            ours = found.pieces[: limit - 1]
        return True

    def _explain(
        self, found: Outputs, source: Pieces, a: Output, b: Output, log_probs: np.ndarray | None
    ) -> None:
        """Count an output that is not the same.

        Args:
          found: the counts.
          source: what is translated.
          a: our output.
          b: their output.
          log_probs: [T], theirs of our output; None if the program does not tell them.
        """
        if log_probs is None:
            found.ties += _score_difference(a.score, b.score) <= TOLERANCE
            return
        of_theirs = self._ours.score(self._log_probs(source, b.pieces))
        of_ours = self._ours.score(log_probs)
        pairs = (of_theirs, b.score), (of_ours, a.score)
        if all(_score_difference(x, y) <= TOLERANCE for x, y in pairs):
            found.explained += 1
            found.better += a.score > b.score

    def _log_probs(self, source: Pieces, output: Pieces) -> np.ndarray:
        (values,) = self._ours.values([source], [output])
        return values['log-probabilities']


def _difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the largest difference: of vectors in nats, otherwise relative to the largest value.

    Args:
      ours: [T], [S, D] or [T, V].
      theirs: the same, or [T, V - 1] without padding, which is first.
    """
    ours = ours[..., -theirs.shape[-1] :]
    scale = 1.0 if ours.ndim == 1 else np.max(np.abs(ours))
    difference = float(np.max(np.abs(ours - theirs)) / scale)
    return difference if np.isfinite(difference) else np.inf


def _score_difference(one: float, other: float) -> float:
    return 0.0 if one == other else abs(one - other) / max(1.0, abs(other))
