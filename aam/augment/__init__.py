"""Augmentation operations and the view builder."""
