"""Search over `step_fn(tokens, position, cache) -> (logits, cache)`; it knows no model.

Dimension key: B sentences, K hypotheses of each, T output length, V vocabulary. The arrays of a
cache have B·K rows, the K hypotheses of a sentence side by side.
"""

from transformer_jax.decoding.beam_search import Hypotheses, beam_search, length_penalty
from transformer_jax.decoding.sampling import greedy_search, sample

__all__ = ['Hypotheses', 'beam_search', 'greedy_search', 'length_penalty', 'sample']
