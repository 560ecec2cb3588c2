"""Trees: read, written as tokens, and their bracket scores."""
