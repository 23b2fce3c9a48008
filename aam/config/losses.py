"""The losses of targets; `aam.model.predictor` computes them."""

from typing import Literal

Loss = Literal["huber", "mse", "mae", "quantile", "cross_entropy"]
"""Those that `finetuning.loss` may name; null stands for the first one of the kind."""
LOSSES = {
    "regression": ("mae", "huber", "mse", "quantile"),
    "classification": ("cross_entropy",),
    "ordinal": ("ordinal", "cross_entropy"),
}
"""Losses of each kind of target, the default first."""
