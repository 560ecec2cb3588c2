"""Translation with a trained model: loading, lines in and out, decoding in batches, scores."""
