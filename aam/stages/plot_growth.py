"""A picture of how time and memory of the stages grow."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from aam.evaluate.figures.growth import draw_growth
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Draw the growth table with the fitted power laws.

    Parameters
    ----------
    cfg
        No settings.
    inputs
        `growth` and `fits` (TSV).
    outputs
        `growth` (PNG).
    runtime
        Not used.
    """
    growth, fits = (pd.read_csv(inputs[name], sep="\t") for name in ("growth", "fits"))
    draw_growth(growth, fits, outputs["growth"])
