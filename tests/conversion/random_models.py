"""Small models with random weights, for tests of conversions."""

import functools

import jax
import numpy as np

from transformer_jax.config import Config
from transformer_jax.conversion.original import Original
from transformer_jax.data.phrasebook.corpus import PhrasebookCorpus
from transformer_jax.data.vocabulary.vocabulary import Vocabulary
from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair
from transformer_jax.model import parameter_shapes
from transformer_jax.storage.release import Release
from transformer_jax.storage.workdir import SavedRun

SENTENCES = [
    'The cat sleeps near the old table.',
    'Where is the house?',
    'A brown dog ate the apple because it was good.',
    'Le chat dort près de la vieille table.',
    'Où est la maison ?',
    'Un chien brun a mangé la pomme parce qu’elle était bonne.',
    '日本',  # bytes
]


@functools.cache
def shared():
    """A vocabulary of 310 pieces for both languages."""
    vocabulary = Vocabulary.train(SENTENCES[:6], size=310)
    return VocabularyPair(vocabulary, vocabulary)


@functools.cache
def separate():
    """Vocabularies of 300 and 290 pieces."""
    source = Vocabulary.train(SENTENCES[:3], size=300)
    return VocabularyPair(source, Vocabulary.train(SENTENCES[3:6], size=290))


def random_model(vocabulary=None, decode=None, **changes):
    """A model with random weights; no bias is 0 and no norm's scale is 1.

    Its dev set is that of the phrasebook.
    """
    vocabulary = vocabulary or shared()
    sizes = {'num_layers': 2, 'd_model': 16, 'd_ff': 24, 'num_heads': 4, 'max_positions': 96}
    config = Config.from_mapping(
        {
            'model': sizes | changes,
            'data': {
                'corpus': 'phrasebook',
                'source_language': 'en',
                'target_language': 'fr',
                'max_length': 64,
                'dev_size': 12,
            },
            'decode': {'max_extra_length': 8} | (decode or {}),
        }
    )
    rng = np.random.default_rng(0)

    def draw(path, leaf):
        name = path[-1].key
        centre, spread = (1.0, 0.2) if name == 'scale' else (0.0, 0.4)
        values = rng.normal(centre, spread, leaf.shape).astype(np.float32)
        if name == 'embedding' and config.model.decoder_start == 'zero':
            values[0] = 0  # as training keeps it
        return values

    params = jax.tree.map_with_path(draw, parameter_shapes(config.model, vocabulary.sizes))
    dev = PhrasebookCorpus(config.data).fingerprint('dev')
    run = SavedRun(config, '', {'dev': dev}, vocabulary.digest)
    return Original('random', config, vocabulary, params, [1], run, Release([1]))
