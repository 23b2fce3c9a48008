"""A reference tree of known ASVs, and the place of any other sequence in it."""
