"""Another program that has the same model: what it is asked, and what it returns."""

import contextlib
import re
from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import sentencepiece

from transformer_jax.data.vocabulary.table_vocabulary import UNKNOWN
from transformer_jax.errors import UserError, first_line

# The pieces of a sentence, without EOS.
Pieces = tuple[str, ...]


class Output(NamedTuple):
    """An output of a search.

    Attributes:
      pieces: without EOS.
      score: by which the search ranks outputs; NaN if the program does not tell it.
    """

    pieces: Pieces
    score: float = float('nan')


class Peer(Protocol):
    """A program with the model. One that takes ids and no text has `search` and `values` only.

    Attributes:
      name: of the program, with its version.
    """

    name: str

    def source_pieces(self, texts: Sequence[str]) -> list[Pieces]:
        """Return the pieces of texts to translate; a piece that is not known is '<unk>'."""

    def search(self, sources: Sequence[Pieces], beam_size: int, limit: int) -> list[Output]:
        """Return the best output of each source; the search may end at `limit` tokens."""

    def values(
        self, sources: Sequence[Pieces], outputs: Sequence[Pieces]
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yield what the network computes for each source and a given output, by name.

        A peer leaves out what it does not tell: 'encoder' [S, D]; 'logits' [T, V] in the order of
        our ids, or [T, V - 1] without padding; 'log-probabilities' [T] in nats; or, if padding has
        probability 0, 'log-probabilities without padding'. S and T include EOS.
        """

    def text(self, pieces: Sequence[str]) -> str:
        """Return the text of an output."""


def spelt(
    processor: sentencepiece.SentencePieceProcessor, text: str, known: Container[str]
) -> Pieces:
    """Return the pieces of a text, which may begin with a language code such as '>>fra<<'.

    Args:
      processor: of the source.
      text: raw text.
      known: the pieces that have ids.
    """
    code = re.match(r'>>\S+?<<', text)
    code = code[0] if code and code[0] in known else ''
    pieces = processor.encode(text.removeprefix(code), out_type=str)
    return tuple(x if x in known else UNKNOWN for x in ([code] if code else []) + pieces)


@contextlib.contextmanager
def faults_of_peers(name: str) -> Iterator[None]:
    """Turn what another program raises over an imported model into a UserError.

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
