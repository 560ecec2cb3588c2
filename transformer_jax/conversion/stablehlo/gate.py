"""Compares exported programs, in a process without this package, with the package's search."""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from transformer_jax.conversion.stablehlo.programs import Program
from transformer_jax.decoding import SearchOptions
from transformer_jax.errors import UserError
from transformer_jax.sharding import make_mesh
from transformer_jax.storage.release import WEIGHTS
from transformer_jax.translating.batch_decoder import BatchDecoder

# Rows and length of the calls of a program that takes any.
_ANY_ROWS, _ANY_LENGTH = 5, 40
# Of a score in float32, whose sums are added in another order.
_TOLERANCE = 1e-4
# Packages that the programs must not need.
_BLOCKED = ('transformer_jax', 'flax', 'orbax', 'tensorflow', 'ml_collections')
_CALLER = """
import json, sys
job = json.load(sys.stdin)
sys.path[:] = job['path']
sys.modules.update(dict.fromkeys(job['blocked']))  # importing one of them is an error now
import jax, numpy
from jax import export
from safetensors.flax import load_file
params = load_file(job['weights'])
for call in job['calls']:
    with open(call['program'], 'rb') as file:
        translate = jax.jit(export.deserialize(bytearray(file.read())).call)
    found = [translate(params, batch) for batch in numpy.load(call['batches'])]
    numpy.savez(call['found'], **{k: numpy.concatenate([x[k] for x in found]) for k in found[0]})
"""


@dataclasses.dataclass(frozen=True)
class Gate:
    """What the comparison found, over all programs.

    Attributes:
      text: what was translated, in words.
      sentences: number of sentences.
      outputs: number of outputs, one for each sentence and program.
      same_tokens: number of outputs with the same tokens.
      ties: number of the others whose scores are the same within the tolerance.
      largest_difference: of a score, divided by the score if that is above 1.
    """

    text: str
    sentences: int
    outputs: int
    same_tokens: int
    ties: int
    largest_difference: float

    def report(self) -> dict[str, Any]:
        """Return what conversion.json holds about the comparison."""
        return dataclasses.asdict(self) | {
            'compared_with': 'the search of transformer_jax with float32 weights',
            'called_from': f'a process without {", ".join(_BLOCKED)}',
            'platform': 'cpu',
            'tolerance': _TOLERANCE,
        }

    def summary(self) -> str:
        """Return what was found, for people."""
        ties = f' ({self.ties} others have the same score)' if self.ties else ''
        return (
            f'the programs, called in a process without this package, on {self.text}: '
            f'{self.same_tokens} of {self.outputs} outputs have the tokens that our search finds '
            f'with float32 weights{ties}; largest difference of a score '
            f'{self.largest_difference:.1e}'
        )

    def check(self) -> None:
        """Raise a RuntimeError if the programs compute something else in float32."""
        is_same = self.same_tokens + self.ties == self.outputs
        if not (is_same and self.largest_difference <= _TOLERANCE):
            raise RuntimeError(f'the export to stablehlo computes something else: {self.summary()}')


def cpu_mesh() -> Mesh:
    """Return the mesh of one CPU device, on which programs are compared.

    Raises:
      UserError: if JAX may not use the CPU.
    """
    try:
        return make_mesh(devices=jax.local_devices(backend='cpu')[:1])
    except RuntimeError as error:
        raise UserError(
            f'JAX_PLATFORMS={os.environ.get("JAX_PLATFORMS", "")!r} leaves out the CPU, on which '
            'exported programs are checked: add cpu to it, or unset it.'
        ) from error


