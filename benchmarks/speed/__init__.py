"""Timing of training steps, optimization by optimization, and the tables made of it."""
