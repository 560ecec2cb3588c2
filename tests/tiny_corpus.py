"""A few sentence pairs, and what opening a corpus of them gives or says."""

import pytest

from transformer_jax.data.corpus import open_corpus
from transformer_jax.errors import UserError

PAIRS = [('a dog', 'un chien'), ('a cat', 'un chat'), ('water', "de l'eau")]


def many(count):
    """So many pairs, no two alike."""
    return [(f's{i}', f't{i}') for i in range(count)]


def read(config, split='train'):
    """All pairs of a split."""
    return list(open_corpus(config).pairs(split))


def message(config):
    """The one line that the user sees, at opening or when reading."""
    with pytest.raises(UserError) as caught:
        read(config)
    assert '\n' not in str(caught.value)
    return str(caught.value)
