"""A translator without a network: each word is a token, and translations are in upper case."""

import threading
from types import SimpleNamespace

from transformer_jax.translator import Translation


class FakeTranslator:
    """What the server uses of a `Translator`.

    Attributes:
      batches: the texts of each call.
      gate: translating waits until this is set.
    """

    def __init__(self, source='en', target='fr'):
        data = SimpleNamespace(source_language=source, target_language=target)
        self.config = SimpleNamespace(data=data, decode=SimpleNamespace(beam_size=4))
        self.vocabulary = SimpleNamespace(source=SimpleNamespace(encode=self._encode))
        self.search = SimpleNamespace(lengths=(), rows=lambda length, width: 16)
        self.batches, self.gate = [], threading.Event()
        self.gate.set()

    def _encode(self, texts):
        return [[7] * len(text.split()) + [1] for text in texts]

    def translate(self, texts, n_best):
        self.batches.append(list(texts))
        assert self.gate.wait(20)
        if 'fail' in texts:
            raise ZeroDivisionError('a secret')
        found = [[text.upper(), *(f'{text.upper()} {k}' for k in range(1, 9))] for text in texts]
        return [
            [Translation(text, -1.0, tuple(text.split())) for text in outputs[:n_best]]
            for outputs in found
        ]
