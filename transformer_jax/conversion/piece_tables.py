"""Tables of pieces and their ids, and the vocabularies of Marian models, which are such tables."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from transformer_jax.data.vocabulary.sentencepiece_model import open_model
from transformer_jax.data.vocabulary.table_vocabulary import EOS, PAD, UNKNOWN, TableVocabulary
from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.errors import UserError, first_line, shown
from transformer_jax.storage.files import read_json, read_regular

# Rows of an embedding without a piece, which make its size a multiple of some number.
_MOST_UNUSED = 1024
_LARGEST = 32 << 20  # bytes of a vocabulary
# Escapes of YAML within double quotes.
_HEX = '[0-9a-fA-F]'
_ESCAPE = re.compile(rf'\\(?:x({_HEX}{{2}})|u({_HEX}{{4}})|U({_HEX}{{8}})|(.))')
_NAMED = {'t': '\t', 'n': '\n', 'r': '\r', 'b': '\b', 'f': '\f', 'v': '\v', '0': '\0'}


def piece_table(vocabulary: Vocabulary) -> list[str]:
    """Return the piece of each id; padding, EOS and unknown have their usual names.

    Other pieces of these names get different ones, because pieces have to determine ids. Texts have
    no such pieces.
    """
    special = {
        vocabulary.pad_id: PAD,
        vocabulary.eos_id: EOS,
        vocabulary.unknown_id: UNKNOWN,
    }
    ids = [k for k in range(vocabulary.size) if k not in special]
    named = zip(ids, vocabulary.pieces(ids), strict=True)
    table = special | {
        k: f'<unused_{k}>' if piece in special.values() else piece for k, piece in named
    }
    return [table[k] for k in range(vocabulary.size)]


def read_table(path: Path) -> dict[str, int]:
    """Return the id of each piece of a vocab.json or vocab.yml.

    Raises:
      UserError: if the file cannot be read, or ids are missing or not numbers.
    """
    try:
        if path.suffix == '.json':
            return read_json(path, {str: int})
        return dict(_yaml_items(read_regular(path, _LARGEST).decode('utf-8-sig')))
    except OSError as error:
        raise UserError(
            f'{str(path)!r} cannot be read ({error.strerror}): the folder of the model must have '
            'its vocabulary.'
        ) from error
    except ValueError as error:
        raise UserError(
            f'{str(path)!r} is not a table of pieces and their ids ({first_line(error)}): get the '
            'file again.'
        ) from error


def _yaml_items(text: str) -> Iterator[tuple[str, int]]:
    """Yield the pieces and ids of a YAML file with one 'piece: id' a line.

    A YAML parser would take pieces such as no, ~ and << for values of its own. A piece that may not
    stand before a colon has a line '? piece', and its id follows in a line ': id'.
    """
    key = None
    for number, line in enumerate(text.split('\n'), 1):
        line = line.strip('\r')
        if key is None and (not line.strip() or line in ('---', '...')):
            continue
        if key is None and line.startswith('? '):
            key = line[2:]
            continue
        piece, colon, token = line.rpartition(':')
        if key is not None:
            piece, colon, key = key, colon and not piece, None
        if not colon or not token.strip().isdecimal():
            raise ValueError(f'line {number} is {shown(line)}, not a piece, a colon and an id')
        yield _unquoted(piece), int(token)


def _unquoted(piece: str) -> str:
    if len(piece) >= 2 and piece[0] == piece[-1] == "'":
        return piece[1:-1].replace("''", "'")
    if len(piece) >= 2 and piece[0] == piece[-1] == '"':
        return _ESCAPE.sub(_unescaped, piece[1:-1])
    return piece


def _unescaped(escape: re.Match) -> str:
    code = escape[1] or escape[2] or escape[3]
    return chr(int(code, 16)) if code else _NAMED.get(escape[4], escape[4])


class Side:
    """One side's ids in another program, and ours, among which padding is 0.

    Attributes:
      order: [V] the old id for each new one; -1 for a padding that the model does not have.
      size: number of old ids.
      eos: the old id of EOS.
    """

    def __init__(self, size: int, *, pad: int | None = None):
        """Put padding first and keep the order of the others.

        Args:
          size: number of old ids.
          pad: the old id of padding; None if the model has none.
        """
        self.size = size
        first = -1 if pad is None else pad
        self.order = np.array([first, *(i for i in range(size) if i != first)])

    def permuted(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows [V, ...] of old ids in the order of new ones; zeros for a new padding."""
        result = np.zeros((len(self.order), *rows.shape[1:]), rows.dtype)
        first = 1 if self.order[0] < 0 else 0
        np.take(rows, self.order[first:], axis=0, out=result[first:], mode='clip')
        return result


