"""What a training writes down: metrics, trackers, lines on stderr."""
