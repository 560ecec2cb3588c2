"""Documents whose texts are translated and whose structure is kept."""
