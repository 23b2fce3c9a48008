"""The embedded demonstration data."""
