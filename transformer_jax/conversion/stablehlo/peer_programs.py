"""Exported programs, called in a process without this package, to compare our search with."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh

from transformer_jax.conversion.parity.peer import Output, Pieces
from transformer_jax.conversion.piece_tables import piece_table
from transformer_jax.conversion.stablehlo.programs import Program
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError
from transformer_jax.sharding import make_mesh
from transformer_jax.storage.release import WEIGHTS

_ANY_ROWS = 5  # of the calls of a program that takes any number
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


class ProgramsPeer:
    """The programs of a folder, which take ids and have a search of their own; see `Peer`.

    They tell outputs and scores only.

    Attributes:
      name: what is called, and where.
    """

    name = f'the programs, called on the CPU in a process without {", ".join(_BLOCKED)},'

    def __init__(self, folder: Path, programs: Sequence[Program], vocabulary: VocabularyPair):
        """Call nothing yet.

        Args:
          folder: the folder of the programs and their weights.
          programs: the programs.
          vocabulary: vocabularies of both sides.
        """
        self._folder, self._programs = folder, programs
        self._eos_id = vocabulary.eos_id
        self._ids = {piece: k for k, piece in enumerate(piece_table(vocabulary.source))}
        self._pieces = piece_table(vocabulary.target)

    def for_each(self, sources: Sequence[Pieces]) -> list[Pieces]:
        """Return the sources for one program after the other, cut if they are too long for it."""
        return [
            source[: program.length and program.length - 1]
            for program in self._programs
            for source in sources
        ]

    def search(self, sources: Sequence[Pieces], beam_size: int, limit: int | None) -> list[Output]:
        """Return the best output of each source, see `Peer`.

        Args:
          sources: those of `for_each`.
          beam_size: that of the programs.
          limit: None, for the programs have their own.

        Raises:
          RuntimeError: if a program cannot be called in another process.
        """
        count = len(sources) // len(self._programs)
        batches = [
            self._batches(program, sources[k * count : (k + 1) * count])
            for k, program in enumerate(self._programs)
        ]
        outputs = []
        for tokens, scores in self._call(batches):
            # Rows without a sentence are at the end.
            rows = zip(tokens[:count].tolist(), scores[:count].tolist(), strict=True)
            outputs += [Output(self._to_pieces(ids), score) for ids, score in rows]
        return outputs

    def values(
        self, sources: Sequence[Pieces], outputs: Sequence[Pieces]
    ) -> Iterator[dict[str, np.ndarray]]:
        """See `Peer`."""
        yield from ({} for _ in zip(sources, outputs, strict=True))

    def _to_pieces(self, ids: list[int]) -> Pieces:
        end = ids.index(self._eos_id) if self._eos_id in ids else len(ids)
        return tuple(self._pieces[k] for k in ids[:end])

    def _batches(self, program: Program, sources: Sequence[Pieces]) -> np.ndarray:
        """Return [batches, rows, length] ids; the last rows may be padding."""
        rows = program.rows or _ANY_ROWS
        length = program.length or 1 + max(map(len, sources))
        count = -(-len(sources) // rows)
        ids = np.zeros((count * rows, length), np.int32)
        for row, source in enumerate(sources):
            ids[row, : len(source) + 1] = [*(self._ids[piece] for piece in source), self._eos_id]
        return ids.reshape(count, rows, length)

    def _call(self, batches: Sequence[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield tokens and scores of each program's batches, from another process."""
        with tempfile.TemporaryDirectory() as name:
            calls = []
            for k, (program, of_program) in enumerate(zip(self._programs, batches, strict=True)):
                call = {
                    'program': str(self._folder / program.file),
                    'batches': os.path.join(name, f'batches_{k}.npy'),
                    'found': os.path.join(name, f'found_{k}.npz'),
                }
                np.save(call['batches'], of_program)
                calls.append(call)
            job = {'path': sys.path, 'blocked': _BLOCKED, 'weights': str(self._folder / WEIGHTS)}
            called = subprocess.run(
                [sys.executable, '-I', '-c', _CALLER],
                input=json.dumps(job | {'calls': calls}),
                env=os.environ | {'JAX_PLATFORMS': 'cpu'},
                capture_output=True,
                text=True,
                check=False,
            )
            if called.returncode:
                raise RuntimeError(
                    f'the exported programs cannot be called: {called.stderr.strip()}'
                )
            for call in calls:
                with np.load(call['found']) as arrays:
                    yield arrays['tokens'], arrays['scores']
