"""Layers, and what training asks of each."""
