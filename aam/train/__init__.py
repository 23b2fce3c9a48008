"""The one training loop and what it needs: steps, checkpoints, memory, precision, progress."""
