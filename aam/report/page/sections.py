"""What the page has of each task: its answer, lights, sentences, figures and tables."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from aam.data.predictions import by_target
from aam.evaluate.importance import TAXON, TOP_ASVS
from aam.report.labels import capitalize
from aam.report.page.answers import write_answer
from aam.report.page.cautions import list_cautions
from aam.report.page.details import task_sentences, trains_networks
from aam.report.page.render import Commands, PageFigure, TaskSection
from aam.report.page.reports import leading_name, model_label, target_and_unit
from aam.report.page.result_tables import (
    Table,
    comparison_table,
    from_frame,
    prediction_table,
    score_table,
    subset_tables,
)
from aam.report.page.sentences import importances
from aam.report.page.task_results import group_by_task
from aam.report.page.verdicts import Verdict, is_stopped

TRAINING = "Training curves"
"""Title of the figures that the page folds away."""
IMPORTANCE = "Important ASVs"
"""Title of the figures that the page leaves out under a red light."""
MOST_ASVS = 100
"""ASVs of a table of importance that the page shows."""


@dataclass(frozen=True)
class TaskFiles:
    """What was written of one model's fine-tuning to one task."""

    report: Mapping[str, Any]
    """Content of `scores.json`."""
    intervals: pd.DataFrame
    importance: pd.DataFrame | None
    """None: the configuration does not ask for it, or a baseline stands in for a model."""
    figures: Sequence[PageFigure] = ()
    predictions: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """Predictions for other tables, by what the page calls them."""


def task_sections(all_files: Iterable[TaskFiles]) -> Iterator[TaskSection]:
    """Yield a section per model and target, the tasks in the order of the files.

    Parameters
    ----------
    all_files
        What was written of each task and model of the page.
    """
    files = {}
    for task_files in all_files:
        files[task_files.report["model"], task_files.report["task"]] = task_files
    for task in group_by_task([task_files.report for task_files in files.values()]):
        # A task of several targets has a section for each, named `task, column`.
        config_name, _, column = task.name.partition(", ")
        tables = [
            score_table(task.scores, task.reports[0]["kind"], task.reports),
            *subset_tables(task.reports),
        ]
        for report, verdict in zip(task.reports, task.verdicts, strict=True):
            model = model_label(report) if len(task.reports) > 1 else ""
            model_files = files[report["model"], config_name]
            yield _write_section(task.name, model, report, verdict, model_files, column, tables)


def _write_section(
    name: str,
    model: str,
    report: Mapping[str, Any],
    verdict: Verdict,
    files: TaskFiles,
    column: str,
    tables: Sequence[Table],
) -> TaskSection:
    """Return the section of one model and target.

    Parameters
    ----------
    name
        Name of the task, with the column where it has several.
    model
        What the section calls the model; empty where the task has one alone.
    report, verdict
        The report of the target, and the verdict on it.
    files
        What was written of the model and the task.
    column
        The target's column; empty where the task has one target.
    tables
        Tables that the sections of all models of the task share.
    """
    training = []
    if trains_networks(report):
        training = [figure for figure in files.figures if figure.title == TRAINING]
    is_explained = files.importance is not None
    return TaskSection(
        name=name.replace("_", " "),
        model=model,
        answer=write_answer(report, verdict),
        cautions=list_cautions(report, verdict),
        sentences=list(task_sentences(report, is_explained=is_explained)),
        figures=[figure for figure in files.figures if _is_shown(figure, report)],
        training=training,
        tables=[*tables, *_make_tables(report, files, column)],
        commands=list(_write_commands(report, files.importance)),
    )


def _is_shown(figure: PageFigure, report: Mapping[str, Any]) -> bool:
    """Return whether a figure stands open on the page."""
    if figure.title == IMPORTANCE:
        return not is_stopped(report)
    return figure.title != TRAINING


def _make_tables(report: Mapping[str, Any], files: TaskFiles, column: str) -> Iterator[Table]:
    """Yield the tables of one model and target: comparisons, predictions, important ASVs."""
    if report["comparisons"]:
        if "super_learner" in report:
            yield comparison_table("Super learner", report["super_learner"], report["kind"])
        label = capitalize(model_label(report))
        yield comparison_table(label, report, report["kind"])
    intervals = by_target(files.intervals)[column]
    title = f"Cross-validated predictions of {leading_name(report)}"
    yield from_frame(title, intervals, "intervals.tsv")
    if files.importance is not None and not is_stopped(report):
        most = files.importance.head(MOST_ASVS)
        what, _ = target_and_unit(report)
        title = importances.title_most_important(model_label(report), what)
        yield from_frame(title, most, "importance.tsv")
    for name, table in files.predictions.items():
        yield prediction_table(f"Predictions for {name}", table)


def _write_commands(
    report: Mapping[str, Any], importance: pd.DataFrame | None
) -> Iterator[Commands]:
    """Yield what names the most important ASVs, where they are shown without taxa."""
    if importance is None or TAXON in importance or is_stopped(report):
        return
    fasta = f"finetune/{report['model']}/{report['task'].partition(', ')[0]}/{TOP_ASVS}"
    yield Commands(
        importances.title_names_of_top_asvs(),
        importances.explain_commands_for_names(),
        [
            "qiime tools import --type 'FeatureData[Sequence]' "
            f"--input-path {shlex.quote(fasta)} --output-path top-asvs.qza",
            "qiime feature-classifier classify-sklearn --i-classifier classifier.qza "
            "--i-reads top-asvs.qza --o-classification taxonomy.qza",
        ],
    )
