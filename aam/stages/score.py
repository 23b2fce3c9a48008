"""The scores of a task's cross-validated predictions, next to those of its baselines."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from aam.data.folds import read_folds
from aam.data.metadata import read_metadata
from aam.data.predictions import by_target, read_predictions, write_predictions
from aam.evaluate.scored_task import ScoredTask
from aam.evaluate.scores import HEADLINE
from aam.evaluate.target_report import score_predictions
from aam.evaluate.task_report import report_task
from aam.util.atomic import write_json

DESCRIBED = (
    "kind",
    "column",
    "bounds",
    "encoder",
    "start",
    "labels",
    "evaluation",
    "start_directory",
)
"""Settings that are written with the scores."""


def score_model(
    *,
    predictions: Path,
    recipes: Path,
    nested: Path,
    baselines: Path,
    nested_baselines: Path,
    folds: Path,
    metadata: Path,
    task: ScoredTask,
    encoder: str,
    start: str,
    labels: float = 1.0,
    evaluation: str,
    start_directory: str | None = None,
    metrics_out: Path,
    intervals_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Score one model on one task, with intervals: see `aam.evaluate.task_report`.

    Parameters
    ----------
    predictions, recipes, nested
        What `aam.stages.finetune` writes: cross-validated predictions (TSV), those of each recipe
        (TSV), and nested ones (Parquet).
    baselines, nested_baselines
        What `aam.stages.baselines` writes: predictions (TSV) and nested ones (Parquet).
    folds
        TSV file of the folds of the task.
    metadata
        Parquet file of the imported metadata.
    task
        What is predicted, what it is called, and by what scores are reported.
    encoder, start, labels
        How the model was fine-tuned: the keys of the section `finetuning`.
    evaluation
        ``inductive`` or ``transductive``: whether pretraining saw the reads of the samples.
    start_directory
        Directory of a pretrained model that the encoder started from, which may have seen any
        samples. None: it started from initial weights that were drawn here.
    metrics_out
        JSON file to write, with the scores.
    intervals_out
        TSV file to write: predictions of the leading method, with intervals or probabilities.
    provenance
        Where the scores come from, which is written with them (`aam.util.provenance`).
    """
    further = {}
    for target, part in by_target(read_predictions(recipes)).items():
        further[target] = {"recipes": _recipes(task.kind, part[part["fold"] >= 0])}
    settings: dict[str, Any] = {
        **task.plain(),
        "encoder": encoder,
        "start": start,
        "labels": labels,
        "evaluation": evaluation,
        "start_directory": start_directory,
    }
    report, intervals = report_task(
        settings,
        read_predictions(predictions),
        pd.read_parquet(nested),
        baselines=read_predictions(baselines),
        nested_baselines=pd.read_parquet(nested_baselines),
        group=read_folds(folds)["group"],
        metadata=read_metadata(metadata),
        further=further,
    )
    write_predictions(intervals_out, intervals)
    described = {key: settings[key] for key in DESCRIBED}
    write_json(metrics_out, {**report, **described, "provenance": dict(provenance)})


def _recipes(kind: str, predictions: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Return the score of each recipe on one target, and its mean weight over the folds."""
    report = {}
    for name, part in predictions.groupby("recipe", sort=False):
        weight = pd.to_numeric(part.groupby("fold")["weight"].first())
        score = score_predictions(kind, part)[HEADLINE[kind]]
        report[str(name)] = {"score": score, "weight": float(weight.mean())}
    return report
