"""A few sentence pairs, and helpers that open a corpus and read it."""

import pytest

from transformer_jax.data.corpus import open_corpus
from transformer_jax.errors import UserError

SPLITS = ('train', 'dev', 'test')
PAIRS = [('a dog', 'un chien'), ('a cat', 'un chat'), ('water', "de l'eau")]


def many(count):
    """Returns `count` pairs, all different."""
    return [(f's{i}', f't{i}') for i in range(count)]


def read(config, split='train'):
    """Returns all pairs of a split."""
    return list(open_corpus(config).pairs(split))


def read_all(config):
    """Returns the pairs of train, dev and test."""
    corpus = open_corpus(config)
    return [list(corpus.pairs(split)) for split in SPLITS]


def message(config):
    """Returns the one line that the user sees, when opening or when reading."""
    with pytest.raises(UserError) as caught:
        read(config)
    assert '\n' not in str(caught.value)
    return str(caught.value)
