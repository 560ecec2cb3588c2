"""What a trained model does and how it learned: attention, curves, and pictures of both."""
