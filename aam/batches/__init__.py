"""Batches of training: a function of the step."""
