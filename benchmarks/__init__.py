"""Benchmarks that no rule of the workflow calls."""
