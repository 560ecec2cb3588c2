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

from transformer_jax.conversion.stablehlo_programs import Program
from transformer_jax.errors import UserError
from transformer_jax.inference.batch_decoder import BatchDecoder
from transformer_jax.inference.search_methods import Search
from transformer_jax.sharding import make_mesh
from transformer_jax.storage.release import WEIGHTS

_SENTENCES = 20  # for each length
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
      outputs: number of outputs that were compared.
      same_tokens: number of them with the same tokens.
      ties: number of the others whose scores are the same within the tolerance.
      largest_difference: of a score, relative to the score if that is above 1.
    """

    outputs: int
    same_tokens: int
    ties: int
    largest_difference: float

    def report(self) -> dict[str, Any]:
        """Return the content of conversion.json about the comparison."""
        return {
            'compared_with': 'beam search of transformer_jax in float32',
            'called_from': f'a process without {", ".join(_BLOCKED)}',
            'platform': 'cpu',
            'tolerance': _TOLERANCE,
        } | dataclasses.asdict(self)

    def summary(self) -> str:
        """Return the same for people."""
        return (
            f'{self.same_tokens} of {self.outputs} outputs of the programs, called in a process '
            'without this package, have the tokens that its search finds'
            + (f' ({self.ties} others have the same score)' if self.ties else '')
            + f'; the largest difference of a score is {self.largest_difference:.2g}'
        )

    def check(self) -> None:
        """Raise a RuntimeError if the programs compute something else in float32."""
        differ = self.same_tokens + self.ties < self.outputs
        if differ or not self.largest_difference <= _TOLERANCE:
            raise RuntimeError(f'The exported programs are wrong: {self.summary()}.')


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
    decoder: BatchDecoder,
    search: Search,
    eos_id: int,
    limit: int = 0,
) -> Gate:
    """Translate random sentences with each program, and with this package's search.

    Args:
      folder: the folder of the programs and their weights.
      programs: the programs.
      decoder: this package's search, with the same model in float32.
      search: what is asked for about each sentence.
      eos_id: the token that ends a sentence.
      limit: most tokens of a sentence, 0 for no limit.

    Raises:
      RuntimeError: if a program cannot be called in another process.
    """
    any_length = min(_ANY_LENGTH, limit or _ANY_LENGTH)
    shapes = [(p.rows or _ANY_ROWS, p.length or any_length) for p in programs]
    vocab_size = decoder.network.vocab_size
    sentences = {s: list(_random_sentences(vocab_size, s, eos_id)) for _, s in shapes}
    with tempfile.TemporaryDirectory() as name:
        calls = []
        for k, ((rows, length), program) in enumerate(zip(shapes, programs, strict=True)):
            batches, found = Path(name, f'batches_{k}.npy'), Path(name, f'found_{k}.npz')
            np.save(batches, _batches(sentences[length], rows, length))
            files = {'program': folder / program.file, 'batches': batches, 'found': found}
            calls.append({name: str(path) for name, path in files.items()})
        _call({'weights': str(folder / WEIGHTS), 'calls': calls})
        found = []
        for call in calls:
            with np.load(call['found']) as arrays:
                found.append((arrays['tokens'], arrays['scores']))
    wanted = {
        length: {result.index: result for result in decoder(of_length, search)}
        for length, of_length in sentences.items()
    }
    same, ties, largest = 0, 0, 0.0
    for (_, length), (tokens, scores) in zip(shapes, found, strict=True):
        for k, result in wanted[length].items():
            score = float(result.scores[0])
            difference = abs(float(scores[k]) - score) / max(1.0, abs(score))
            is_same = np.array_equal(_trimmed(tokens[k]), _trimmed(result.tokens[0]))
            same += is_same
            ties += not is_same and difference <= _TOLERANCE
            largest = max(largest, difference)
    return Gate(sum(len(wanted[length]) for _, length in shapes), same, ties, largest)


def _random_sentences(vocab_size: int, longest: int, eos_id: int) -> Iterator[np.ndarray]:
    """Yield sentences of all lengths, whose tokens are random."""
    rng = np.random.default_rng(0)
    tokens = np.setdiff1d(np.arange(1, vocab_size), [eos_id])
    for length in np.linspace(min(2, longest), longest, _SENTENCES).astype(int):
        yield np.append(rng.choice(tokens, length - 1), eos_id).astype(np.int32)


def _batches(sentences: Sequence[np.ndarray], rows: int, length: int) -> np.ndarray:
    """Return the sentences as [batches, rows, length] ids; the last rows may be padding."""
    count = -(-len(sentences) // rows)
    ids = np.zeros((count * rows, length), np.int32)
    for row, sentence in enumerate(sentences):
        ids[row, : len(sentence)] = sentence
    return ids.reshape(count, rows, length)


def _trimmed(tokens: np.ndarray) -> np.ndarray:
    return np.trim_zeros(tokens, 'b')


def _call(job: dict[str, Any]) -> None:
    """Run `_CALLER`, isolated from this process."""
    job = {'path': sys.path, 'blocked': _BLOCKED} | job
    called = subprocess.run(
        [sys.executable, '-I', '-c', _CALLER],
        input=json.dumps(job),
        env=os.environ | {'JAX_PLATFORMS': 'cpu'},
        capture_output=True,
        text=True,
        check=False,
    )
    if called.returncode:
        raise RuntimeError(f'The exported programs cannot be called: {called.stderr.strip()}')
