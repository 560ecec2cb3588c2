"""Loss, optimizer, train state, training step and checkpoints."""
