"""Other forms of a trained model: the release folder, and those of other programs."""
