"""The scores of a task's cross-validated predictions, beside those of its baselines."""

import logging
from collections.abc import Mapping
from typing import Any

import pandas as pd

from aam.data.metadata import read_metadata
from aam.data.targets import metadata_column
from aam.evaluate.metrics import HEADLINE
from aam.evaluate.predictions import read_predictions
from aam.evaluate.report import task_metrics
from aam.stages.entry import Files, RunContext
from aam.util.atomic import write_json
from aam.util.provenance import provenance

logger = logging.getLogger(__name__)


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunContext) -> None:
    """Score one model on one task.

    Parameters
    ----------
    cfg
        Slice `aam.config.slices.score`.
    inputs
        `predictions` and `baselines` (TSV) on the same folds, and `metadata` (Parquet).
    outputs
        `metrics` (JSON): the scores of the model, and in `baselines` those of each baseline.
    runtime
        Not used.

    Raises
    ------
    InputError
        If a column of `report_by` is not in the metadata.
    """
    metadata = read_metadata(inputs["metadata"]) if cfg["report_by"] else None
    for column in cfg["report_by"]:
        assert metadata is not None
        metadata_column(metadata, column)

    def scores(predictions: pd.DataFrame) -> dict[str, Any]:
        return task_metrics(cfg["kind"], predictions, metadata, cfg["report_by"])

    own = scores(read_predictions(inputs["predictions"]))
    table = read_predictions(inputs["baselines"])
    others = {str(name): scores(part) for name, part in table.groupby("baseline", sort=False)}
    headline = HEADLINE[cfg["kind"]]
    for name, values in {cfg["names"]["model"]: own, **others}.items():
        logger.info("%s: %s %.4g", name, headline, values[headline])
    described = {key: cfg["names"][key] for key in ("model", "task")}
    described |= {key: cfg[key] for key in ("kind", "encoder", "start")}
    origin = provenance(cfg, inputs)
    write_json(outputs["metrics"], {**own, **described, "baselines": others, "provenance": origin})
