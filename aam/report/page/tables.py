"""The tables of the page."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from aam.data.predictions import FEW_NEAR, NEAR_READS
from aam.evaluate.scores import HEADLINE, MAIN
from aam.report.labels import (
    DASH,
    SCORES,
    TESTS,
    format_interval,
    format_p_value,
    format_score,
    label_models,
    row_label,
)
from aam.report.page.answers import is_baseline, model_label

IN_TRAINING = "in_training"
"""Column of predictions for other tables: `id`, `reads`, or empty."""
MOST_ROWS = 2000
"""Rows of a table that a page holds; its file has all."""
UNDEFINED = f"A dash ({DASH}): the score is not defined for these samples."
"""Note to a table of scores some of which are missing."""
UNTESTED = f"A dash ({DASH}): no test is possible with these folds and samples."
"""Note to a table of tests some of which are missing."""


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
    note: str = ""
    """What a reader has to know about its cells."""


def score_table(rows: pd.DataFrame, kind: str, reports: Sequence[Mapping[str, Any]]) -> Table:
    """Return the scores of the models and baselines of a task.

    Parameters
    ----------
    rows
        Rows of an `accuracy_table`.
    kind
        Kind of the task.
    reports
        The reports of the task, one per model.
    """
    labels = _label_rows(reports)
    body = []
    for row in rows.to_dict("records"):
        cells = []
        for name in MAIN[kind]:
            if name == HEADLINE[kind]:
                interval = format_interval(row[name], row["headline_low"], row["headline_high"])
                cells.append(interval)
            else:
                cells.append(format_score(row[name]))
        method = labels.get((row["role"], row["name"]), row["name"])
        body.append([row_label(method, row["role"]), *cells])
    title = "Scores, the best first"
    if rows["headline_low"].notna().any():
        title += "; in brackets 95 % intervals"
    header = ["method", *(SCORES[name] for name in MAIN[kind])]
    return Table(title, header, body, note=_note_dashes(body, UNDEFINED))


def subset_tables(reports: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    """Yield a table per column of `report_by`: values down, models and baselines across.

    Parameters
    ----------
    reports
        The reports of a task, one per model.
    """
    is_regression = reports[0]["kind"] == "regression"
    name = "mae" if is_regression else "accuracy"
    label = "MAE" if is_regression else "Accuracy"
    key = f"{name}_by"
    for column, values in reports[0][key].items():
        across = {model_label(report): report[key][column] for report in reports}
        for baseline, scores in reports[0]["baselines"].items():
            across[row_label(baseline, "baseline")] = scores[key][column]
        rows = []
        for value, scores in values.items():
            cells = [format_score(by_value[value][name]) for by_value in across.values()]
            rows.append([value, str(scores["n"]), *cells])
        title = f"{label} within each {column}"
        header = [column, "n", *across]
        yield Table(title, header, rows, note=_note_dashes(rows, UNDEFINED))


def _label_rows(reports: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], str]:
    """Return what people read instead of the names of models and their super learners."""
    networks = [report for report in reports if not is_baseline(report)]
    labels = label_models(report["model"] for report in networks)
    return labels | {("network", report["model"]): model_label(report) for report in networks}


def _note_dashes(rows: Iterable[Sequence[str]], note: str) -> str:
    """Return a note where cells of a table are dashes, else nothing."""
    return note if any(DASH in row for row in rows) else ""


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
    is_number = kind == "regression"
    label = "MAE, mean of the folds" if is_number else "balanced accuracy"
    better = "lower" if is_number else "higher"
    tests = [key for key in TESTS if key in next(iter(comparisons.values()))]
    rows = []
    for baseline, comparison in comparisons.items():
        folds_won = round(comparison["folds_won"] * comparison["folds"])
        p_values = [_format_p_cell(comparison[key]) for key in tests]
        rows.append(
            [
                row_label(baseline, "baseline"),
                f"{comparison['difference']:+.3g}",
                f"{folds_won} of {comparison['folds']}",
                *p_values,
            ]
        )
    title = f"{name} minus each baseline: {label} ({better} is better); p-values"
    header = ["baseline", "difference", "better in folds", *(TESTS[key] for key in tests)]
    return Table(title, header, rows, note=_note_dashes(rows, UNTESTED))


def _format_p_cell(p: float | None) -> str:
    """Return a p-value without the name of the quantity, which the header of its table has."""
    return format_p_value(p).removeprefix("p = ").removeprefix("p ")


def prediction_table(title: str, frame: pd.DataFrame) -> Table:
    """Return the predictions for another table; samples that were in training are marked.

    Parameters
    ----------
    title
        Title of the table.
    frame
        Predictions, with a column `in_training` where samples could be recognized.
    """
    table = from_frame(title, frame, "predict")
    if IN_TRAINING not in frame:
        return table
    is_seen = in_training(frame)[: len(table.rows)]
    marked = {row for row, seen in enumerate(is_seen) if seen}
    return replace(table, marked=marked)


def in_training(frame: pd.DataFrame) -> list[bool]:
    """Return for each sample of a table of predictions whether it was in training.

    Parameters
    ----------
    frame
        Predictions for another table.
    """
    if IN_TRAINING not in frame:
        return [False] * len(frame)
    return (frame[IN_TRAINING].fillna("") != "").tolist()


def with_few_near(frame: pd.DataFrame) -> list[bool]:
    """Return for each sample of a table of predictions whether few of its reads are near training.

    Parameters
    ----------
    frame
        Predictions for another table.
    """
    if NEAR_READS not in frame:
        return [False] * len(frame)
    return (frame[NEAR_READS] < FEW_NEAR).tolist()


def from_frame(title: str, frame: pd.DataFrame, file: str) -> Table:
    """Return the first rows of a file as a table; numbers have at least four digits.

    Parameters
    ----------
    title
        Title of the table.
    frame
        Content of the file.
    file
        What the page calls the file, which has the rows that are left out here.
    """
    shown = frame.head(MOST_ROWS)
    columns = [_format_column(shown[name]) for name in shown]
    rows = [list(row) for row in zip(*columns, strict=True)]
    left_out = len(frame) - len(shown)
    return Table(title, list(map(str, shown)), rows, left_out=left_out, file=file)


def _format_column(values: pd.Series) -> list[str]:
    """Return the cells of a column; those that are missing are empty."""
    if pd.api.types.is_float_dtype(values):
        return [_format_number(value) if pd.notna(value) else "" for value in values]
    return values.fillna("").astype(str).tolist()


def _format_number(value: float) -> str:
    """Return a number with four digits, or without decimals where it has more before the point."""
    return f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"