class TableSide(Side):
    """A side whose ids are those of a table of pieces.

    Attributes:
      eos: the old id of EOS.
      pieces: the piece of each old id.
    """

    def __init__(self, ids: Mapping[str, int], size: int, path: Path, *, pad: str | None = None):
        """Check a table.

        Args:
          ids: of each piece, in the other program.
          size: rows of the embedding.
          path: of the file, for messages.
          pad: the piece of padding; None if the model has none.

        Raises:
          UserError: if the table does not fit the model.
        """
        self._path = path
        pieces = {i: piece for piece, i in ids.items()}
        for problem, found in (
            ('pieces with the same id', len(pieces) < len(ids)),
            (
                f'ids that are not from 0 to {size - 1}',
                min(pieces, default=0) < 0 or max(pieces, default=0) >= size,
            ),
            (f'{len(ids):,} pieces only', size > len(ids) + _MOST_UNUSED),
            *((f'no piece {piece}', piece not in ids) for piece in (EOS, UNKNOWN, pad) if piece),
        ):
            if found:
                raise UserError(
                    f'{str(path)!r} has {problem}, and the model has {size:,} embeddings: get the '
                    'vocabulary that belongs to the model.'
                )
        super().__init__(size, pad=pad and ids[pad])
        self.pieces = [pieces.get(i, f'<unused_{i}>') for i in range(size)]
        self.eos = ids[EOS]

    def put_eos_second(self) -> None:
        """Give EOS the id 1."""
        rest = self.order[1:]
        self.order = np.array([self.order[0], self.eos, *rest[rest != self.eos]])

    def vocabulary(self, model: Path, *, is_source: bool) -> TableVocabulary:
        """Return the vocabulary with a SentencePiece model.

        Raises:
          UserError: if the model cannot be read.
        """
        table = [PAD if i < 0 else self.pieces[i] for i in self.order]
        content = read_spm(model)
        try:
            return TableVocabulary(content, table, is_source=is_source)
        except ValueError as error:
            raise UserError(
                f'{str(model)!r} with {str(self._path)!r} is {error}: get the files again.'
            ) from error


def joined(sides: Sequence[TableSide], folder: Path) -> VocabularyPair:
    """Return the vocabularies of source and target, with the SentencePiece models of a folder.

    Both sides must have the same id of EOS, so it may get another one here.
    """
    source, target = sides
    if source.eos != target.eos:
        for side in sides:
            side.put_eos_second()
    return VocabularyPair(
        source.vocabulary(folder / 'source.spm', is_source=True),
        target.vocabulary(folder / 'target.spm', is_source=False),
    )


def read_spm(path: Path) -> bytes:
    """Return the content of a SentencePiece model file, which is checked.

    Raises:
      UserError: if there is none, or it is damaged.
    """
    try:
        content = read_regular(path, _LARGEST)
        open_model(content)
        return content
    except ValueError as error:
        raise UserError(f'{str(path)!r} is {error}: get the file again.') from error
    except OSError as error:
        raise UserError(
            f'{str(path)!r} cannot be read ({error.strerror}): a model can be imported with its '
            'SentencePiece models, source.spm and target.spm, not with the words or BPE codes of '
            'other programs.'
        ) from error
