"""Pictures of one fine-tuned model."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from aam.evaluate.figures import task, training
from aam.evaluate.predictions import read_predictions
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.util.atomic import read_json


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Draw cross-validated predictions beside the baselines, and the folds' training curves.

    Parameters
    ----------
    cfg
        No settings.
    inputs
        `predictions` (TSV), `metrics` (JSON) and `history` (Parquet) of a fine-tuning.
    outputs
        `predictions` and `history` (PNG).
    runtime
        Not used.
    """
    report = read_json(inputs["metrics"])
    task.draw(read_predictions(inputs["predictions"]), report, outputs["predictions"])
    training.draw(pd.read_parquet(inputs["history"]), outputs["history"])
