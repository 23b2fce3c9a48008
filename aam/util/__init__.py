"""Errors, logging, atomic writes, seeds and provenance."""
