"""One training run from start to finish: step, loss, optimizer, loop and its records."""
