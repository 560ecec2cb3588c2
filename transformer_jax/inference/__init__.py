"""From sentences to devices and back: decoding in batches, and the scores of translations."""
