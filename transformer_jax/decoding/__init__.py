"""Search over `step_fn(tokens, position, cache) -> (logits, cache)`; it knows no model.

Dimension key: B sentences, K hypotheses of each, R = B·K rows, the hypotheses of a sentence side by
side, T output length, V vocabulary, C likeliest tokens of a row.
"""

from transformer_jax.decoding.beam_search import Hypotheses, beam_search, length_penalty
from transformer_jax.decoding.sampling import greedy_search, sample

__all__ = ['Hypotheses', 'beam_search', 'greedy_search', 'length_penalty', 'sample']
