"""Encoders, heads, and models that rebuild themselves from a directory."""
