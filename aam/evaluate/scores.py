"""Names of the scores, and the table of all tasks: apart from scikit-learn, which computes them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from aam.config.names import name_models

REGRESSION = {
    "mae_fold_mean": "MAE, mean of the folds",
    "mae_fold_sd": "its sd over folds",
    "mae_pooled": "MAE, pooled",
    "rmse_pooled": "RMSE, pooled",
    "r2_pooled": "R², pooled",
    "pearson": "Pearson r",
    "spearman": "Spearman ρ",
}
"""Scores of a regression and what people read; errors are in the unit of the target."""

CLASSIFICATION = {
    "accuracy": "accuracy",
    "accuracy_fold_mean": "accuracy, mean of the folds",
    "accuracy_fold_sd": "its sd over folds",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1",
    "mcc": "MCC",
    "roc_auc": "ROC AUC",
    "brier": "Brier score before calibration",
    "ece": "calibration error before calibration",
}
"""Scores of a classification."""

ORDINAL = {**CLASSIFICATION, "mae_ranks": "MAE in ranks", "quadratic_kappa": "quadratic κ"}
"""Scores of classes that have an order; `mae_ranks` is in steps of that order."""

MAIN = {"regression": REGRESSION, "classification": CLASSIFICATION, "ordinal": ORDINAL}
"""Scores and their labels by kind of task."""
SCORES = {**REGRESSION, **ORDINAL}
"""Labels of all scores."""

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
    """Return the name that an `accuracy_table` has for the super learner of a model."""
    return f"{SUPER_LEARNER}, {model}"


def label_models(names: Iterable[str]) -> dict[str, str]:
    """Return what people read instead of the names of models and their super learners.

    Parameters
    ----------
    names
        Names of an `accuracy_table` in rows of the role `model`, where these are networks.

    Returns
    -------
    dict
        "AAM" and "super learner" where there is one model; else "AAM (NAME)" and
        "super learner with AAM (NAME)".
    """
    given = list(dict.fromkeys(names))
    mixtures = {mixture_name(name) for name in given}
    labels = name_models(name for name in given if name not in mixtures)
    is_single = len(labels) == 1
    for name, label in list(labels.items()):
        labels[mixture_name(name)] = SUPER_LEARNER if is_single else f"{SUPER_LEARNER} with {label}"
    return labels


def of_each_target(reports: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one report per target, with what people read instead of the name of its model.

    Parameters
    ----------
    reports
        Contents of `metrics.json`: all that a page shows, since the names of models depend on how
        many there are.

    Returns
    -------
    list
        A task of several targets gets one report named `task, column` for each, in the order of
        the configuration, which is that of `column`: the keys of a file are sorted by their names.
        The key `display_name` is "AAM", "AAM (NAME)", or the baseline in the place of a model.
    """
    networks = name_models(one["model"] for one in reports if not one.get("is_baseline", False))
    separate = []
    for given in reports:
        model = given["model"]
        is_baseline = given.get("is_baseline", False)
        report = {**given, "display_name": model if is_baseline else networks[model]}
        targets = report.get("targets")
        if targets is None:
            separate.append(report)
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
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for report in of_each_target(reports):
        task = report["task"]
        kind = report["kind"]
        entries = [("model", report["model"], report)]
        if "super_learner" in report:
            # A page without models has a single super learner, which needs no name of a model.
            is_baseline = report.get("is_baseline", False)
            name = SUPER_LEARNER if is_baseline else mixture_name(report["model"])
            entries.append(("model", name, report["super_learner"]))
        entries += [("baseline", name, scores) for name, scores in report["baselines"].items()]
        for role, name, scores in entries:
            low, high = scores.get("bootstrap", {}).get(HEADLINE[kind]) or (None, None)
            shown = {key: scores[key] for key in ("n", *MAIN[kind])}
            about = {"task": task, "kind": kind, "name": name, "role": role}
            rows[task, role, name] = {**about, **shown, "headline_low": low, "headline_high": high}
    numeric = [*SCORES, "headline_low", "headline_high"]
    columns = ["task", "kind", "name", "role", "n", *numeric]
    table = pd.DataFrame(list(rows.values()), columns=columns)
    table = table.astype(dict.fromkeys(numeric, float))
    regression = table["kind"] == "regression"
    rank = np.where(regression, table["mae_fold_mean"], -table["balanced_accuracy"])
    order = pd.factorize(table["task"])[0]
    ranked = table.assign(order=order, rank=rank)
    ranked = ranked.sort_values(["order", "rank", "name"], ignore_index=True)
    return ranked.drop(columns=["order", "rank"])
