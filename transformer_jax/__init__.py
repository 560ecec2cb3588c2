"""The Transformer of "Attention Is All You Need" (Vaswani et al., 2017) in JAX and Flax.

The names below are imported when they are first used, so importing the package loads nothing heavy:

    from transformer_jax import ModelConfig, MultiHeadAttention, Transformer, Translator

`transformer_jax.model` has all parts of the network, `.decoding` the searches, `.training` the loss
and the schedule, `.data` vocabularies and batches, `.translator` raw text in and out.
"""

from typing import TYPE_CHECKING

from transformer_jax._version import __version__ as __version__
from transformer_jax.lazy import lazy_exports

if TYPE_CHECKING:
    from transformer_jax.data.batching.buckets import make_buckets as make_buckets
    from transformer_jax.data.batching.plan import BatchPlan as BatchPlan
    from transformer_jax.data.batching.plan import plan_epoch as plan_epoch
    from transformer_jax.data.vocabulary.vocabulary import Vocabulary as Vocabulary
    from transformer_jax.decoding import Hypotheses as Hypotheses
    from transformer_jax.decoding import beam_search as beam_search
    from transformer_jax.decoding import greedy_search as greedy_search
    from transformer_jax.decoding import sample as sample
    from transformer_jax.model import Decoder as Decoder
    from transformer_jax.model import DecoderLayer as DecoderLayer
    from transformer_jax.model import Encoder as Encoder
    from transformer_jax.model import EncoderLayer as EncoderLayer
    from transformer_jax.model import FeedForward as FeedForward
    from transformer_jax.model import ModelConfig as ModelConfig
    from transformer_jax.model import MultiHeadAttention as MultiHeadAttention
    from transformer_jax.model import Transformer as Transformer
    from transformer_jax.model import causal_mask as causal_mask
    from transformer_jax.model import dot_product_attention as dot_product_attention
    from transformer_jax.model import grow_cache as grow_cache
    from transformer_jax.model import padding_mask as padding_mask
    from transformer_jax.model import reorder_hypotheses as reorder_hypotheses
    from transformer_jax.model import shift_right as shift_right
    from transformer_jax.model import sinusoidal_positions as sinusoidal_positions
    from transformer_jax.training.loss import label_smoothed_loss as label_smoothed_loss
    from transformer_jax.training.optimizer import noam_schedule as noam_schedule
    from transformer_jax.translator import Translator as Translator


__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        'transformer_jax.data.batching.plan': ['BatchPlan', 'plan_epoch'],
        'transformer_jax.data.batching.buckets': ['make_buckets'],
        'transformer_jax.data.vocabulary.vocabulary': ['Vocabulary'],
        'transformer_jax.decoding': ['Hypotheses', 'beam_search', 'greedy_search', 'sample'],
        'transformer_jax.model': [
            'Decoder',
            'DecoderLayer',
            'Encoder',
            'EncoderLayer',
            'FeedForward',
            'ModelConfig',
            'MultiHeadAttention',
            'Transformer',
            'causal_mask',
            'dot_product_attention',
            'grow_cache',
            'padding_mask',
            'reorder_hypotheses',
            'shift_right',
            'sinusoidal_positions',
        ],
        'transformer_jax.training.loss': ['label_smoothed_loss'],
        'transformer_jax.training.optimizer': ['noam_schedule'],
        'transformer_jax.translator': ['Translator'],
    },
    submodules=['config', 'data', 'decoding', 'model', 'sharding', 'training', 'translator'],
)
