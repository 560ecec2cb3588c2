"""Marian itself, from the package pymarian, to compare an imported model with."""

import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from transformer_jax.conversion.parity.peer import Output, Pieces, spelt
from transformer_jax.conversion.piece_tables import read_table
from transformer_jax.data.vocabulary.sentencepiece_model import open_model
from transformer_jax.errors import UserError


class PymarianPeer:
    """A model in Marian, which runs as a program of its own; see `parity.peer.Peer`.

    It tells log-probabilities with five decimals, and no encoder outputs and logits.

    Attributes:
      name: 'pymarian' and its version.
    """

    def __init__(
        self,
        arrays: Path,
        vocabularies: Sequence[Path],
        models: Sequence[bytes],
        *,
        length_penalty: float,
        allow_unknown: bool,
    ):
        """Start nothing yet.

        Args:
          arrays: the model.npz.
          vocabularies: files of source and target.
          models: SentencePiece models of source and target.
          length_penalty: exponent of the length norm.
          allow_unknown: whether outputs may have the unknown token.

        Raises:
          UserError: if pymarian is not installed.
        """
        if importlib.util.find_spec('pymarian') is None:
            raise UserError(
                '--check needs pymarian: pip install "transformer_jax[peers]", or leave it out.'
            )
        self.name = f'pymarian {importlib.metadata.version("pymarian")}'
        self._arrays = str(arrays.resolve())
        self._vocabularies = vocabularies
        self._processors = [open_model(x) for x in models]
        self._options = ['--normalize', str(length_penalty)]
        self._options += ['--allow-unk'] if allow_unknown else []

    def source_pieces(self, texts: Sequence[str]) -> list[Pieces]:
        """See `Peer`."""
        known = self._table(0)
        return [spelt(self._processors[0], text, known) for text in texts]

    def search(self, sources: Sequence[Pieces], beam_size: int, limit: int) -> list[Output]:
        """See `Peer`."""
        with tempfile.TemporaryDirectory() as folder:
            lines = self._run(
                folder,
                'decode',
                *('--input', _written(folder, 'source', sources)),
                *('--beam-size', str(beam_size), '--n-best', *self._options),
                # Times the tokens of the source, which has 2 at least.
                *('--max-length-factor', str(-(-limit // 2))),
            )
        found = {}
        for number, output, *_, score in (line.split(' ||| ') for line in lines):
            best = Output(tuple(output.split()), float(score))
            found.setdefault(int(number), best)  # the best is first
        return [found[k] for k in range(len(sources))]

    def values(
        self, sources: Sequence[Pieces], outputs: Sequence[Pieces]
    ) -> Iterator[dict[str, np.ndarray]]:
        """See `Peer`."""
        with tempfile.TemporaryDirectory() as folder:
            files = [
                _written(folder, 'source', sources),
                _written(folder, 'target', outputs),
            ]
            lines = self._run(folder, 'score', '--train-sets', *files, '--word-scores')
        for line in lines:
            scores = line.rpartition('WordScores= ')[2].split()
            yield {'log-probabilities': np.array(scores, np.float64)}

    def text(self, pieces: Sequence[str]) -> str:
        """See `Peer`."""
        return self._processors[1].decode(list(pieces)).replace('▁', ' ').strip()

    def _table(self, side: int) -> dict[str, int]:
        path, processor = self._vocabularies[side], self._processors[side]
        if path.suffix != '.spm':
            return read_table(path)
        return {processor.id_to_piece(i): i for i in range(processor.get_piece_size())}

    def _run(self, folder: str, command: str, *options: str) -> list[str]:
        """Run a command of Marian and return the lines that it prints."""
        paths = []
        for side, path in enumerate(self._vocabularies):
            if path.suffix == '.spm':  # Marian cannot score given pieces of these
                path = Path(folder, f'{side}.yml')
                # A text in JSON is one in YAML.
                items = (f'{json.dumps(piece)}: {i}\n' for piece, i in self._table(side).items())
                path.write_text(''.join(items), encoding='utf-8')
            paths.append(str(path.resolve()))
        done = subprocess.run(
            [
                *(sys.executable, '-m', 'pymarian', command, '-m', self._arrays),
                *('--vocabs', *paths, '--cpu-threads', '1', '--quiet', *options),
            ],
            capture_output=True,
            encoding='utf-8',
        )
        if done.returncode:
            raise UserError(
                f'{self.name} cannot read the model ({done.stderr.strip()[-300:]}): leave out '
                '--check.'
            )
        return done.stdout.splitlines()


def _written(folder: str, name: str, lines: Iterable[Sequence[str]]) -> str:
    """Write pieces into a file of a folder and return its path."""
    path = Path(folder, name)
    path.write_text(''.join(f'{" ".join(line)}\n' for line in lines), encoding='utf-8')
    return str(path)
