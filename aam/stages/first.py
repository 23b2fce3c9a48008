"""The scores of a task's baselines, one of them in the place of a model: a first answer."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from aam.data.folds import read_folds
from aam.data.metadata import read_metadata
from aam.data.predictions import read_predictions, write_predictions
from aam.evaluate.scored_task import ScoredTask
from aam.evaluate.task_report import report_task
from aam.learners.first_answer import PREFERRED, leading_baseline
from aam.report.labels import KERNEL_MACHINE, row_label
from aam.util.atomic import write_json

LABELS = {PREFERRED: KERNEL_MACHINE}
"""What the page calls it, where that is not its label among the baselines."""


def score_baselines(
    *,
    baselines: Path,
    nested_baselines: Path,
    folds: Path,
    metadata: Path,
    task: ScoredTask,
    predictions_out: Path,
    metrics_out: Path,
    intervals_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Score one baseline as a model is scored, compared and mixed with the others.

    Parameters
    ----------
    baselines, nested_baselines
        What `aam.stages.baselines` writes: predictions (TSV) and nested ones (Parquet).
    folds
        TSV file of the folds of the task.
    metadata
        Parquet file of the imported metadata.
    task
        What is predicted, what it is called, and by what scores are reported.
    predictions_out
        TSV file to write: predictions of the baseline.
    metrics_out
        JSON file to write: what `aam.stages.score` writes, without what is said of networks;
        `is_baseline` in it says that none was trained.
    intervals_out
        TSV file to write: predictions of the leading method, with intervals or probabilities.
    provenance
        Where the scores come from, which is written with them (`aam.util.provenance`).
    """
    predicted = read_predictions(baselines)
    nested = pd.read_parquet(nested_baselines)
    chosen = leading_baseline(predicted["baseline"])
    label = LABELS.get(chosen, row_label(chosen, "baseline"))
    is_chosen = predicted["baseline"] == chosen
    is_nested = nested["baseline"] == chosen
    leading = predicted[is_chosen].drop(columns="baseline").reset_index(drop=True)
    settings = {
        **task.plain(),
        "names": {**task.names, "model": label},
        "labels": 1.0,
    }
    report, intervals = report_task(
        settings,
        leading,
        nested[is_nested].drop(columns="baseline"),
        baselines=predicted[~is_chosen],
        nested_baselines=nested[~is_nested],
        group=read_folds(folds)["group"],
        metadata=read_metadata(metadata),
    )
    write_predictions(predictions_out, leading)
    write_predictions(intervals_out, intervals)
    content = {
        **report,
        "kind": task.kind,
        "column": task.column,
        "bounds": task.bounds,
        "is_baseline": True,
        "provenance": dict(provenance),
    }
    write_json(metrics_out, content)
