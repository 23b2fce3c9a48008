"""The scores of one task, the tables of its predictions, and the table of all tasks."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from aam.data.targets import metadata_column
from aam.evaluate import metrics
from aam.evaluate.predictions import PROBABILITY, class_names


def task_metrics(
    kind: str,
    predictions: pd.DataFrame,
    metadata: pd.DataFrame | None = None,
    report_by: Sequence[str] = (),
) -> dict[str, Any]:
    """Score the cross-validated predictions of one task.

    Parameters
    ----------
    kind
        regression or classification.
    predictions
        Columns `sample-id`, `fold`, `observed`, `predicted`, and `probability:<class>` of every
        class; one row per sample.
    metadata
        Sample metadata, index sample IDs; needed where `report_by` names columns.
    report_by
        Metadata columns whose values get a score of their own.

    Returns
    -------
    dict
        `n`, the names of `metrics.MAIN[kind]`, and `folds` (n and score of each fold). A
        regression has `mae_by` (column, value: `n`, `mae`); a classification `accuracy_by`,
        `per_class` and `confusion`. Plain types without NaN: None where a score is undefined.

    Raises
    ------
    InputError
        If a column of `report_by` is not in the metadata.
    """
    assert kind in metrics.MAIN
    assert predictions["sample-id"].is_unique
    observed, predicted, fold = (predictions[name] for name in ("observed", "predicted", "fold"))
    labels = _labels(predictions["sample-id"], metadata, report_by)
    if kind == "regression":
        observed, predicted = pd.to_numeric(observed), pd.to_numeric(predicted)
        return {
            "n": len(predictions),
            **metrics.regression_metrics(observed, predicted, fold),
            "folds": metrics.subset_mae(observed, predicted, fold),
            "mae_by": {
                name: metrics.subset_mae(observed, predicted, values)
                for name, values in labels.items()
            },
        }
    classes = class_names(predictions)
    probabilities = predictions[[PROBABILITY + name for name in classes]].to_numpy(dtype=float)
    return {
        "n": len(predictions),
        **metrics.classification_metrics(observed, predicted, probabilities, classes, fold),
        "folds": metrics.subset_accuracy(observed, predicted, fold),
        "accuracy_by": {
            name: metrics.subset_accuracy(observed, predicted, values)
            for name, values in labels.items()
        },
        "per_class": metrics.per_class_table(observed, predicted, probabilities, classes),
        "confusion": metrics.confusion(observed, predicted, classes),
    }


def accuracy_table(reports: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Put every model and baseline of every task into one table.

    Parameters
    ----------
    reports
        Contents of `finetune/<model>/<task>/metrics.json`, with `model`, `task`, `kind` and
        `baselines`.

    Returns
    -------
    pandas.DataFrame
        Columns `task`, `kind`, `name`, `role` (model or baseline), `n`, and the scores of both
        kinds, NaN where a score is undefined or of the other kind. Tasks in alphabetical order,
        the best headline score first within a task, a baseline once per task.
    """
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for report in reports:
        task, kind = report["task"], report["kind"]
        entries = [("model", report["model"], report)]
        entries += [("baseline", name, scores) for name, scores in report["baselines"].items()]
        for role, name, scores in entries:
            rows[task, role, name] = {
                "task": task,
                "kind": kind,
                "name": name,
                "role": role,
                **{key: scores[key] for key in ("n", *metrics.MAIN[kind])},
            }
    names = [*metrics.REGRESSION, *metrics.CLASSIFICATION]
    table = pd.DataFrame(
        list(rows.values()), columns=["task", "kind", "name", "role", "n", *names]
    ).astype(dict.fromkeys(names, float))
    rank = np.where(
        table["kind"] == "regression", table["mae_fold_mean"], -table["balanced_accuracy"]
    )
    return (
        table.assign(rank=rank)
        .sort_values(["task", "rank", "name"], ignore_index=True)
        .drop(columns="rank")
    )


def _labels(
    sample_ids: pd.Series, metadata: pd.DataFrame | None, report_by: Sequence[str]
) -> dict[str, Any]:
    if not report_by:
        return {}
    assert metadata is not None, "report_by needs the metadata"
    return {
        name: metadata_column(metadata, name).reindex(sample_ids).to_numpy(dtype=object)
        for name in report_by
    }
