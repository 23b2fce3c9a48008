"""Configuration: sections, resolution of overrides, stage slices, code digests."""
