"""Word and OpenDocument files."""
