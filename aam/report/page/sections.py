"""What the page has of each task: its answer, lights, sentences, figures and tables."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from aam.data.predictions import by_target
from aam.evaluate.importance import TAXON, TOP_ASVS
from aam.report.labels import capitalize
from aam.report.page.answers import (
    is_stopped,
    judge_all,
    label_reports,
    leading_name,
    model_label,
    target_and_unit,
    write_answer,
)
from aam.report.page.cautions import list_cautions
from aam.report.page.details import task_sentences, trains_networks
from aam.report.page.mappings import accuracy_rows
from aam.report.page.render import Commands, PageFigure, TaskSection
from aam.report.page.tables import (
    Table,
    comparison_table,
    from_frame,
    prediction_table,
    score_table,
    subset_tables,
)

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
        What was written of each task and model of the page: verdicts are corrected for their
        number, and the names of models depend on how many there are.
    """
    files = {}
    for task_files in all_files:
        files[task_files.report["model"], task_files.report["task"]] = task_files
    reports = [task_files.report for task_files in files.values()]
    labelled = label_reports(reports)
    judged = list(zip(labelled, judge_all(labelled), strict=True))
    # A task of several targets has a section for each, named `task, column`.
    for name, scores in accuracy_rows(reports).groupby("task", sort=False):
        members = [(report, verdict) for report, verdict in judged if report["task"] == name]
        of_task = [report for report, _ in members]
        shared = [score_table(scores, of_task[0]["kind"], of_task), *subset_tables(of_task)]
        for report, verdict in members:
            task, _, column = report["task"].partition(", ")
            model_files = files[report["model"], task]
            yield TaskSection(
                name=str(name),
                model=model_label(report) if len(members) > 1 else "",
                answer=write_answer(report, verdict),
                cautions=list_cautions(report, verdict),
                sentences=list(
                    task_sentences(report, is_explained=model_files.importance is not None)
                ),
                figures=[figure for figure in model_files.figures if _is_shown(figure, report)],
                training=_training_curves(report, model_files.figures),
                tables=[*shared, *_make_tables(report, model_files, column)],
                commands=list(_write_commands(report, model_files.importance)),
            )


def _training_curves(report: Mapping[str, Any], figures: Iterable[PageFigure]) -> list[PageFigure]:
    """Return the training curves of a task in which a network was trained."""
    if not trains_networks(report):
        return []
    return [figure for figure in figures if figure.title == TRAINING]


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
        title = f"The ASVs that matter most to the {model_label(report)} model for {what}"
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
        "Names for the most important ASVs",
        "This study has no taxonomy. In QIIME 2 these commands name the most important ASVs; "
        "classifier.qza is one that was trained for the region of your primers. For names on this "
        "page, set the key taxonomy of the dataset to the result and run again.",
        [
            "qiime tools import --type 'FeatureData[Sequence]' "
            f"--input-path {shlex.quote(fasta)} --output-path top-asvs.qza",
            "qiime feature-classifier classify-sklearn --i-classifier classifier.qza "
            "--i-reads top-asvs.qza --o-classification taxonomy.qza",
        ],
    )
