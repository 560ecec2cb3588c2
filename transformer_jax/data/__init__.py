"""From sentence pairs to batches: corpora, vocabulary, token store, batch plan, loader.

The names are imported when they are first used, because SentencePiece and TensorFlow take time.
"""

from typing import TYPE_CHECKING

from transformer_jax.lazy import lazy_exports

if TYPE_CHECKING:
    from transformer_jax.data.batching.buckets import Batch as Batch
    from transformer_jax.data.batching.buckets import Bucket as Bucket
    from transformer_jax.data.batching.buckets import batches_by_length as batches_by_length
    from transformer_jax.data.batching.buckets import make_buckets as make_buckets
    from transformer_jax.data.batching.loader import training_batches as training_batches
    from transformer_jax.data.batching.plan import BatchPlan as BatchPlan
    from transformer_jax.data.batching.plan import plan_epoch as plan_epoch
    from transformer_jax.data.batching.token_store import Sentences as Sentences
    from transformer_jax.data.batching.token_store import TokenStore as TokenStore
    from transformer_jax.data.batching.token_store import sentences_from as sentences_from
    from transformer_jax.data.vocabulary.vocabulary import Vocabulary as Vocabulary
    from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair as VocabularyPair

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        'transformer_jax.data.batching.plan': ['BatchPlan', 'plan_epoch'],
        'transformer_jax.data.batching.buckets': [
            'Batch',
            'Bucket',
            'batches_by_length',
            'make_buckets',
        ],
        'transformer_jax.data.batching.loader': ['training_batches'],
        'transformer_jax.data.batching.token_store': ['Sentences', 'TokenStore', 'sentences_from'],
        'transformer_jax.data.vocabulary.vocabulary': ['Vocabulary'],
        'transformer_jax.data.vocabulary.vocabulary_pair': ['VocabularyPair'],
    },
)
