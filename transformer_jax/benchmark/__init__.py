"""Measures training and decoding: `python -m transformer_jax.benchmark`."""
