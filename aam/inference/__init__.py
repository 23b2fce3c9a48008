"""Trained models applied to samples."""
