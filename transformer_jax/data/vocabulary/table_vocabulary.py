"""A SentencePiece model whose pieces get their ids from a table, as in Marian and OPUS-MT."""

import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from transformer_jax.data.vocabulary.sentencepiece_model import open_model
from transformer_jax.data.vocabulary.vocabulary import Vocabulary, words_of_spans
from transformer_jax.errors import UserError, did_you_mean, shown, user_path
from transformer_jax.storage.files import atomic_write, read_json, read_regular

PAD, EOS, UNKNOWN = '<pad>', '</s>', '<unk>'
_CODE = re.compile(r'>>[^\s<>]+<<')
_BYTE = re.compile('<0x[0-9A-Fa-f]{2}>')
_SHAPE = {'pieces': [str]}


class TableVocabulary(Vocabulary):
    """Converts text to pieces with SentencePiece, and pieces to ids with a table.

    A piece that the table lacks becomes unknown, whatever id SentencePiece has for it.

    Attributes:
      table: the pieces by id; id 0 is padding.
      language_codes: pieces such as '>>fra<<', which name the language to translate into. If there
        are any, a text must begin with one of them. Empty on the target side.
    """

    def __init__(self, model: bytes, table: Sequence[str], *, is_source: bool):
        """Wrap a SentencePiece model and a table.

        Args:
          model: the bytes of the SentencePiece model file; its own ids do not matter.
          table: the pieces by id: first padding, then all others, with '</s>' and '<unk>'.
          is_source: whether texts to translate are encoded, which begin with a language code if
            the table has language codes.

        Raises:
          ValueError: if the bytes are no SentencePiece model, or if the table has a piece twice or
            lacks '</s>' or '<unk>'.
        """
        self._processor = open_model(model)
        self.model, self.table = model, tuple(table)
        self._ids = {piece: i for i, piece in enumerate(self.table)}
        if len(self._ids) < len(self.table):
            twice = next(x for i, x in enumerate(self.table) if self._ids[x] != i)
            raise ValueError(f'a table that has the piece {shown(twice)} twice')
        for piece in (EOS, UNKNOWN):
            if not self._ids.get(piece):
                raise ValueError(f'a table without {piece} after the padding')
        self.size = len(self.table)
        self.eos_id, self.unknown_id = self._ids[EOS], self._ids[UNKNOWN]
        codes = [piece for piece in self.table if _CODE.fullmatch(piece)]
        self.language_codes = tuple(codes) if is_source else ()
        content = model + json.dumps(self.table).encode()
        self.digest = hashlib.blake2b(content, digest_size=16).hexdigest()

    @classmethod
    def load_table(
        cls, path: str | os.PathLike[str], field: str, *, is_source: bool
    ) -> 'TableVocabulary':
        """Read what `save` has written.

        Args:
          path: of the SentencePiece model file; the table has the same name with '.json'.
          field: its name in messages.
          is_source: see `TableVocabulary`.

        Raises:
          UserError: if a file cannot be read or used.
        """
        file = user_path(path, field)
        try:
            table = read_json(file.with_suffix('.json'), _SHAPE)['pieces']
            return cls(read_regular(file), table, is_source=is_source)
        except OSError as error:
            raise UserError(
                f'{field}={str(path)!r} cannot be read ({error.filename}: {error.strerror}): '
                'restore the file.'
            ) from error
        except ValueError as error:
            raise UserError(
                f'{field}={str(path)!r} with its table cannot be used ({error}): restore the files.'
            ) from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table, then the SentencePiece model file, each atomically."""
        with atomic_write(Path(path).with_suffix('.json')) as file:
            json.dump({'pieces': self.table}, file, ensure_ascii=False, indent=0)
        super().save(path)

    @property
    def can_sample(self) -> bool:
        """Whether `sample` can be used: not with models of whole characters or words."""
        code = self.language_codes[:1]
        (ids,) = self.sample([' '.join([*code, 'a'])], 0.1, 0)
        return len(ids) > 1 + len(code)

    @property
    def tags(self) -> tuple[str, ...]:
        """The language codes, or else the pieces that are tags."""
        return self.language_codes or super().tags

    def take_tag(self, text: str) -> tuple[str, str]:
        """Return the code or tag that a text begins with, '' if there is none, and the rest."""
        if not self.language_codes:
            return super().take_tag(text)
        found = _CODE.match(text.lstrip())
        if found and found[0] in self.language_codes:
            return found[0], text.lstrip()[found.end() :].lstrip()
        return '', text

    def texts(self, sentences: Sequence[np.ndarray]) -> list[str]:
        """Return normalised texts that `encode` turns into the same ids.

        Args:
          sentences: ids from `encode`, without unknown ones.
        """
        lines = [[self.table[i] for i in ids[:-1]] for ids in sentences]
        codes = [line[:1] if {*line[:1]} & {*self.language_codes} else [] for line in lines]
        # One by one: for a list that begins with no pieces, SentencePiece expects ids.
        return [
            ' '.join([*code, self._processor.decode(line[len(code) :])])
            for code, line in zip(codes, lines, strict=True)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids up to EOS, without padding."""
        # SentencePiece keeps the sign for a space in pieces that it does not know.
        return self._processor.decode(self.pieces(ids)).replace('▁', ' ').strip()

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces of ids up to EOS, without padding."""
        return [self.table[i] for i in self._content(ids)]

    def ids_of_pieces(self, pieces: Sequence[str], field: str) -> np.ndarray:
        """Return the int32 ids of pieces, without EOS; see `Vocabulary.ids_of_pieces`."""
        for piece in pieces:
            if piece not in self._ids:
                spelt = self._processor.encode(piece.replace('▁', ' '), out_type=str)
                raise UserError(
                    f'{field}: {shown(piece)} is no piece of the vocabulary, which spells the text '
                    f'{" ".join(spelt)!r}.'
                )
        return np.array([self._ids[piece] for piece in pieces], np.int32)

    def source_words(self, text: str) -> list[int | None]:
        """Return the index in `text.split()` of the word of each id of `encode([text])`.

        A language code or tag and EOS belong to no word, and the words are counted behind it.
        """
        if not self.language_codes:
            return super().source_words(text)
        code, rest = self._split_code(text)
        spans = list[tuple[int, int]]()
        if rest.strip():
            proto = self._processor.encode(rest, out_type='immutable_proto')
            spans = [(piece.begin, piece.end) for piece in proto.pieces]
        return [*[None] * len(code), *words_of_spans(rest, spans), None]

    def output_words(self, ids: Sequence[int]) -> list[int | None]:
        """Return the index in `decode(ids).split()` of the word of each id up to and with EOS.

        A piece of spaces belongs to the word that follows. EOS belongs to no word.
        """
        pieces = self.pieces(ids)
        if not pieces:
            return [None]
        proto = self._processor.decode(pieces, out_type='immutable_proto')
        text = proto.text.replace('▁', ' ')
        return [*words_of_spans(text, ((piece.begin, piece.end) for piece in proto.pieces)), None]

    @functools.cached_property
    def _is_fallback_V(self) -> np.ndarray:
        return np.array([x == UNKNOWN or bool(_BYTE.fullmatch(x)) for x in self.table])

    def _segment(self, texts: Sequence[str], **options: Any) -> list[list[int]]:
        split = [self._split_code(text) for text in texts]
        lines = self._processor.encode([rest for _, rest in split], out_type=str, **options)
        return [
            self._ids_or_unknown([*code, *line])
            for (code, _), line in zip(split, lines, strict=True)
        ]

    def _ids_or_unknown(self, pieces: Iterable[str]) -> list[int]:
        return [self._ids.get(piece, self.unknown_id) for piece in pieces]

    def _split_code(self, text: str) -> tuple[list[str], str]:
        """Return the language code of a text, if the vocabulary has codes, and the rest of it."""
        if not self.language_codes or not text.strip():
            return [], text
        found = _CODE.match(text.lstrip())
        code = found[0] if found else ''
        if code not in self.language_codes:
            raise UserError(
                f'the text {shown(text)} must begin with the language to translate into, one of '
                f'{", ".join(self.language_codes)}{did_you_mean(code, self.language_codes)}'
            )
        return [code], text.lstrip()[len(code) :]
