"""The picture to choose a rarefaction depth by."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from aam.evaluate.figures import rarefaction
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Draw the rarefaction curves with the chosen depth and the samples it drops.

    Parameters
    ----------
    cfg
        `depth`, in reads.
    inputs
        `curve` and `dropped` (TSV).
    outputs
        `curve` (PNG).
    runtime
        Not used.
    """
    curve, dropped = (
        pd.read_csv(inputs[name], sep="\t", dtype={"sample-id": str}, keep_default_na=False)
        for name in ("curve", "dropped")
    )
    rarefaction.draw(curve, dropped, cfg["depth"], outputs["curve"])
