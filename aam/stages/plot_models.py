"""A picture of all models side by side."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from aam.evaluate.figures.models import draw_models
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Draw the curves of the trainings, and what the models cost and reach.

    Parameters
    ----------
    cfg
        No settings.
    inputs
        `models` and `curves` (TSV).
    outputs
        `models` (PNG).
    runtime
        Not used.
    """
    names = {"model": str}
    models, curves = (
        pd.read_csv(inputs[name], sep="\t", dtype=names, keep_default_na=False, na_values=[""])
        for name in ("models", "curves")
    )
    draw_models(models, curves, outputs["models"])
