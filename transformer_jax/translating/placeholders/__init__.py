"""Parts of a text that its translation keeps: marks around words, places for values."""
