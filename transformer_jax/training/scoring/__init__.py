"""Loss and BLEU on dev and test."""
