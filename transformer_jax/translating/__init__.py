"""A text to its translation: segments, search on the devices, choice of outputs."""
