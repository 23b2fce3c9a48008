"""Figures of recorded results; nothing here is imported but by the stage `plot`."""
