"""A few sentence pairs, and helpers that open a corpus and read it."""

import pytest

from transformer_jax.config import DataConfig
from transformer_jax.data.corpora.corpus import open_corpus
from transformer_jax.errors import UserError

SPLITS = ('train', 'dev', 'test')
PAIRS = [('a dog', 'un chien'), ('a cat', 'un chat'), ('water', "de l'eau")]


def many(count):
    """Return `count` pairs, all different."""
    return [(f's{i}', f't{i}') for i in range(count)]


def files_config(folder, pairs, name='train', **changes):
    """Write the pairs as the files of a split, and return a config that names them."""
    paths = {}
    for side, lines in zip(('source', 'target'), zip(*pairs, strict=True), strict=True):
        path = folder / f'{name}.{side}'
        path.write_text('\n'.join(lines), encoding='utf-8')
        paths[f'{name}_{side}'] = str(path)
    return DataConfig(**{'corpus': 'files', 'dev_size': 20, 'test_size': 30, **paths, **changes})


def read(config, split='train'):
    """Return all pairs of a split."""
    return list(open_corpus(config).pairs(split))


def read_all(config):
    """Return the pairs of train, dev and test."""
    corpus = open_corpus(config)
    return [list(corpus.pairs(split)) for split in SPLITS]


def message(config):
    """Return the one line that the user sees, when opening or when reading."""
    with pytest.raises(UserError) as caught:
        read(config)
    assert '\n' not in str(caught.value)
    return str(caught.value)
