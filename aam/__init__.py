"""Attention All Microbes: learning from microbiome tables."""

__version__ = "0.1.0"
