"""The gate of an import: what it computes is compared with the program that it comes from."""

import contextlib
import dataclasses
import operator
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from transformer_jax.conversion.parity.report import write_report
from transformer_jax.data.vocabulary.table_vocabulary import EOS
from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.errors import UserError, first_line
from transformer_jax.forced.teacher_forcing import target_log_probs
from transformer_jax.inference.load import load_trained
from transformer_jax.model import shift_right
from transformer_jax.sharding import make_mesh
from transformer_jax.translator import Translator

SENTENCES = 20
TOLERANCE = 1e-4
# Tokens at which outputs are cut: those of a model that was given pieces at random may never end.
LONGEST = 48
_ROWS = 4  # sentences whose logits are in memory together


class Output(NamedTuple):
    """An output of a search.

    Attributes:
      pieces: without EOS.
      score: log-probability / length^alpha.
    """

    pieces: tuple[str, ...]
    score: float


class Peer(Protocol):
    """The program that a model comes from.

    Attributes:
      name: of the program, with its version.
    """

    name: str

    def source_pieces(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the source pieces of texts, without EOS."""

    def search(self, texts: Sequence[str], beam_size: int, limit: int) -> list[Output]:
        """Return the best output of each text, cut at `limit` tokens."""

    def values(
        self, texts: Sequence[str], outputs: Sequence[tuple[str, ...]]
    ) -> dict[str, list[np.ndarray]]:
        """Return what the network computes for each text and a given output, by name.

        'log-probabilities' is [T], of the pieces and EOS. If the peer tells them, 'encoder' is
        [S, D], and 'logits' [T, V - 1] in the order of our ids, without padding.
        """


def without_comparison(workdir: Path) -> str:
    """Write to conversion.json that an import was not compared; return that for people."""
    write_report(workdir, 'import', peer=None)
    return 'not compared with the program that it comes from: --check does that'


@contextlib.contextmanager
def faults_of_peers(name: str) -> Iterator[None]:
    """Turn what another program raises over a model into a UserError.

    Args:
      name: of the program.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f'{name} fails with this model ({type(error).__name__}: {first_line(error)}): without '
            '--check it is imported all the same.'
        ) from error


@dataclasses.dataclass
class Findings:
    """What a gate has found.

    Attributes:
      peer: the other program, with its version.
      sentences: number of sentences.
      differences: the largest difference by name of what is compared, relative to the largest
        value; in nats for log-probabilities.
      same: number of sentences with the same 'source pieces' and the same 'greedy outputs'.
      ties: how many of the other greedy outputs begin to differ at two tokens that are equally
        likely, to rounding.
      beam_size: of the outputs of beam search.
      ended: number of sentences for which both searches find an output that is not cut.
      same_beam: how many of these outputs are the same.
      explained: how many of the others have the same score with both networks, so that only the
        rules of the searches differ.
      better: how many of these have a higher score in our search.
    """

    peer: str
    sentences: int
    differences: dict[str, float]
    same: dict[str, int]
    ties: int
    beam_size: int
    ended: int = 0
    same_beam: int = 0
    explained: int = 0
    better: int = 0

    @property
    def passed(self) -> bool:
        """Whether both programs compute the same."""
        return (
            max(self.differences.values()) <= TOLERANCE
            and self.same['source pieces'] == self.sentences
            and self.same['greedy outputs'] + self.ties == self.sentences
            and self.same_beam + self.explained == self.ended
        )

    def __str__(self) -> str:
        """Return a sentence for people."""
        same = ''.join(f'{n} of {self.sentences} {name}, ' for name, n in self.same.items())
        differences = ', '.join(f'{name} {x:.1e}' for name, x in self.differences.items())
        text = (
            f'compared with {self.peer}: the same are {same}{self.same_beam} of {self.ended} '
            f'outputs of beam {self.beam_size}; largest differences: {differences}'
        )
        if self.ties:
            text += f'; {self.ties} greedy outputs differ at tokens that are equally likely'
        if self.explained:
            text += (
                f'; {self.explained} outputs of beam {self.beam_size} differ by the rules of the '
                f'searches, for both networks give them the same scores, and {self.better} of ours '
                'score higher'
            )
        return text


