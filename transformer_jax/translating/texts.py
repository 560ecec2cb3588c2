"""What callers give to a translator: texts, and beginnings of their outputs."""

import re
from collections.abc import Iterable, Sequence

import numpy as np

from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.errors import UserError, shown


def as_texts(texts: Iterable[str], name: str = 'texts') -> list[str]:
    """Return a list of texts; raise a UserError if one of them, or all, are no texts."""
    if isinstance(texts, str | bytes):
        raise UserError(f'{name}={texts[:40]!r} is a single text: give a list of texts.')
    if not isinstance(texts, Iterable):
        raise UserError(f'{name}={texts!r} is no text: give a str, or a list of str.')
    texts = list(texts)
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise UserError(f'text {number} is of type {type(text).__name__}: give a str.')
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UserError(
                f'text {number} has {text[error.start]!r} at position {error.start}, which is half '
                'a character: decode the text with its own encoding, which is probably UTF-8.'
            ) from error
    return texts


def encode_prefixes(
    prefixes: Iterable[str | Sequence[str]],
    count: int,
    vocabulary: Vocabulary,
    *,
    limit: int | None,
    first_line: int,
) -> dict[int, np.ndarray]:
    """Return the int32 ids of prefixes that are not empty, without EOS, by their index.

    Args:
      prefixes: forced beginnings of outputs, each a text or a list of pieces.
      count: number of texts.
      vocabulary: vocabulary of the outputs.
      limit: the greatest number of ids of a prefix; None for no limit.
      first_line: line number of the first prefix, for messages.

    Raises:
      UserError: if there is not one prefix for each text, one is neither a text nor a list of
        pieces of the vocabulary, or one has too many ids.
    """
    if isinstance(prefixes, str) or not isinstance(prefixes, Iterable):
        raise UserError(f'prefixes={shown(prefixes)} must be a list with a prefix a text.')
    prefixes = list(prefixes)
    if len(prefixes) != count:
        raise UserError(
            f'prefixes={shown(prefixes)} must be a list with one prefix for each of the '
            f'{count:,} texts; give an empty string for none.'
        )
    for prefix in prefixes:
        pieces = [prefix] if isinstance(prefix, str) else prefix
        if not isinstance(pieces, Sequence) or not all(isinstance(x, str) for x in pieces):
            raise UserError(f'prefixes: {shown(prefix)} is neither a str nor a list of str.')
    texts = [prefix for prefix in prefixes if isinstance(prefix, str)]
    encoded = iter(vocabulary.encode(as_texts(texts)))
    found = {}
    for index, prefix in enumerate(prefixes):
        name = f'prefix of line {first_line + index}'
        if isinstance(prefix, str):
            ids = next(encoded)[:-1]
        else:
            ids = vocabulary.ids_of_pieces(prefix, name)
        if isinstance(prefix, str) and re.search('[\r\n]', prefix):
            raise UserError(
                f'{name}, {shown(prefix)}, has a line end: give only the beginning of the first '
                'line.'
            )
        if limit is not None and len(ids) > limit:
            raise UserError(
                f'{name} has {len(ids):,} tokens, but model.max_positions leaves {limit:,}: '
                'shorten it.'
            )
        if len(ids):
            found[index] = ids
    return found
