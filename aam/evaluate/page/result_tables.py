"""The tables of the page."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from aam.evaluate.labels import TESTS, interval, p_value, row_label, score
from aam.evaluate.scores import HEADLINE, MAIN, SCORES

IN_TRAINING = "in_training"
"""Column of predictions for other tables: `id`, `reads`, or empty."""
MOST_ROWS = 2000
"""Rows of a table that a page holds; its file has all."""


@dataclass(frozen=True)
class Table:
    """A header and rows of texts, under a title; `left_out` rows are in its `file` alone."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left_out: int = 0
    file: str | None = None
    marked: Collection[int] = ()
    """Numbers of rows that stand out: samples of another table that were in training."""


def score_table(rows: pd.DataFrame, kind: str) -> Table:
    """Return the scores of the models and baselines of a task, rows of an `accuracy_table`."""
    body = []
    for row in rows.to_dict("records"):
        bounds = {HEADLINE[kind]: (row["headline_low"], row["headline_high"])}
        cells = [interval(row[name], *bounds.get(name, (None, None))) for name in MAIN[kind]]
        body.append([row_label(row["name"], row["role"]), *cells])
    title = "Scores, the best first"
    if rows["headline_low"].notna().any():
        title += "; in brackets 95 % intervals"
    return Table(title, ["method", *(SCORES[name] for name in MAIN[kind])], body)


def subset_tables(reports: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    """Yield a table per column of `report_by`: values down, models and baselines across."""
    regression = reports[0]["kind"] == "regression"
    name, label = ("mae", "MAE") if regression else ("accuracy", "Accuracy")
    key = f"{name}_by"
    for column, values in reports[0][key].items():
        across = {report["model"]: report[key][column] for report in reports}
        for baseline, scores in reports[0]["baselines"].items():
            across[row_label(baseline, "baseline")] = scores[key][column]
        rows = [
            [value, str(own["n"]), *(score(part[value][name]) for part in across.values())]
            for value, own in values.items()
        ]
        yield Table(f"{label} within each {column}", [column, "n", *across], rows)


def comparison_table(name: str, report: Mapping[str, Any], kind: str) -> Table:
    """Return the difference of a method to every baseline, with the paired tests.

    Parameters
    ----------
    name
        What the page calls the method.
    report
        Its scores, with one comparison or more.
    kind
        Kind of the task.
    """
    comparisons = report["comparisons"]
    label, better = ("balanced accuracy", "higher") if kind != "regression" else ("MAE", "lower")
    tests = [key for key in TESTS if key in next(iter(comparisons.values()))]
    rows = [
        [
            row_label(baseline, "baseline"),
            f"{found['difference']:+.3g}",
            f"{found['folds_won']:.0%} of {found['folds']}",
            *(p_value(found[key]).removeprefix("p = ").removeprefix("p ") for key in tests),
        ]
        for baseline, found in comparisons.items()
    ]
    title = f"{name} minus each baseline: {label}, mean of the folds ({better} is better); p-values"
    head = ["baseline", "difference", "better in folds", *(TESTS[key] for key in tests)]
    return Table(title, head, rows)


def prediction_table(title: str, frame: pd.DataFrame) -> Table:
    """Return the predictions for another table; samples that were in training are marked."""
    table = from_frame(title, frame, "predict")
    if IN_TRAINING not in frame:
        return table
    is_seen = in_training(frame)[: len(table.rows)]
    marked = {row for row, seen in enumerate(is_seen) if seen}
    return replace(table, marked=marked)


def in_training(frame: pd.DataFrame) -> list[bool]:
    """Return of each sample of a table of predictions whether training had it."""
    if IN_TRAINING not in frame:
        return [False] * len(frame)
    return (frame[IN_TRAINING].fillna("") != "").tolist()


def from_frame(title: str, frame: pd.DataFrame, file: str) -> Table:
    """Return a table of a file; numbers have four digits."""
    shown = frame.head(MOST_ROWS)
    columns = [
        shown[name].map(lambda x: f"{x:.4g}" if pd.notna(x) else "").tolist()
        if pd.api.types.is_float_dtype(shown[name])
        else shown[name].fillna("").astype(str).tolist()
        for name in shown
    ]
    rows = [list(row) for row in zip(*columns, strict=True)]
    return Table(title, list(map(str, shown)), rows, len(frame) - len(shown), file)
