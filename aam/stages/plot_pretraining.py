"""Pictures of one pretraining."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from aam.evaluate.figures import distances, training
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Draw training curves, predicted against true distances, and an ordination.

    Parameters
    ----------
    cfg
        No settings.
    inputs
        `history`, `pairs` and `embeddings` (Parquet).
    outputs
        `history`, `pairs` and `embeddings` (PNG).
    runtime
        Not used.
    """
    training.draw(pd.read_parquet(inputs["history"]), outputs["history"])
    distances.draw_pairs(pd.read_parquet(inputs["pairs"]), outputs["pairs"])
    distances.draw_ordination(pd.read_parquet(inputs["embeddings"]), outputs["embeddings"])
