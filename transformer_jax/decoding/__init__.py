"""Search over `step_fn(tokens, position, cache) -> (logits, cache)`, independent of the model.

Dimension key: B sentences, K hypotheses of each, R = B·K rows, the hypotheses of a sentence are
adjacent, T output length, V vocabulary, C most likely tokens of a row.
"""

from transformer_jax.decoding.beam_search import beam_search
from transformer_jax.decoding.constraints import Constraints
from transformer_jax.decoding.ensembles import average_predictions
from transformer_jax.decoding.hypotheses import Hypotheses
from transformer_jax.decoding.options import SearchOptions
from transformer_jax.decoding.penalties import coverage_penalty, length_penalty
from transformer_jax.decoding.sampling import greedy_search, sample

__all__ = [
    'Constraints',
    'Hypotheses',
    'SearchOptions',
    'average_predictions',
    'beam_search',
    'coverage_penalty',
    'greedy_search',
    'length_penalty',
    'sample',
]
