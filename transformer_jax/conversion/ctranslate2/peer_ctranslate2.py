"""CTranslate2, to compare an exported model with."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from transformer_jax.conversion.parity.peer import Output, Pieces, spelt
from transformer_jax.conversion.piece_tables import piece_table
from transformer_jax.data.vocabulary.sentencepiece_model import open_model
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair

_ROWS = 32  # sentences of a batch


class CTranslate2Peer:
    """A model in CTranslate2; see `parity.peer.Peer`. Its search has no rules.

    Attributes:
      name: 'CTranslate2' and its version.
      compute_type: type in which this machine computes.
    """

    def __init__(self, folder: Path, vocabulary: VocabularyPair):
        """Load a folder.

        Args:
          folder: the CTranslate2 folder.
          vocabulary: vocabularies of both sides, whose SentencePiece models are used.
        """
        import ctranslate2

        self.name = f'CTranslate2 {ctranslate2.__version__}'
        level = ctranslate2.get_log_level()
        # It would warn of types that this machine does not compute in; the report says so.
        ctranslate2.set_log_level(logging.ERROR)
        self._translator = ctranslate2.Translator(str(folder), device='cpu')
        ctranslate2.set_log_level(level)
        self.compute_type = self._translator.compute_type
        self._known = {*piece_table(vocabulary.source)}
        self._processors = [open_model(x.model) for x in (vocabulary.source, vocabulary.target)]

    def source_pieces(self, texts: Sequence[str]) -> list[Pieces]:
        """See `Peer`."""
        return [spelt(self._processors[0], text, self._known) for text in texts]

    def search(self, sources: Sequence[Pieces], beam_size: int, limit: int) -> list[Output]:
        """See `Peer`."""
        found = self._translator.translate_batch(
            [*map(list, sources)],
            beam_size=beam_size,
            max_batch_size=_ROWS,
            max_input_length=0,
            max_decoding_length=limit,
            min_decoding_length=0,
        )
        return [Output(tuple(result.hypotheses[0])) for result in found]

    def values(
        self, sources: Sequence[Pieces], outputs: Sequence[Pieces]
    ) -> Iterator[dict[str, np.ndarray]]:
        """See `Peer`."""
        every = self._translator.score_batch(
            [*map(list, sources)],
            [*map(list, outputs)],
            max_batch_size=_ROWS,
            max_input_length=0,
        )
        for found in every:
            yield {'log-probabilities without padding': np.array(found.log_probs, np.float32)}

    def text(self, pieces: Sequence[str]) -> str:
        """Return the text of an output, as the README says to make it."""
        return self._processors[1].decode(list(pieces))


class ArgosPeer(CTranslate2Peer):
    """The model of a package for Argos Translate, which has one SentencePiece model."""

    def text(self, pieces: Sequence[str]) -> str:
        """Return the text of an output, as Argos Translate makes it.

        Pieces of another target vocabulary are unknown to it, and it keeps them as they are.
        """
        text = self._processors[0].decode_pieces(list(pieces))
        return text.replace('▁', ' ').replace('_', ' ').removeprefix(' ')
