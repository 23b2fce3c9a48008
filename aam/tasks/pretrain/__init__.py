"""Pretraining: distances between samples and masked nucleotides."""
