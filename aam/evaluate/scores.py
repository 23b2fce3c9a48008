"""Which scores a task has, which of them leads, and the table of all tasks.

The module is apart from scikit-learn, which computes the scores (`aam.evaluate.metrics`).
"""

from collections.abc import Iterator, Mapping, Sequence
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
"""Scores of a regression; errors are in the unit of the target."""

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
"""Scores of a classification."""

ORDINAL = (*CLASSIFICATION, "mae_ranks", "quadratic_kappa")
"""Scores of classes that have an order; `mae_ranks` is in steps of that order."""

MAIN = {"regression": REGRESSION, "classification": CLASSIFICATION, "ordinal": ORDINAL}
"""Scores by kind of task."""

HEADLINE = {
    "regression": "mae_fold_mean",
    "classification": "balanced_accuracy",
    "ordinal": "balanced_accuracy",
}
"""The one score that a kind of task is ranked by: errors ascending, the others descending."""

SUPER_LEARNER = "super learner"
"""The mixture of all methods of a task."""


def is_better(kind: str, difference: float) -> bool:
    """Return whether a difference of headline scores speaks for the first of the two methods.

    Parameters
    ----------
    kind
        Kind of the target: an error is better where it is lower, an accuracy where it is higher.
    difference
        Score of the first method less that of the second; with 0 neither is better.
    """
    return difference < 0 if kind == "regression" else difference > 0


def mixture_name(model: str) -> str:
    """Return the name that an `accuracy_table` has for the super learner of a model.

    Parameters
    ----------
    model
        Name of the model.
    """
    return f"{SUPER_LEARNER}, {model}"


def split_targets(reports: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one report per target.

    Parameters
    ----------
    reports
        Contents of `metrics.json`.

    Returns
    -------
    list of dict
        A task of several targets gets one report named `task, column` for each, in the order of
        the configuration, which is that of `column`: the keys of a file are sorted by their names.
    """
    separate = []
    for report in reports:
        targets = report.get("targets")
        if targets is None:
            separate.append(dict(report))
            continue
        for column in sorted(targets, key=list(report["column"]).index):
            name = f"{report['task']}, {column}"
            separate.append({**report, **targets[column], "task": name})
    return separate


def accuracy_table(reports: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Put every model and baseline of some reports into one table.

    Parameters
    ----------
    reports
        Contents of `metrics.json`.

    Returns
    -------
    pandas.DataFrame
        A row per method and task with its scores. Tasks are in the order of the reports, the best
        method first within a task, a baseline once per task.
    """
    # The baselines of a task are in the reports of all its models: the last one counts.
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for report in split_targets(reports):
        for role, name, scores in _methods(report):
            rows[report["task"], role, name] = _accuracy_row(report, role, name, scores)
    numeric = [*REGRESSION, *ORDINAL, "headline_low", "headline_high"]
    columns = ["task", "kind", "name", "role", "n", *numeric]
    table = pd.DataFrame(list(rows.values()), columns=columns)
    table = table.astype(dict.fromkeys(numeric, float))
    is_regression = table["kind"] == "regression"
    rank = np.where(is_regression, table["mae_fold_mean"], -table["balanced_accuracy"])
    order = pd.factorize(table["task"])[0]
    ranked = table.assign(order=order, rank=rank)
    ranked = ranked.sort_values(["order", "rank", "name"], ignore_index=True)
    return ranked.drop(columns=["order", "rank"])


def _methods(report: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield role, name and scores of every method of a report: the model, mixture, baselines."""
    yield "model", report["model"], report
    if "super_learner" in report:
        # A page without models has a single super learner, which needs no name of a model.
        is_baseline = report.get("is_baseline", False)
        name = SUPER_LEARNER if is_baseline else mixture_name(report["model"])
        yield "model", name, report["super_learner"]
    for name, scores in report["baselines"].items():
        yield "baseline", name, scores


def _accuracy_row(
    report: Mapping[str, Any], role: str, name: str, scores: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the row of one method of a report."""
    kind = report["kind"]
    interval = scores.get("bootstrap", {}).get(HEADLINE[kind])
    low, high = (None, None) if interval is None else interval
    return {
        "task": report["task"],
        "kind": kind,
        "name": name,
        "role": role,
        "n": scores["n"],
        **{key: scores[key] for key in MAIN[kind]},
        "headline_low": low,
        "headline_high": high,
    }
