"""What the page has of each task: its answer, figures and tables."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from aam.evaluate.page import words
from aam.evaluate.page.answers import Caution, answer, cautions
from aam.evaluate.page.render import PageFigure, TaskSection
from aam.evaluate.page.result_tables import (
    Table,
    comparison_table,
    from_frame,
    score_table,
    subset_tables,
)
from aam.evaluate.predictions import by_target
from aam.evaluate.summary import by_task

TRAINING = "Training curves"
"""Title of the figures that the page folds away."""
MOST_ASVS = 100
"""ASVs of a table of importance that the page shows."""


@dataclass(frozen=True)
class TaskFiles:
    """What was written of one model's fine-tuning to one task."""

    report: Mapping[str, Any]
    """Content of `metrics.json`."""
    intervals: pd.DataFrame
    importance: pd.DataFrame
    figures: Sequence[PageFigure] = ()
    predictions: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Of other tables, by what the page calls them."""


def task_sections(all_files: Iterable[TaskFiles]) -> Iterator[TaskSection]:
    """Yield a section per model and target, the tasks in the order of the accuracy table."""
    files = {(one.report["model"], one.report["task"]): one for one in all_files}
    for name, reports, rows in by_task([one.report for one in files.values()]):
        tables = [score_table(rows, reports[0]["kind"]), *subset_tables(reports)]
        for report in reports:
            task, _, column = name.partition(", ")
            own = files[report["model"], task]
            yield TaskSection(
                name=name.replace("_", " "),
                model=report["model"] if len(reports) > 1 else "",
                answer=answer(report),
                cautions=cautions(report)
                or [Caution("good", "Nothing was found that limits the trust in these scores.")],
                sentences=list(words.on_task(report)),
                figures=[one for one in own.figures if one.title != TRAINING],
                training=[one for one in own.figures if one.title == TRAINING],
                tables=[*tables, *_own_tables(report, own, column)],
            )


def _own_tables(report: Mapping[str, Any], files: TaskFiles, column: str) -> Iterator[Table]:
    if "super_learner" in report:
        yield comparison_table("Super learner", report["super_learner"], report["kind"])
    yield comparison_table("AAM", report, report["kind"])
    intervals = by_target(files.intervals)[column]
    yield from_frame("Cross-validated predictions", intervals, "intervals.tsv")
    most = files.importance.head(MOST_ASVS)
    yield from_frame(f"The {len(most)} most important ASVs", most, "importance.tsv")
    for name, table in files.predictions.items():
        yield from_frame(f"Predictions for {name}", table, "predict")