def compare(workdir: Path, peer: Peer) -> Findings:
    """Compare an imported model with its original, and write what was found to conversion.json.

    Args:
      workdir: folder of the imported model.
      peer: the program that has its original.

    Raises:
      UserError: if the two do not compute the same.
    """
    ours = _Ours(workdir)
    texts = sample_texts(ours.vocabulary.source, SENTENCES)
    pieces = [ours.source_pieces(text) for text in texts]
    greedy = [output.pieces for output in ours.search(texts, 1)]
    outputs = [output.pieces for output in peer.search(texts, 1, LONGEST)]
    same = {
        'source pieces': sum(map(operator.eq, pieces, peer.source_pieces(texts))),
        'greedy outputs': sum(map(operator.eq, greedy, outputs)),
    }
    other = [k for k in range(len(texts)) if greedy[k] != outputs[k]]
    ties = sum(ours.is_tie(texts[k], greedy[k], outputs[k]) for k in other)
    expected, found = peer.values(texts, outputs), ours.values(texts, outputs)
    differences = {
        name: max(map(_difference, found[name], values)) for name, values in expected.items()
    }
    findings = Findings(peer.name, len(texts), differences, same, ties, ours.beam_size)
    _compare_beams(findings, texts, ours, peer)
    write_report(workdir, 'import', **dataclasses.asdict(findings))
    if not findings.passed:
        raise UserError(
            f'the imported model does not compute what its original does ({findings}): report it '
            'with the name of the model; without --check it is imported all the same.'
        )
    return findings


def sample_texts(vocabulary: Vocabulary, count: int, seed: int = 0) -> list[str]:
    """Return texts of 2 to 12 pieces that are drawn at random, whatever the language."""
    random = np.random.default_rng(seed)
    codes = getattr(vocabulary, 'language_codes', ())
    special = {vocabulary.pad_id, vocabulary.eos_id, vocabulary.unknown_id}
    # Those of lower ids are more frequent in most vocabularies.
    ids = [i for i in range(min(vocabulary.size, 4000)) if i not in special]
    pieces = [piece for piece in vocabulary.pieces(ids) if not re.search('[<>]', piece)]
    texts = []
    while len(texts) < count:
        text = ''.join(random.choice(pieces, random.integers(2, 13))).replace('▁', ' ').strip()
        if text:
            texts.append(f'{codes[len(texts) % len(codes)]} {text}' if codes else text)
    return texts


def _compare_beams(findings: Findings, texts: list[str], ours: '_Ours', peer: Peer) -> None:
    """Count the outputs of beam search that are the same, and explain the others."""
    found, expected = (
        ours.search(texts, ours.beam_size),
        peer.search(texts, ours.beam_size, LONGEST),
    )
    pairs = [
        (text, a, b)
        for text, a, b in zip(texts, found, expected, strict=True)
        if max(len(a.pieces), len(b.pieces)) < LONGEST
    ]
    findings.ended = len(pairs)
    others = [(text, a, b) for text, a, b in pairs if a.pieces != b.pieces]
    findings.same_beam = len(pairs) - len(others)
    if not others:
        return
    texts = [text for text, _, _ in others]
    of_theirs = ours.values(texts, [b.pieces for _, _, b in others])['log-probabilities']
    of_ours = peer.values(texts, [a.pieces for _, a, _ in others])['log-probabilities']
    for (_, a, b), theirs_here, ours_there in zip(others, of_theirs, of_ours, strict=True):
        near = [
            np.isclose(ours.score(values), output.score, rtol=TOLERANCE, atol=TOLERANCE)
            for values, output in ((theirs_here, b), (ours_there, a))
        ]
        findings.explained += int(all(near))
        findings.better += int(all(near) and a.score > b.score)


