"""Given pairs to scores, alignments, attention and features, by teacher forcing."""
