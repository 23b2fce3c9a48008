"""The losses that suit each kind of target."""

LOSSES = {
    "regression": ("mae", "huber", "mse", "quantile", "asymmetric"),
    "classification": ("cross_entropy",),
    "ordinal": ("ordinal", "cross_entropy"),
}
"""Losses of each kind, the default first."""
