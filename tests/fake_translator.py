"""A translator without a network: each word is a token, and translations are in upper case."""

import threading
import time
from types import SimpleNamespace

import numpy as np

from transformer_jax.errors import UserError
from transformer_jax.translating.placeholders.patterns import find_placeholders
from transformer_jax.translator import Attention, Translation


class FakeTranslator:
    """What the server uses of a `Translator`.

    Attributes:
      batches: the texts of each call.
      gate: translating waits until this is set.
    """

    def __init__(self, source='en', target='fr'):
        data = SimpleNamespace(source_language=source, target_language=target)
        # Several targets come with their tags, each of which is a word of its own.
        self.config = SimpleNamespace(data=data, decode=SimpleNamespace(beam_size=4))
        self.target_languages = {target: ''} if isinstance(target, str) else target
        self.segments = SimpleNamespace(languages=self)
        self.vocabulary = SimpleNamespace(source=SimpleNamespace(encode=self._encode))
        self.shapes = {}
        self.decoder = SimpleNamespace(
            fix_shapes=lambda **x: self.shapes.update(x), rows=lambda length, width: 16
        )
        self.batches, self.gate = [], threading.Event()
        self.gate.set()

    def tag(self, code):
        return self.target_languages[code]

    def divide(self, text, tag=''):
        first, _, rest = text.lstrip().partition(' ')
        return (first, rest) if first in {*self.target_languages.values()} - {''} else (tag, text)

    def wait(self):
        """Wait until it has got a batch."""
        deadline = time.monotonic() + 20
        while not self.batches:
            assert time.monotonic() < deadline, 'no batch has come'
            time.sleep(0.001)

    def _encode(self, texts):
        return [[7] * len(text.split()) + [1] for text in texts]

    def translate(self, texts, n_best, align):
        self.batches.append(list(texts))
        assert self.gate.wait(20)
        if 'fail' in texts:
            raise ZeroDivisionError('a secret')
        texts = [self.divide(text)[1] for text in texts]
        return [[_translation(text, k, align) for k in range(n_best)] for text in texts]

    def attention(self, texts):
        self.batches.append(list(texts))
        assert self.gate.wait(20)
        if 'fail' in texts:
            raise ZeroDivisionError('a secret')
        if 'refused' in texts:
            raise UserError('attention is that of one model.')
        return [_attention(text) for text in texts]


def upper(text):
    """Return a text in upper case, except for its placeholders, which a translator copies."""
    parts, end = [], 0
    for x in find_placeholders(text):
        parts += [text[end : x.begin].upper(), text[x.begin : x.end]]
        end = x.end
    return ''.join([*parts, text[end:].upper()])


def _attention(text):
    words = (*text.split(), '</s>')
    weights = np.full((1, 2, len(words), len(words)), 1 / len(words), np.float32)
    return Attention(
        source=words,
        inputs=('<start>', *words[:-1]),
        target=words,
        encoder=weights,
        decoder=weights,
        cross=weights,
        log_probs=np.zeros(len(words), np.float32),
        top=(((words[0], 1.0),),) * len(words),
        source_words=(*range(len(words) - 1), None),
        target_words=(*range(len(words) - 1), None),
        text=text,
        output=upper(text),
    )


def _translation(text, number, align):
    """Return an output: the best one has no number behind it."""
    words = upper(text).split() + [str(number)] * (number > 0)
    output = upper(text) + f' {number}' * (number > 0)
    alignment = tuple((k, k) for k in range(len(text.split()))) if align else None
    return Translation(output, -1.0, tuple(words), alignment=alignment)
