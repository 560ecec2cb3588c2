"""A program that computes what our model computes, or nearly, for tests of comparisons."""

import functools

from conversion.random_models import random_model

from transformer_jax.conversion.parity.ours import Ours
from transformer_jax.conversion.parity.peer import Output


@functools.cache
def original():
    return random_model(decode={'length_norm': 'power'}, num_layers=1)


@functools.cache
def ours():
    model = original()
    return Ours(model.config, model.vocabulary, model.params)


class Program:
    """Computes what our model computes, or nearly."""

    name = 'Program 1.0'

    def __init__(self, *, error=0.0, told=None, piece=None, score=0.0, suffix='', source=None):
        self.error, self.told, self.piece = error, told, piece
        self.score, self.suffix, self.source = score, suffix, source

    def source_pieces(self, texts):
        found = ours().source_pieces(texts)
        return [self.source or found[0], *found[1:]]

    def search(self, sources, beam_size, limit):
        first, *others = ours().search(sources, beam_size, limit)
        pieces = (self.piece, *first.pieces[1:]) if self.piece else first.pieces
        return [Output(pieces, first.score + self.score), *others]

    def values(self, sources, outputs):
        pairs = zip(sources, outputs, strict=True)
        for values in (next(ours().values([source], [output])) for source, output in pairs):
            told = values if self.told is None else {name: values[name] for name in self.told}
            yield {name: x + self.error for name, x in told.items()}

    def text(self, pieces):
        return ours().text(pieces) + self.suffix
