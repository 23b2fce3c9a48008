"""Metrics, baselines and figures."""
