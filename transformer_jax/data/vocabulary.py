"""The vocabulary that both languages share: SentencePiece BPE with byte fall-back.

The model's ids are SentencePiece's, with 0 for padding; a given model file that has its padding
elsewhere, or none, is shifted up by one to make room.
"""

import functools
import hashlib
import io
import logging
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from transformer_jax.errors import UserError, user_path
from transformer_jax.runtime.signals import stop_if_requested
from transformer_jax.storage.files import atomic_write, read_regular

# SentencePiece holds what it trains on in memory; five million sentences tell it enough.
_MOST_TRAINING_SENTENCES = 5_000_000
# Bytes beyond which SentencePiece leaves a sentence out, without a word; by default it is 4192.
_LONGEST = 1 << 20
# The seed of SentencePiece is one for all threads.
_SEEDING = threading.Lock()
_logger = logging.getLogger('transformer_jax')


class Vocabulary:
    """Text to ids and back.

    Attributes:
      model: the SentencePiece model, as the bytes of its file.
      size: V, ids from 0 to V - 1.
      pad_id: 0, which also starts every output.
      eos_id: the end mark.
      unknown_id: for characters without pieces, where they are not spelled in bytes.
      digest: hex digest of the model.
    """

    pad_id = 0

    def __init__(self, model: bytes):
        """Wraps the bytes of a SentencePiece model file.

        Raises:
          ValueError: if they are not one, or if it has no end mark.
        """
        import sentencepiece

        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise ValueError('not a SentencePiece model') from error
        if self._processor.eos_id() < 0:
            raise ValueError('a SentencePiece model without an end mark (</s>)')
        self.model = model
        self._shift = 0 if self._processor.pad_id() == 0 else 1
        self.size = self._processor.get_piece_size() + self._shift
        self.eos_id = self._processor.eos_id() + self._shift
        self.unknown_id = self._processor.unk_id() + self._shift
        self.digest = hashlib.blake2b(model, digest_size=16).hexdigest()

    @classmethod
    def load(cls, path: str | os.PathLike[str], field: str = 'data.vocabulary') -> 'Vocabulary':
        """Reads a SentencePiece model file.

        Raises:
          UserError: if it cannot be read or used; `field` is what the message calls it.
        """
        file = user_path(path, field)
        remedy = (
            'give the path of a SentencePiece .model file.'
            if field == 'data.vocabulary'
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
                '%s=%r has no byte fall-back: characters it lacks become unknown.', field, str(path)
            )
        return vocabulary

    @classmethod
    def train(
        cls,
        sentences: Iterable[str],
        *,
        size: int,
        character_coverage: float = 1.0,
        normalization: str = 'nmt_nfkc',
        seed: int = 0,
    ) -> 'Vocabulary':
        """Trains BPE with byte fall-back.

        Args:
          sentences: raw text of both languages.
          size: pieces, the 256 bytes and 3 special ones included.
          character_coverage: share of characters that get a piece of their own.
          normalization: SentencePiece's rule, e.g. 'nmt_nfkc' or 'identity'.
          seed: of the choice among more than five million sentences.

        Returns:
          The vocabulary, with padding 0, end mark 1 and unknown 2.

        Raises:
          UserError: if the text cannot support `size`, or `size` cannot hold its characters.
        """
        import sentencepiece

        sentencepiece.set_random_generator_seed(seed % 2**32)
        model = io.BytesIO()
        raised: list[BaseException] = []
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=_noting(sentences, raised),
                model_writer=model,
                model_type='bpe',
                vocab_size=size,
                character_coverage=character_coverage,
                normalization_rule_name=normalization,
                byte_fallback=True,
                pad_id=0,
                eos_id=1,
                unk_id=2,
                bos_id=-1,
                input_sentence_size=_MOST_TRAINING_SENTENCES,
                shuffle_input_sentence=True,
                max_sentence_length=_LONGEST,
                num_threads=os.cpu_count() or 1,
                minloglevel=2,
            )
        except (RuntimeError, OSError) as error:
            if raised:  # SentencePiece has put it into words of its own
                raise raised[0] from None
            raise _explain(str(error), size) from error
        return cls(model.getvalue())

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Raw texts to int32 ids, each ended by the end mark; on all cores.

        Of a text of spaces alone, and of one of which normalisation leaves nothing, that mark is
        all there is.

        Raises:
          UserError: if `texts` is one text: its characters would be taken for texts.
        """
        _check_several(texts)
        texts = [text if text.strip() else '' for text in texts]
        return self._with_end(self._processor.encode(texts, num_threads=-1))

    def sample(self, texts: Sequence[str], rate: float, seed: int) -> list[np.ndarray]:
        """As `encode`, with segmentations drawn at random.

        BPE-dropout (Provilkov et al., 2020) for a BPE model; for a unigram model, subword
        regularisation (Kudo, 2018) with all candidates.

        Args:
          texts: raw texts.
          rate: share of merges that are left out; for a unigram model Kudo's alpha, where less is
            more random.
          seed: of the draws, from 0 to 2^32 - 1; with the texts it determines them.

        Raises:
          UserError: if `texts` is one text.
        """
        import sentencepiece

        _check_several(texts)
        # It makes a thread for these texts, and a generator for the thread, from the last seed set.
        with _SEEDING:
            sentencepiece.set_random_generator_seed(seed)
            ids = self._processor.encode(
                list(texts), enable_sampling=True, nbest_size=-1, alpha=rate, num_threads=1
            )
        return self._with_end(ids)

    @property
    def can_sample(self) -> bool:
        """Whether `sample` can be used: of whole characters or words nothing can be drawn."""
        try:
            self.sample(['a'], 0.1, 0)
        except RuntimeError:
            return False
        return True

    def texts(self, sentences: Sequence[np.ndarray]) -> list[str]:
        """Ids as `encode` makes them to texts that have the same ids, normalised.

        Where a text has SentencePiece's own sign for a space, U+2581, it has a space afterwards.
        """
        return self._processor.decode([(ids[:-1] - self._shift).tolist() for ids in sentences])

    def decode(self, ids: Sequence[int]) -> str:
        """Ids to text; reads up to the end mark and skips padding."""
        return self._processor.decode([i - self._shift for i in self._content(ids)])

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Ids to the pieces they stand for; reads up to the end mark and skips padding."""
        return [self._processor.id_to_piece(i - self._shift) for i in self._content(ids)]

    def spelled(self, tokens: np.ndarray) -> float:
        """Share of ids [n] that are single bytes, or unknown: text in characters without pieces."""
        return float(np.mean(self._spells_V[tokens]))

    @functools.cached_property
    def _spells_V(self) -> np.ndarray:
        numbers = range(self._processor.get_piece_size())
        spells = [self._processor.is_byte(i) or self._processor.is_unknown(i) for i in numbers]
        return np.asarray([False] * self._shift + spells)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the SentencePiece model file, whole or not at all."""
        with atomic_write(Path(path), 'wb') as file:
            file.write(self.model)

    def _with_end(self, lines: list[list[int]]) -> list[np.ndarray]:
        return [
            np.array([*(i + self._shift for i in line), self.eos_id], dtype=np.int32)
            for line in lines
        ]

    def _content(self, ids: Sequence[int]) -> Iterator[int]:
        for i in ids:
            if i == self.eos_id:
                return
            if i != self.pad_id:
                yield int(i)


def _check_several(texts: Sequence[str]) -> None:
    if isinstance(texts, str | bytes):
        raise UserError(f'texts={texts[:40]!r} must be several: give a list of texts.')


def _noting(sentences: Iterable[str], raised: list[BaseException]) -> Iterator[str]:
    """`sentences`, with what reading them raises put into `raised` as well; tells of long ones."""
    long = 0
    try:
        for sentence in sentences:
            stop_if_requested()
            # Most are told to be short without being encoded.
            long += 4 * len(sentence) > _LONGEST and len(sentence.encode()) > _LONGEST
            yield sentence
        if long:
            _logger.warning(
                'The vocabulary was made without %d sentences of more than %s bytes.',
                long,
                f'{_LONGEST:,}',
            )
    except GeneratorExit:
        raise
    except BaseException as error:
        raised.append(error)
        raise


def _explain(message: str, size: int) -> UserError:
    """SentencePiece's own complaint, in one sentence about the field that causes it."""
    most = re.search(r'value <= (\d+)', message)
    least = re.search(r'required_chars\. \d+ vs (\d+)', message)
    if most:
        remedy = f'is more than this text can support: set it to {most[1]} or less.'
    elif 'all_chars_count' in message or 'sentences_.empty' in message:
        return UserError(
            'the training pairs have no text to make a vocabulary of: check the files and columns '
            'of the data.'
        )
    elif least:
        remedy = (
            f'cannot hold the {least[1]} characters and bytes of this text: '
            'raise it, or lower data.character_coverage.'
        )
    else:
        # What follows SentencePiece's source position is the sentence meant for people.
        reason = message.split('] ')[-1].strip() or message.strip()
        remedy = f'failed in SentencePiece ({reason}): check the training text and this size.'
    return UserError(f'data.vocab_size={size} {remedy}')
