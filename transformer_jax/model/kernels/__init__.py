"""What makes the model fast on a kind of processor, behind functions with the paper's words."""
