"""Pictures of the benchmark's tables."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from aam.evaluate.figures import speed
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions

PICTURES = {
    "speed": speed.draw_speed,
    "scaling": speed.draw_scaling,
    "accuracy": speed.draw_accuracy,
}


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Draw speed, scaling and accuracy, whichever table is given.

    Parameters
    ----------
    cfg
        No settings.
    inputs
        `speed`, `scaling`, `accuracy` (TSV), any of them.
    outputs
        The same names (PNG).
    runtime
        Not used.
    """
    for name, picture in outputs.items():
        table = pd.read_csv(
            inputs[name],
            sep="\t",
            dtype={"task": str, "name": str},
            keep_default_na=False,
            na_values=[""],
        )
        PICTURES[name](table, picture)
