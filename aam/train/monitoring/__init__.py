"""What looks at a run and never changes it."""
