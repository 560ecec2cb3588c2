"""Files that are whole or absent, cache folders and work directories."""
