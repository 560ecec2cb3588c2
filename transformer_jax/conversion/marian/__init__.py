"""From Marian's own files."""
