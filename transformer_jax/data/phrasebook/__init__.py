"""A small corpus that is made by a grammar, for tests and the demo."""
