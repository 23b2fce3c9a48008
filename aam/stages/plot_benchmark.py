"""Pictures of the benchmark's tables."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from aam.evaluate.figures import benchmark
from aam.stages.entry import Files, RunContext

PICTURES = {
    "speed": benchmark.draw_speed,
    "scaling": benchmark.draw_scaling,
    "accuracy": benchmark.draw_accuracy,
}


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunContext) -> None:
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
