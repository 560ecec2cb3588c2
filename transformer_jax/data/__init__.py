"""From sentence pairs to batches: corpora, vocabulary, token store, batch plan, loader."""