def compare(
    folder: Path,
    programs: Sequence[Program],
    sentences: Sequence[np.ndarray],
    decoder: BatchDecoder,
    options: SearchOptions,
    *,
    text: str,
) -> Gate:
    """Translate sentences with each program, and with this package's search.

    Args:
      folder: the folder of the programs and their weights.
      programs: the programs. Sentences that are too long for one are cut.
      sentences: int32 ids that end with EOS.
      decoder: this package's search, with the same model in float32.
      options: what the search looks for.
      text: what the sentences are, in words.

    Raises:
      RuntimeError: if a program cannot be called in another process.
    """
    lengths = [program.length or _ANY_LENGTH for program in programs]
    cut = {length: [_cut(ids, length) for ids in sentences] for length in lengths}
    batches = [
        _batches(cut[length], program.rows or _ANY_ROWS, length)
        for program, length in zip(programs, lengths, strict=True)
    ]
    found = _call(folder, programs, batches)
    wanted = {length: _outputs(decoder, of_length, options) for length, of_length in cut.items()}
    same, ties, largest = 0, 0, 0.0
    for length, (all_tokens, scores) in zip(lengths, found, strict=True):
        # Rows without a sentence are at the end.
        for (tokens, score), found_tokens, found_score in zip(
            wanted[length], all_tokens, scores, strict=False
        ):
            difference = abs(float(found_score) - score) / max(1.0, abs(score))
            is_same = np.array_equal(np.trim_zeros(found_tokens, 'b'), np.trim_zeros(tokens, 'b'))
            same += is_same
            ties += not is_same and difference <= _TOLERANCE
            largest = max(largest, difference)
    return Gate(text, len(sentences), len(sentences) * len(programs), same, ties, largest)


def outputs_of(folder: Path, program: Program, sentences: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the tokens that a program puts out for each sentence.

    Args:
      folder: the folder of the program and its weights.
      program: the program. Sentences that are too long for it are cut.
      sentences: int32 ids that end with EOS.

    Raises:
      RuntimeError: if the program cannot be called in another process.
    """
    length = program.length or max(map(len, sentences))
    cut = [_cut(ids, length) for ids in sentences]
    batches = _batches(cut, program.rows or _ANY_ROWS, length)
    ((tokens, _),) = _call(folder, [program], [batches])
    return list(tokens[: len(sentences)])  # rows without a sentence are at the end


def _outputs(
    decoder: BatchDecoder, sentences: Sequence[np.ndarray], options: SearchOptions
) -> list[tuple[np.ndarray, float]]:
    """Return tokens and score of the best output of each sentence."""
    results = sorted(decoder(sentences, options), key=lambda result: result.index)
    return [(result.tokens[0], float(result.scores[0])) for result in results]


def _cut(ids: np.ndarray, length: int) -> np.ndarray:
    return ids if len(ids) <= length else np.append(ids[: length - 1], ids[-1:])


def _batches(sentences: Sequence[np.ndarray], rows: int, length: int) -> np.ndarray:
    """Return the sentences as [batches, rows, length] ids; the last rows may be padding."""
    count = -(-len(sentences) // rows)
    ids = np.zeros((count * rows, length), np.int32)
    for row, sentence in enumerate(sentences):
        ids[row, : len(sentence)] = sentence
    return ids.reshape(count, rows, length)


def _call(
    folder: Path, programs: Sequence[Program], batches: Sequence[np.ndarray]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield tokens and scores of each program's batches, from a process without this package."""
    with tempfile.TemporaryDirectory() as name:
        calls = []
        for k, (program, of_program) in enumerate(zip(programs, batches, strict=True)):
            call = {
                'program': str(folder / program.file),
                'batches': os.path.join(name, f'batches_{k}.npy'),
                'found': os.path.join(name, f'found_{k}.npz'),
            }
            np.save(call['batches'], of_program)
            calls.append(call)
        job = {'path': sys.path, 'blocked': _BLOCKED, 'weights': str(folder / WEIGHTS)}
        called = subprocess.run(
            [sys.executable, '-I', '-c', _CALLER],
            input=json.dumps(job | {'calls': calls}),
            env=os.environ | {'JAX_PLATFORMS': 'cpu'},
            capture_output=True,
            text=True,
            check=False,
        )
        if called.returncode:
            raise RuntimeError(f'the exported programs cannot be called: {called.stderr.strip()}')
        for call in calls:
            with np.load(call['found']) as arrays:
                yield arrays['tokens'], arrays['scores']
