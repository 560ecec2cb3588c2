"""The Transformer of "Attention Is All You Need" (Vaswani et al., 2017) in JAX and Flax.

Importing the package loads nothing heavy: import what you need from its modules, for example
`from transformer_jax.model import MultiHeadAttention` or
`from transformer_jax.translator import Translator`.
"""

__version__ = '0.1.0'
