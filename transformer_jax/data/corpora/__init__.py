"""Where sentence pairs come from: files, tables, TFDS, Hugging Face, mixtures."""
