"""How batches are divided, so that every step fits into the memory."""
