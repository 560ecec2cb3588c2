"""Texts to ids of pieces and back: SentencePiece's vocabularies and tables of pieces.

The names are imported when they are first used, because SentencePiece takes time.
"""

from typing import TYPE_CHECKING

from transformer_jax.lazy import lazy_exports

if TYPE_CHECKING:
    from transformer_jax.data.vocabulary.vocabulary import Vocabulary as Vocabulary
    from transformer_jax.data.vocabulary.vocabulary_pair import VocabularyPair as VocabularyPair

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        'transformer_jax.data.vocabulary.vocabulary': ['Vocabulary'],
        'transformer_jax.data.vocabulary.vocabulary_pair': ['VocabularyPair'],
    },
)
