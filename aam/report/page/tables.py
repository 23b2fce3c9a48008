"""The tables of the page."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from aam.data.predictions import FEW_NEAR, NEAR_READS
from aam.evaluate.scores import HEADLINE, MAIN, SUPER_LEARNER
from aam.evaluate.task_report import MethodReport
from aam.report.labels import (
    DASH,
    SCORES,
    TESTS,
    capitalize,
    format_interval,
    format_p_value,
    format_score,
    row_label,
)
from aam.report.page.answers import Answer

IN_TRAINING = "in_training"
"""Column of predictions for other tables: `id`, `reads`, or empty."""
RIVALS = {"reads": "reads before rarefaction", "richness": "richness after rarefaction"}
"""What the table of rivals calls numbers of each sample, by their role."""
MOST_ROWS = 2000
"""Rows of a table that a page holds; its file has all."""
UNDEFINED = f"A dash ({DASH}): the score is not defined for these samples."
"""Note to a table of scores some of which are missing."""
UNTESTED = f"A dash ({DASH}): no test is possible with these samples."
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


def score_table(answers: Sequence[Answer]) -> Table:
    """Return the scores of all methods of a target, the best first.

    Parameters
    ----------
    answers
        All of the target, one per model.
    """
    kind = answers[0].kind
    headline = HEADLINE[kind]
    sign = 1 if kind == "regression" else -1
    ranked = []
    for name, label, method in _list_methods(answers):
        score = method.scores[headline]
        assert score is not None, "a headline score is defined for any sample"
        ranked.append((sign * score, name, label, method))
    body = []
    for _, _, label, method in sorted(ranked, key=lambda row: row[:2]):
        low, high = method.interval or (None, None)
        cells = []
        for name in MAIN[kind]:
            score = method.scores[name]
            is_headline = name == headline
            cells.append(format_interval(score, low, high) if is_headline else format_score(score))
        body.append([label, *cells])
    title = "Scores, the best first"
    if any(method.interval is not None for *_, method in ranked):
        title += "; in brackets 95 % intervals"
    header = ["method", *(SCORES[name] for name in MAIN[kind])]
    return Table(title, header, body, note=_note_dashes(body, UNDEFINED))


def _list_methods(answers: Sequence[Answer]) -> Iterator[tuple[str, str, MethodReport]]:
    """Yield name, label and report of all methods of a target, a baseline once."""
    is_single = len([answer for answer in answers if answer.networks]) < 2
    for answer in answers:
        for method in answer.target.methods:
            if method.role == "network":
                yield method.name, answer.networks, method
            elif method.role == "super learner":
                label = SUPER_LEARNER if is_single else f"{SUPER_LEARNER} with {answer.networks}"
                yield answer.report.answer, label, method
    for method in answers[-1].target.baselines:
        yield method.name, answers[-1].label(method), method


def subset_tables(answers: Sequence[Answer]) -> Iterator[Table]:
    """Yield a table per column of `report_by`: values down, methods across.

    Parameters
    ----------
    answers
        All of the target, one per model.
    """
    label = "MAE" if answers[0].kind == "regression" else "Accuracy"
    across: dict[str, MethodReport] = {}
    for answer in answers:
        method = answer.target.networks or answer.best
        across[answer.label(method)] = method
    for method in sorted(answers[0].target.baselines, key=lambda method: method.name):
        across[answers[0].label(method)] = method
    for column, values in answers[0].best.by.items():
        rows = []
        for value, subset in values.items():
            scores = [method.by[column][value].score for method in across.values()]
            rows.append([value, str(subset.n), *map(format_score, scores)])
        title = f"{label} within each {column}"
        yield Table(title, [column, "n", *across], rows, note=_note_dashes(rows, UNDEFINED))


def _note_dashes(rows: Iterable[Sequence[str]], note: str) -> str:
    """Return a note where cells of a table are dashes, else nothing."""
    return note if any(DASH in row for row in rows) else ""


def comparison_table(answer: Answer, method: MethodReport) -> Table:
    """Return the difference of a method to every baseline, with the paired tests.

    Parameters
    ----------
    answer
        One of `aam.report.page.answers.list_answers`.
    method
        One of its methods, with one comparison or more.
    """
    is_number = answer.kind == "regression"
    score = "MAE, mean of the folds" if is_number else "balanced accuracy"
    better = "lower" if is_number else "higher"
    rows = []
    for baseline, comparison in method.comparisons.items():
        folds_won = round(comparison.folds_won * comparison.folds)
        p_values = [_format_p_cell(getattr(comparison, test)) for test in TESTS]
        rows.append(
            [
                row_label(baseline, "baseline"),
                f"{comparison.difference:+.3g}",
                f"{folds_won} of {comparison.folds}",
                *p_values,
            ]
        )
    name = capitalize(answer.label(method))
    title = f"{name} minus each baseline: {score} ({better} is better); p-values"
    header = ["baseline", "difference", "better in folds", *(TESTS[test] for test in TESTS)]
    return Table(title, header, rows, note=_note_dashes(rows, UNTESTED))


def rival_table(answer: Answer) -> Table:
    """Return what each rival alone reaches, and what the leading method does within its values.

    Parameters
    ----------
    answer
        One of `aam.report.page.answers.list_answers`, with one rival or more.
    """
    rows = []
    for rival in answer.target.rivals:
        within = rival.within
        cells = [DASH, DASH, DASH, DASH]
        if within is not None:
            cells = [*map(format_score, [within.score, within.guessing]), _format_p_cell(within.p)]
            cells.append(f"{within.shrinkage:+.2f} ± {within.error:.2f}")
        rows.append(
            [
                RIVALS.get(rival.role, rival.name),
                rival.role,
                format_score(rival.score),
                _format_p_cell(rival.p),
                *cells,
            ]
        )
    label = SCORES[answer.report.headline]
    guess = format_score(answer.target.rivals[0].guessing)
    title = (
        f"What else says {answer.what}: {label} of each alone (guessing {guess}), and of "
        f"{answer.owner} within its values"
    )
    header = ["rival", "role", "alone", "p", "within", "guessing within", "p within", "skill lost"]
    note = (
        f"A dash ({DASH}): it predicts nothing, or its values leave nothing to compare. p is "
        "corrected for the number of rivals. Skill lost: of 1 for a perfect score and 0 for "
        "guessing. Numbers are divided into tenths or fewer parts."
    )
    return Table(title, header, rows, note=note)


def other_groups_table(answer: Answer) -> Table:
    """Return what nearest neighbours reach with the groups of other columns.

    Parameters
    ----------
    answer
        One of `aam.report.page.answers.list_answers`, with one such column or more.
    """
    rows = []
    for other in answer.target.other_groups:
        scores = [format_score(other.score), format_score(other.with_own_folds)]
        rows.append([other.column, str(other.groups), *scores, _format_p_cell(other.p)])
    label = SCORES[answer.report.headline]
    title = f"{capitalize(label)} of nearest neighbours with other columns as groups"
    header = ["column", "groups", "with its groups", "with the folds of this page", "p"]
    return Table(title, header, rows)


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
    return (frame[IN_TRAINING].notna() & (frame[IN_TRAINING] != "")).tolist()


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
