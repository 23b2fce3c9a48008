"""The scores of a task's cross-validated predictions, beside those of its baselines."""

import pandas as pd

from aam.data.folds import read_folds
from aam.data.metadata import read_metadata
from aam.evaluate.predictions import by_target, read_predictions, write_predictions
from aam.evaluate.report import task_metrics
from aam.evaluate.scores import HEADLINE
from aam.evaluate.task_report import task_report
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.atomic import write_json
from aam.util.provenance import provenance

DESCRIBED = ("kind", "column", "bounds", "encoder", "start", "labels", "evaluation")
"""Settings that are written beside the scores."""


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Score one model on one task, with intervals: see `aam.evaluate.task_report`."""
    recipes = {
        target: {"recipes": _recipes(cfg["kind"], part[part["fold"] >= 0])}
        for target, part in by_target(read_predictions(inputs["recipes"])).items()
    }
    report, intervals = task_report(
        cfg,
        read_predictions(inputs["predictions"]),
        pd.read_parquet(inputs["nested"]),
        baselines=read_predictions(inputs["baselines"]),
        nested_baselines=pd.read_parquet(inputs["nested_baselines"]),
        group=read_folds(inputs["folds"])["group"],
        metadata=read_metadata(inputs["metadata"]),
        further=recipes,
    )
    write_predictions(outputs["intervals"], intervals)
    settings = {key: cfg[key] for key in DESCRIBED}
    made_from = {"provenance": provenance(cfg, inputs)}
    write_json(outputs["metrics"], {**report, **settings, **made_from})


def _recipes(kind: str, predictions: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Return the score of each recipe on one target, and its mean weight over the folds."""
    return {
        str(name): {
            "score": task_metrics(kind, part)[HEADLINE[kind]],
            "weight": float(pd.to_numeric(part.groupby("fold")["weight"].first()).mean()),
        }
        for name, part in predictions.groupby("recipe", sort=False)
    }
