"""The whole search as StableHLO programs, for JAX alone."""
