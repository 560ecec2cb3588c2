"""Lines, pairs of lines and a terminal as input and output of commands."""
