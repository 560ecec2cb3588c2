"""Checkpoints: Orbax, and what it lacks."""
