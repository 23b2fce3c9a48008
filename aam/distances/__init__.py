"""Distances between samples: engines, their cross-check and the Parquet store."""
