"""A vocabulary of one or of both languages: a model of SentencePiece.

Id 0 is padding. The other ids are SentencePiece's, plus one if the model file has no padding piece
or not at 0.
"""

import bisect
import functools
import hashlib
import io
import logging
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from transformer_jax.config.mixture import is_tag
from transformer_jax.data.vocabulary.sentencepiece_model import open_model
from transformer_jax.data.vocabulary.word_counts import count_words
from transformer_jax.errors import UserError, shown
from transformer_jax.storage.buckets import local_path
from transformer_jax.storage.files import atomic_write, read_regular

# SentencePiece silently skips longer words; its default is 4192 bytes.
_MAX_WORD_BYTES = 1 << 20
_TAGGED = re.compile(r'\s*(<2[\w-]+>)\s*')
# All threads share one seed of SentencePiece.
_SEED_LOCK = threading.Lock()
_logger = logging.getLogger('transformer_jax')


class Vocabulary:
    """Converts text to ids and back.

    Attributes:
      model: the bytes of the SentencePiece model file.
      size: V; ids are 0 to V - 1.
      pad_id: padding, 0; it also starts every target.
      eos_id: EOS.
      unknown_id: characters without pieces, if the model has no byte fallback.
      digest: hex digest of the model.
      language_codes: what a text must begin with, see `TableVocabulary`; none here.
    """

    pad_id = 0
    language_codes: tuple[str, ...] = ()

    def __init__(self, model: bytes):
        """Wrap the bytes of a SentencePiece model file.

        Raises:
          ValueError: if they are no SentencePiece model, or the model has no EOS.
        """
        self._processor = open_model(model)
        if self._processor.eos_id() < 0:
            raise ValueError('a SentencePiece model without EOS (</s>)')
        self.model = model
        self._shift = 0 if self._processor.pad_id() == 0 else 1
        self.size = self._processor.get_piece_size() + self._shift
        self.eos_id = self._processor.eos_id() + self._shift
        self.unknown_id = self._processor.unk_id() + self._shift
        self.digest = hashlib.blake2b(model, digest_size=16).hexdigest()

    @classmethod
    def load(cls, path: str | os.PathLike[str], field: str = 'data.vocabulary') -> 'Vocabulary':
        """Read a SentencePiece model file.

        Args:
          path: of the file.
          field: its name in messages.

        Raises:
          UserError: if the file cannot be read or used.
        """
        file = local_path(path, field)
        remedy = (
            'give the path of a SentencePiece .model file.'
            if field.startswith('data.')
            else 'restore the file.'
        )
        try:
            vocabulary = cls(read_regular(file))
        except OSError as error:
            raise UserError(
                f'{field}={str(path)!r} cannot be read ({error.strerror}): {remedy}'
            ) from error
        except ValueError as error:
            raise UserError(f'{field}={str(path)!r} is {error}: {remedy}') from error
        if not any(vocabulary._processor.is_byte(i) for i in range(min(512, vocabulary.size - 1))):
            _logger.warning(
                '%s=%r has no byte fallback: characters without pieces become unknown.',
                field,
                str(path),
            )
        return vocabulary

    @classmethod
    def train(
        cls,
        sentences: Iterable[str],
        *,
        size: int,
        model_type: str = 'bpe',
        character_coverage: float = 1.0,
        normalization: str = 'nmt_nfkc',
        tags: Sequence[str] = (),
    ) -> 'Vocabulary':
        """Train a model with byte fallback.

        Args:
          sentences: raw text, of both languages if they share the vocabulary.
          size: V, including the 256 bytes and 3 special pieces; the most with 'word' and 'char'.
          model_type: SentencePiece's: 'bpe', 'unigram', 'word' or 'char'.
          character_coverage: share of characters that get a piece of their own.
          normalization: SentencePiece's rule, e.g. 'nmt_nfkc' or 'identity'.
          tags: pieces that are never divided, such as '<2fr>'.

        Returns:
          The vocabulary, with padding 0, EOS 1 and unknown 2.

        Raises:
          UserError: if the text cannot support `size`, or `size` cannot hold its characters.
        """
        model = io.BytesIO()
        counts = count_words(sentences)
        # All that it learns from sentences is how often each word occurs. Its format has a tab.
        rows = ('{}\t{}'.format(word.replace('\t', ' '), count) for word, count in counts.items())
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=rows,
                input_format='tsv',
                model_writer=model,
                model_type=model_type,
                vocab_size=size,
                hard_vocab_limit=model_type != 'word',
                character_coverage=character_coverage,
                normalization_rule_name=normalization,
                byte_fallback=True,
                user_defined_symbols=list(tags),
                pad_id=0,
                eos_id=1,
                unk_id=2,
                bos_id=-1,
                max_sentence_length=_MAX_WORD_BYTES,
                num_threads=os.cpu_count() or 1,
                minloglevel=2,
            )
        except (RuntimeError, OSError, SystemError) as error:
            raise _explain(str(error), size) from error
        return cls(model.getvalue())

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the int32 ids of raw texts, each with EOS; uses all cores.

        A text that is empty after normalisation, or has only spaces, gives EOS alone.

        Raises:
          UserError: if `texts` is a single string, whose characters would be encoded one by one.
        """
        _check_is_list(texts)
        texts = [text if text.strip() else '' for text in texts]
        return self._with_eos(self._segment(texts, num_threads=-1))

    def sample(self, texts: Sequence[str], rate: float, seed: int) -> list[np.ndarray]:
        """Return ids as `encode` does, with random segmentations.

        A BPE model uses BPE-dropout (Provilkov et al., 2020), a unigram model subword
        regularisation (Kudo, 2018) with all candidates.

        Args:
          texts: raw texts.
          rate: share of merges that are dropped; for a unigram model Kudo's alpha, which makes
            segmentations more random the smaller it is.
          seed: 0 to 2^32 - 1; determines the segmentations together with the texts.

        Raises:
          UserError: if `texts` is a single string, or if the installed SentencePiece ignores seeds.
        """
        _check_is_list(texts)
        version = tuple(map(int, re.findall(r'\d+', sentencepiece.__version__)[:3]))
        if version >= (0, 2, 2):
            raise UserError(
                f'data.subword_sampling: SentencePiece {sentencepiece.__version__} draws different '
                'segmentations in each process, whatever the seed, so that a run could not resume '
                "exactly: install another version (pip install 'sentencepiece<0.2.2')."
            )
        # For several texts a new thread starts, whose generator begins with the last seed that was
        # set. A single text would take the generator of this thread, so a second one is added.
        with _SEED_LOCK:
            sentencepiece.set_random_generator_seed(seed % (2**32 - 1))  # it ignores 2^32 - 1
            *ids, _ = self._segment(
                [*texts, ''], enable_sampling=True, nbest_size=-1, alpha=rate, num_threads=1
            )
        return self._with_eos(ids)

    @property
    def can_sample(self) -> bool:
        """Whether `sample` can be used: not with models of whole characters or words."""
        (ids,) = self.sample(['a'], 0.1, 0)
        return len(ids) > 1  # such models give no pieces, only our EOS

    def has_tag(self, text: str) -> bool:
        """Return whether a text is a tag that the vocabulary has as a piece, such as '<2fr>'."""
        return is_tag(text) and self._processor.piece_to_id(text) != self._processor.unk_id()

    @functools.cached_property
    def tags(self) -> tuple[str, ...]:
        """The pieces that are tags."""
        pieces = map(self._processor.id_to_piece, range(self._processor.get_piece_size()))
        return tuple(filter(is_tag, pieces))

    def take_tag(self, text: str) -> tuple[str, str]:
        """Return the tag that a text begins with, '' if there is none, and the rest of the text."""
        found = _TAGGED.match(text)
        if found and self.has_tag(found[1]):
            return found[1], text[found.end() :]
        return '', text

    def texts(self, sentences: Sequence[np.ndarray]) -> list[str]:
        """Return normalised texts that `encode` turns into the same ids.

        SentencePiece's own sign for a space, U+2581, becomes a space.

        Args:
          sentences: ids from `encode`.
        """
        lines = [(ids[:-1] - self._shift).tolist() for ids in sentences]
        return list(map(_with_spaces, self._processor.decode(lines)))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids up to EOS, without padding."""
        return _with_spaces(self._processor.decode([i - self._shift for i in self._content(ids)]))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces of ids up to EOS, without padding."""
        return self._processor.id_to_piece([i - self._shift for i in self._content(ids)])

    def ids_of_pieces(self, pieces: Sequence[str], field: str) -> np.ndarray:
        """Return the int32 ids of pieces, without EOS.

        Args:
          pieces: as the vocabulary spells them, for example '▁the'.
          field: their name in messages.

        Raises:
          UserError: if the vocabulary has no such piece.
        """
        ids = []
        for piece in pieces:
            ids.append(self._processor.piece_to_id(piece))
            if self._processor.id_to_piece(ids[-1]) != piece:
                text = piece.replace('▁', ' ')
                raise UserError(
                    f'{field}: {shown(piece)} is no piece of the vocabulary, which spells the text '
                    f'{" ".join(self._processor.encode(text, out_type=str))!r}.'
                )
        return np.array(ids, np.int32) + np.int32(self._shift)

    def source_words(self, text: str) -> list[int | None]:
        """Return the index in `text.split()` of the word of each id of `encode([text])`.

        A piece of spaces belongs to the word that follows. EOS and a tag before the text belong to
        no word, and the words are counted behind the tag.
        """
        if not text.strip():  # as in `encode`
            return [None]
        # The pieces are parts of this object, and may not outlive it.
        proto = self._processor.encode(text, out_type='immutable_proto')
        pieces = [*proto.pieces]
        tag, rest = self.take_tag(text)
        before = 1 + [piece.piece for piece in pieces].index(tag) if tag else 0
        at = len(text) - len(rest)
        spans = ((max(0, p.begin - at), max(0, p.end - at)) for p in pieces[before:])
        return [*[None] * before, *words_of_spans(rest, spans), None]

    def output_words(self, ids: Sequence[int]) -> list[int | None]:
        """Return the index in `decode(ids).split()` of the word of each id up to and with EOS.

        A piece of spaces belongs to the word that follows. EOS belongs to no word.
        """
        content = [i - self._shift for i in self._content(ids)]
        if not content:
            return [None]
        proto = self._processor.decode(content, out_type='immutable_proto')
        spans = ((piece.begin, piece.end) for piece in proto.pieces)
        return [*words_of_spans(proto.text.replace('▁', ' '), spans), None]

    def byte_fallback_rate(self, tokens: np.ndarray) -> float:
        """Return the share of ids [n] that are single bytes or unknown; 0 for no ids."""
        return float(np.mean(self._is_fallback_V[tokens])) if len(tokens) else 0.0

    @functools.cached_property
    def characters(self) -> frozenset[str]:
        """The characters of the pieces, bytes not counted."""
        ids = np.flatnonzero(~self._is_fallback_V)
        return frozenset(''.join(self.pieces(ids[ids != self.eos_id].tolist())))

    @functools.cached_property
    def _is_fallback_V(self) -> np.ndarray:
        pieces = list(range(self._processor.get_piece_size()))
        fallback = np.array([self._processor.is_byte(pieces), self._processor.is_unknown(pieces)])
        return np.concatenate([np.zeros(self._shift, bool), fallback.any(axis=0)])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the SentencePiece model file atomically."""
        with atomic_write(Path(path), 'wb') as file:
            file.write(self.model)

    def _segment(self, texts: Sequence[str], **options: Any) -> list[list[int]]:
        """Return the ids of texts, without EOS; the options are those of SentencePiece."""
        lines = self._processor.encode(texts, **options)
        return [[i + self._shift for i in line] for line in lines]

    def _with_eos(self, lines: list[list[int]]) -> list[np.ndarray]:
        return [np.array([*line, self.eos_id], dtype=np.int32) for line in lines]

    def _content(self, ids: Sequence[int]) -> Iterator[int]:
        for i in ids:
            if i == self.eos_id:
                return
            if i != self.pad_id:
                yield int(i)


