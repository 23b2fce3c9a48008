"""Timing and ladders of optimizations."""
