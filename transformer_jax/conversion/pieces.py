"""The table of a vocabulary: the piece of each id, as other toolkits store it."""

from transformer_jax.data.table_vocabulary import EOS, PAD, UNKNOWN
from transformer_jax.data.vocabulary import Vocabulary


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