def _with_spaces(text: str) -> str:
    """Return a text from SentencePiece with spaces, as its bytes spell a word with the sign '▁'."""
    return text.replace('▁', ' ').removeprefix(' ') if '▁' in text else text


def words_of_spans(text: str, spans: Iterable[tuple[int, int]]) -> Iterator[int | None]:
    """Yield the index in `text.split()` of the word at each span of characters, or None."""
    ends = [word.end() for word in re.finditer(r'\S+', text)]
    for begin, end in spans:
        # The last character, because SentencePiece adds what normalisation removes to the next
        # piece. Without characters but spaces, the next word: the last byte of a character has its
        # span, and those before it have empty spans.
        last = begin + max(0, len(text[begin:end].rstrip()) - 1)
        word = bisect.bisect_right(ends, last)
        yield word if word < len(ends) else None


def _check_is_list(texts: Sequence[str]) -> None:
    if isinstance(texts, str | bytes):
        raise UserError(f'texts={texts[:40]!r} is a single text: give a list of texts.')


def _explain(message: str, size: int) -> UserError:
    """Return a UserError about the field that caused SentencePiece's error."""
    most = re.search(r'value <= (\d+)', message)
    least = re.search(r'required_chars\. \d+ vs (\d+)', message)
    if most:
        remedy = f'is more than this text can support: set it to {most[1]} or less.'
    elif 'all_chars_count' in message or 'sentences_.empty' in message:
        return UserError(
            'the training pairs have no text to train a vocabulary on: check the files, columns '
            'and filters of the data.'
        )
    elif least:
        remedy = (
            f'cannot hold the {least[1]} characters and bytes of this text: '
            'raise it, or lower data.character_coverage.'
        )
    else:
        # The readable sentence follows the position in SentencePiece's source.
        reason = message.split('] ')[-1].strip() or message.strip()
        remedy = f'failed in SentencePiece ({reason}): check the training text and this size.'
    return UserError(f'data.vocab_size={size} {remedy}')
