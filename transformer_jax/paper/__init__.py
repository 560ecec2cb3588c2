"""The tables of the paper, with this package's own numbers beside them."""
