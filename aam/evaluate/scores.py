"""Names of the scores, and the table of all tasks: apart from scikit-learn, which computes them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

REGRESSION = (
    "mae_fold_mean",
    "mae_fold_sd",
    "mae_pooled",
    "rmse_pooled",
    "r2_pooled",
    "pearson",
    "spearman",
)
"""Names of the scores of a regression; errors are in the unit of the target."""

CLASSIFICATION = (
    "accuracy",
    "accuracy_fold_mean",
    "accuracy_fold_sd",
    "balanced_accuracy",
    "macro_f1",
    "mcc",
    "roc_auc",
    "brier",
    "ece",
)
"""Names of the scores of a classification."""

ORDINAL = (*CLASSIFICATION, "mae_ranks", "quadratic_kappa")
"""Names of the scores of classes that have an order; `mae_ranks` is in steps of that order."""

MAIN = {"regression": REGRESSION, "classification": CLASSIFICATION, "ordinal": ORDINAL}
"""Names of the scores by kind of task."""

HEADLINE = {
    "regression": "mae_fold_mean",
    "classification": "balanced_accuracy",
    "ordinal": "balanced_accuracy",
}
"""The one score that a kind of task is ranked by: errors ascending, the others descending."""


def of_each_target(reports: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one report per target: a task of several gets one named `task, column` for each."""
    each: list[dict[str, Any]] = []
    for report in reports:
        for column, own in report.get("targets", {"": {}}).items():
            name = f"{report['task']}, {column}" if column else report["task"]
            each.append({**report, **own, "task": name})
    return each


def accuracy_table(reports: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Put every model and baseline of every task into one table.

    Parameters
    ----------
    reports
        Contents of `finetune/<model>/<task>/metrics.json`, with `model`, `task`, `kind`,
        `baselines`, `bootstrap` and, where there is one, `stacked`; tasks of several targets count
        as several.

    Returns
    -------
    pandas.DataFrame
        Columns `task`, `kind`, `name`, `role` (model or baseline), `n`, the scores of all kinds,
        NaN where a score is undefined or of another kind, and `headline_low`, `headline_high`,
        the bootstrap interval of a model's headline score. Tasks in alphabetical order,
        the best headline score first within a task, a baseline once per task.
    """
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for report in of_each_target(reports):
        task, kind = report["task"], report["kind"]
        entries = [("model", report["model"], report)]
        if "stacked" in report:
            entries.append(("model", f"{report['model']} + forest", report["stacked"]))
        entries += [("baseline", name, scores) for name, scores in report["baselines"].items()]
        for role, name, scores in entries:
            low, high = scores.get("bootstrap", {}).get(HEADLINE[kind]) or (None, None)
            rows[task, role, name] = {
                "task": task,
                "kind": kind,
                "name": name,
                "role": role,
                **{key: scores[key] for key in ("n", *MAIN[kind])},
                "headline_low": low,
                "headline_high": high,
            }
    names = [*REGRESSION, *ORDINAL, "headline_low", "headline_high"]
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
