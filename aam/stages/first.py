"""The scores of a task's baselines, one of them in the place of a model: a first answer."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from aam.data.folds import read_folds
from aam.data.metadata import read_metadata
from aam.data.predictions import read_predictions, write_predictions
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
    names: Mapping[str, str],
    kind: str,
    column: str | Sequence[str],
    classes: Sequence[str] | None = None,
    bounds: Sequence[float | None] = (None, None),
    report_by: Sequence[str] = (),
    structure: Mapping[str, Any],
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
    names
        What `dataset` and `task` are called.
    kind
        ``regression``, ``classification`` or ``ordinal``.
    column
        Metadata column, or columns, that is predicted.
    classes
        Classes in their order, where they have one.
    bounds
        Least and largest number that can be predicted; None: no bound.
    report_by
        Metadata columns by whose values scores are reported, too.
    structure
        Which `column` keeps samples together, None where none does, and whether that was `stated`
        by the user.
    predictions_out
        TSV file to write: predictions of the baseline.
    metrics_out
        JSON file to write: what `aam.stages.score` writes, without what is said of networks;
        `is_baseline` in it says that none was trained.
    intervals_out
        TSV file to write: predictions of the leading method, with intervals or probabilities.
    provenance
        Where the scores come from, which is written beside them (`aam.util.provenance`).
    """
    predicted = read_predictions(baselines)
    nested = pd.read_parquet(nested_baselines)
    chosen = leading_baseline(predicted["baseline"])
    label = LABELS.get(chosen, row_label(chosen, "baseline"))
    is_chosen = predicted["baseline"] == chosen
    is_nested = nested["baseline"] == chosen
    leading = predicted[is_chosen].drop(columns="baseline").reset_index(drop=True)
    settings = {
        "kind": kind,
        "column": column,
        "classes": classes,
        "bounds": bounds,
        "report_by": report_by,
        "structure": structure,
        "names": {**names, "model": label},
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
    described = {"kind": kind, "column": column, "bounds": bounds}
    made_from = {"provenance": dict(provenance)}
    write_json(metrics_out, {**report, **described, "is_baseline": True, **made_from})
