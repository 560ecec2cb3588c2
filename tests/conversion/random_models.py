"""Small models with random weights, for tests of conversions."""

import functools

import jax
import numpy as np

from transformer_jax.config import Config
from transformer_jax.data.vocabulary import Vocabulary
from transformer_jax.inference.load import TrainedModel
from transformer_jax.model import parameter_shapes

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
def vocabulary():
    """A vocabulary of 300 pieces."""
    return Vocabulary.train(SENTENCES[:6], size=300)


def random_model(decode=None, **changes):
    """A model with random weights; no bias is 0 and no norm's scale is 1."""
    sizes = {'num_layers': 2, 'd_model': 16, 'd_ff': 24, 'num_heads': 4, 'max_positions': 96}
    config = Config.from_mapping(
        {
            'model': sizes | changes,
            'data': {
                'corpus': 'phrasebook',
                'source_language': 'en',
                'target_language': 'fr',
                'max_length': 64,
            },
            'decode': {'max_extra_length': 8} | (decode or {}),
        }
    )
    rng = np.random.default_rng(0)

    def draw(path, leaf):
        centre, spread = (1.0, 0.2) if path[-1].key == 'scale' else (0.0, 0.4)
        return rng.normal(centre, spread, leaf.shape).astype(np.float32)

    shapes = parameter_shapes(config.model, vocabulary().size)
    return TrainedModel(config, vocabulary(), jax.tree.map_with_path(draw, shapes), [1])
