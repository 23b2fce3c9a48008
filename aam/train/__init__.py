"""Batches, tasks, checkpoints and the one training loop."""
