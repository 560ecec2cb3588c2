"""Trained models on their devices."""
