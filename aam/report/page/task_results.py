"""The results of a dataset, task by task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from aam.report.page.mappings import accuracy_rows
from aam.report.page.reports import label_reports
from aam.report.page.verdicts import Verdict, judge_all


@dataclass(frozen=True)
class TaskResults:
    """A task, or one target of it, with all models that were scored on it."""

    name: str
    reports: Sequence[Mapping[str, Any]]
    """One per model."""
    verdicts: Sequence[Verdict]
    """The verdict on each report, corrected for all tasks."""
    scores: pd.DataFrame
    """Its rows of the `accuracy_rows`."""


def group_by_task(reports: Sequence[Mapping[str, Any]]) -> Iterator[TaskResults]:
    """Yield the results of each task, in the order of the reports.

    Parameters
    ----------
    reports
        Contents of `scores.json`: all that a page shows, since verdicts are corrected for their
        number.
    """
    labelled = label_reports(reports)
    verdicts = judge_all(labelled)
    for task, rows in accuracy_rows(reports).groupby("task", sort=False):
        members = [number for number, report in enumerate(labelled) if report["task"] == task]
        yield TaskResults(
            name=str(task),
            reports=[labelled[number] for number in members],
            verdicts=[verdicts[number] for number in members],
            scores=rows,
        )