class _Ours:
    """The imported model in float32."""

    def __init__(self, workdir: Path):
        trained = load_trained(workdir)
        config = trained.config
        model = dataclasses.replace(config.model, dtype='float32')
        # The gate computes few rows at a time, which several devices could not divide.
        mesh = make_mesh(devices=jax.local_devices()[:1])
        self._translator = Translator(
            dataclasses.replace(config, model=model), trained.vocabulary, trained.params, mesh=mesh
        )
        self.vocabulary = trained.vocabulary
        self.beam_size = config.decode.beam_size
        self._alpha = config.decode.length_penalty
        network = self._translator.network
        (module,), (self._variables,) = network.ensemble.models, network.variables

        @jax.jit
        def values(variables: Any, source: jax.Array, target: jax.Array) -> tuple[jax.Array, ...]:
            encoder = module.apply(variables, source, method='encode')
            logits = module.apply(variables, source, shift_right(target))
            return encoder, logits, target_log_probs(logits, target)

        self._values = values

    def source_pieces(self, text: str) -> tuple[str, ...]:
        vocabulary = self.vocabulary.source
        return tuple(vocabulary.pieces(vocabulary.encode([text])[0].tolist()))

    def search(self, texts: Sequence[str], beam_size: int) -> list[Output]:
        found = self._translator.translate(
            texts, beam_size=beam_size, placeholders=False, max_extra_length=LONGEST
        )
        return [Output(outputs[0].tokens[:LONGEST], outputs[0].score) for outputs in found]

    def score(self, log_probs: np.ndarray) -> float:
        return float(np.sum(log_probs) / len(log_probs) ** self._alpha)

    def is_tie(self, text: str, one: tuple[str, ...], other: tuple[str, ...]) -> bool:
        """Whether the first tokens in which two outputs differ are equally likely, to rounding."""
        ids = list(zip((*one, EOS), (*other, EOS), strict=False))
        first = next((k for k, (a, b) in enumerate(ids) if a != b), len(ids) - 1)
        a, b = (x[first] for x in self.values([text] * 2, [one, other])['log-probabilities'])
        return bool(abs(a - b) <= TOLERANCE)

    def values(
        self, texts: Sequence[str], outputs: Sequence[tuple[str, ...]]
    ) -> dict[str, list[np.ndarray]]:
        vocabulary = self.vocabulary
        sources = vocabulary.source.encode(texts)
        targets = [
            np.array([*vocabulary.target.ids_of_pieces(x, 'output'), vocabulary.eos_id], np.int32)
            for x in outputs
        ]
        found = {'encoder': [], 'logits': [], 'log-probabilities': []}
        for k in range(0, len(texts), _ROWS):
            arrays = self._values(
                self._variables, _padded(sources[k : k + _ROWS]), _padded(targets[k : k + _ROWS])
            )
            for row, ids in enumerate(targets[k : k + _ROWS]):
                encoder, logits, log_probs = (np.asarray(x[row]) for x in arrays)
                found['encoder'].append(encoder[: len(sources[k + row])])
                found['logits'].append(logits[: len(ids), 1:])
                found['log-probabilities'].append(log_probs[: len(ids)])
        return found


def _padded(sentences: Sequence[np.ndarray]) -> np.ndarray:
    """Return ids as a batch; most sentences of the gate have the same shape."""
    batch = np.zeros((_ROWS, max(LONGEST + 1, *map(len, sentences))), np.int32)
    for row, ids in enumerate(sentences):
        batch[row, : len(ids)] = ids
    return batch


def _difference(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference of two arrays, relative to the largest value.

    Log-probabilities [T] are compared in nats.
    """
    scale = 1.0 if expected.ndim == 1 else np.max(np.abs(expected))
    return float(np.max(np.abs(found - expected)) / scale)
