"""The proof of a conversion: both programs on the same sentences."""
