"""What was learned from a dataset: a page with all of it, and the answers as Markdown."""

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from aam.config.figures import PLOTS
from aam.config.names import name_models
from aam.data.predictions import NEAR_READS, UNSEEN_ASVS, read_results
from aam.data.sequences import read_fasta
from aam.data.table import FeatureTable, read_biom
from aam.evaluate.task_report import TaskReport
from aam.report.duration import NETWORK_PARTS, Work, expected_parts
from aam.report.labels import capitalize
from aam.report.page.answers import is_baseline, judge_all, label_reports, write_short_answer
from aam.report.page.cautions import (
    Caution,
    list_cautions,
    list_encoder_cautions,
    list_prediction_cautions,
    list_rarefaction_cautions,
)
from aam.report.page.details import encoder_sentences, left_out_sentences
from aam.report.page.mappings import page_report, split_targets
from aam.report.page.methods import MethodsText, methods_text
from aam.report.page.networks import network_sentences
from aam.report.page.render import (
    EncoderSection,
    PageFigure,
    Results,
    render_caption,
    render_page,
    render_summary,
)
from aam.report.page.sections import TRAINING, TaskFiles, task_sections
from aam.report.page.tables import Table, in_training, with_few_near
from aam.util.atomic import read_json, write_text
from aam.util.errors import first_few
from aam.util.notes import Note, read_notes
from aam.version import __version__

PACKAGES = "scikit-learn", "scikit-bio", "numpy", "snakemake"
"""Whose versions the methods name; with networks also that of PyTorch."""
FIRST = "first"
"""Folder of the predictions of baselines, below `predict`."""
Report = Mapping[str, Any]


def write_summary(
    *,
    finetune: Sequence[Path] = (),
    intervals: Sequence[Path] = (),
    importance: Sequence[Path] = (),
    pretrain: Sequence[Path] = (),
    predictions: Sequence[Path] = (),
    accuracy: Path | None = None,
    dropped: Sequence[Path] = (),
    notes: Sequence[Path] = (),
    figures: Sequence[Path] = (),
    table: Path,
    sequences: Path | None = None,
    depth: int,
    views: int,
    drops_long_branches: bool,
    metrics: Sequence[str],
    models: Mapping[str, Mapping[str, Any]],
    tasks: Mapping[str, Mapping[str, Any]],
    networks: Mapping[str, Any] | None = None,
    captions: Mapping[str, str],
    summary_out: Path,
    report_out: Path,
) -> None:
    """Write the page and the summary into the folder of the dataset's results.

    Parameters
    ----------
    finetune, intervals, importance
        Scores (JSON), tables of intervals (TSV) and of importance (TSV) of the tasks, of models or
        of first answers.
    pretrain
        JSON files of scores of the encoders.
    predictions
        TSV files of predictions for other tables.
    accuracy
        TSV file of the accuracy of all methods.
    dropped
        TSV files of what was left out.
    notes
        TSV files of what was decided for the user, those of the table first.
    figures
        SVG files below `figures`.
    table
        BIOM file of the imported table.
    sequences
        FASTA file of the imported table, where the time that networks take is to be estimated.
    depth, views
        Reads that were drawn from each sample, and how often.
    drops_long_branches
        Whether ASVs behind long branches were left out before reads were drawn.
    metrics
        Names of the metrics that were computed.
    models, tasks, networks
        What the methods name of them: the keys of `aam.config.slices.summary` and, where networks
        are still to come, of `first_page`.
    captions
        Captions of all figures by their names.
    summary_out
        Markdown file to write, into the folder of the dataset's results.
    report_out
        HTML file to write.
    """
    root = summary_out.parent
    settings = {
        "depth": depth,
        "views": views,
        "drops_long_branches": drops_long_branches,
        "metrics": metrics,
        "models": models,
        "tasks": tasks,
    }
    shown = dict(_figures(captions, settings, root, figures))
    records = _Records.read(root, pretrain, finetune, predictions, dropped, shown)
    imported = read_biom(table)
    decided = _decisions(notes)
    results = Results(
        dataset=root.name,
        tasks=list(task_sections(_task_files(records, intervals, importance))),
        encoders=_encoder_sections(records),
        cautions=[
            *_limits(records, imported=len(imported.sample_ids)),
            *(Caution("caution", note.text) for note in decided if note.is_caution),
        ],
        decisions=[note.text for note in decided if not note.is_caution],
        networks=list(_network_lines(networks, tasks, imported, sequences, records.reports)),
        left_out=list(
            left_out_sentences(records.left_out.values(), drops_long_branches=drops_long_branches)
        ),
        data_figures=_below(records.figures, "rarefaction"),
        methods=_methods(settings, records),
        files=_linked_files(records, accuracy),
        made_from=_made_from(records),
    )
    write_text(report_out, render_page(results))
    write_text(summary_out, render_summary(results, page=report_out.name))


@dataclass(frozen=True, eq=False)
class _Records:
    """What the files of a dataset's results hold."""

    root: Path
    """Folder of the results."""
    encoder_files: Mapping[Path, Report]
    """Scores of the encoders, by file."""
    task_files: Mapping[Path, Report]
    """Scores of the tasks, by file."""
    predictions: Mapping[Path, pd.DataFrame]
    """Predictions for other tables, by file."""
    left_out: Mapping[Path, pd.DataFrame]
    """What was left out, by file."""
    figures: Mapping[str, PageFigure]
    """Figures by their path below `figures/`."""

    @classmethod
    def read(
        cls,
        root: Path,
        pretrain: Sequence[Path],
        finetune: Sequence[Path],
        predictions: Sequence[Path],
        dropped: Sequence[Path],
        figures: Mapping[str, PageFigure],
    ) -> "_Records":
        """Read what the stages wrote.

        Parameters
        ----------
        root
            Folder of the dataset's results.
        pretrain
            `scores.json` of each encoder.
        finetune
            `scores.json` of each task, or of its first answer.
        predictions, dropped
            Tables of predictions for other tables, and of samples that were left out.
        figures
            Figures by their path below `figures/`, without its ending.
        """
        return cls(
            root=root,
            encoder_files={path: read_json(path) for path in pretrain},
            task_files={path: page_report(TaskReport.read(path)) for path in finetune},
            predictions={path: read_results(path) for path in predictions},
            left_out={path: read_results(path) for path in dropped},
            figures=figures,
        )

    @property
    def encoders(self) -> dict[str, Report]:
        """Scores of the encoders by the name of the model."""
        return {path.parent.name: report for path, report in self.encoder_files.items()}

    @property
    def reports(self) -> list[Report]:
        """Scores of the tasks."""
        return list(self.task_files.values())

    @property
    def scored(self) -> dict[Path, Report]:
        """Scores of encoders and tasks, by file."""
        return {**self.encoder_files, **self.task_files}


def closing_summary(
    page: Path,
    scores: Sequence[Path],
    *,
    notes: Sequence[Path] = (),
    left_over: Sequence[str] = (),
) -> str:
    """Return what a run ends with, in a few lines.

    Parameters
    ----------
    page
        The page that the run wrote, in the folder of the dataset's results.
    scores
        `scores.json` of each task on the page, those of the first task first. Others in that
        folder are of tasks that nobody asked for.
    notes
        TSV files of what was decided for the user, of which the cautions are named.
    left_over
        Folders of such tasks, below the folder of the dataset.

    Returns
    -------
    str
        The lines.
    """
    dataset = page.parent.name
    unasked = []
    if left_over:
        shown = f"{first_few(left_over)} in {page.parent}"
        unasked = [f"Not asked for any more, and not on the page: {shown}"]
    if not scores:
        return "\n".join([f"{dataset}: open {page} in a browser", *unasked])
    reports = label_reports([page_report(TaskReport.read(path)) for path in scores])
    verdict = judge_all(reports)[0]
    light = list_cautions(reports[0], verdict)[0]
    number = len({report["task"] for report in reports})
    every = f", which has all {number} tasks" if number > 1 else ""
    lines = [
        f"{dataset}, {reports[0]['task']}: {write_short_answer(reports[0], verdict)}",
        f"Light: {light.light}. {light.text}",
        *(f"Light: caution. {note.text}" for note in _decisions(notes) if note.is_caution),
        f"Page{every}: open {page} in a browser",
        *unasked,
    ]
    return "\n".join(lines)


def closing_predictions(paths: Sequence[Path]) -> list[str]:
    """Return what a run ends with on tables that it predicted, a line for each of their lights.

    Parameters
    ----------
    paths
        TSV files of predictions for other tables. Those that do not exist are left out.

    Returns
    -------
    list of str
        None where nothing limits the trust in the predictions, and nothing was decided.
    """
    predictions = {path: read_results(path) for path in paths if path.is_file()}
    cautions = list(_prediction_limits(predictions))
    notes = [note for path in predictions if (note := path.with_suffix(".notes.tsv")).is_file()]
    return [
        *(f"Predictions, light: {caution.light}. {caution.text}" for caution in cautions),
        *(f"Predictions: {note.text}" for note in _decisions(notes)),
    ]


def _decisions(paths: Sequence[Path]) -> list[Note]:
    """Return what was decided for the user, each decision once: tasks may share some."""
    return list(dict.fromkeys(note for path in paths for note in read_notes(path)))


def _encoder_sections(records: _Records) -> list[EncoderSection]:
    """Return the section of each encoder; one that was not trained has no training curves."""
    labels = name_models(records.encoders)
    sections = []
    for name, report in records.encoders.items():
        shown = _below(records.figures, f"pretrain/{name}/")
        if report["steps"] == 0:
            shown = [figure for figure in shown if figure.title != TRAINING]
        text = " ".join(encoder_sentences(report))
        sections.append(EncoderSection(labels[name], text, shown))
    return sections


def _task_files(
    records: _Records, intervals: Sequence[Path], importance: Sequence[Path]
) -> Iterator[TaskFiles]:
    """Yield what the page shows of each task; tables of a task lie in the folder of its scores."""
    intervals_of = {path.parent: read_results(path) for path in intervals}
    importance_of = {path.parent: read_results(path) for path in importance}
    for path, report in records.task_files.items():
        yield TaskFiles(
            report,
            intervals=intervals_of[path.parent],
            importance=importance_of.get(path.parent),
            figures=_below(records.figures, f"{_link(records.root, path.parent)}/"),
            predictions=_task_predictions(report, records.predictions),
        )


def _task_predictions(
    report: Report, predictions: Mapping[Path, pd.DataFrame]
) -> dict[str, pd.DataFrame]:
    """Return the predictions for other tables by the methods of a task, by the tables' names."""
    method = FIRST if is_baseline(report) else report["model"]
    folder = f"/predict/{method}/{report['task']}/"
    tables = {}
    for path, table in predictions.items():
        _, _, rest = path.as_posix().rpartition(folder)
        if rest:
            mixed = " by the super learner" if "/" in rest else ""
            tables[f"{path.stem}{mixed}"] = table
    return tables


def _network_lines(
    networks: Report | None,
    tasks: Mapping[str, Any],
    table: FeatureTable,
    sequences: Path | None,
    reports: Sequence[Report],
) -> Iterator[str]:
    """Yield what results without networks say of these.

    Parameters
    ----------
    networks
        Models, tasks and what their time depends on; None: the results have networks.
    tasks
        Tasks of the dataset by name.
    table
        The imported table.
    sequences
        FASTA file of its features, where there are models.
    reports
        Scores of the first answers.
    """
    if networks is None:
        return
    models = list(networks["models"])
    seconds = None
    if models:
        assert sequences is not None, "the time of networks depends on the lengths of sequences"
        seconds = _network_seconds(networks, table, sequences, reports)
    yield from network_sentences(reports, models=models, tasks=list(tasks), seconds=seconds)


def _network_seconds(
    networks: Report, table: FeatureTable, sequences: Path, reports: Sequence[Report]
) -> float:
    """Return about how long the networks of a study take, in whole minutes."""
    longest_bp = max(map(len, read_fasta(sequences).values()))
    labels = {report["task"]: (report["n"], len(report["folds"])) for report in reports}
    answered = {name: networks["tasks"][name] for name in labels}
    asked = {**networks, "tasks": answered}
    work = Work.from_table(asked, table, longest_bp)
    parts = expected_parts(asked, work, labels)
    seconds = sum(part.seconds for part in parts if part.kind in NETWORK_PARTS)
    return 60.0 * math.ceil(seconds / 60.0)


def _limits(records: _Records, *, imported: int) -> Iterator[Caution]:
    """Yield what limits the trust in all tasks; `imported` is the number of imported samples."""
    lost = sum(len(table) for table in records.left_out.values() if "depth" in table)
    yield from list_rarefaction_cautions(lost, imported)
    labels = name_models(records.encoders)
    for name, report in records.encoders.items():
        yield from list_encoder_cautions(labels[name], report)
    yield from _prediction_limits(records.predictions)


def _prediction_limits(predictions: Mapping[Path, pd.DataFrame]) -> Iterator[Caution]:
    """Yield what limits the trust in predictions for other tables.

    The models of all tasks may know a table differently: the worst is named, once per table.
    """
    by_table: dict[str, list[pd.DataFrame]] = {}
    for path, frame in predictions.items():
        by_table.setdefault(path.stem, []).append(frame)
    for name, frames in by_table.items():
        few = [frame.loc[with_few_near(frame), "sample-id"].tolist() for frame in frames]
        # Samples with few near reads have a light of their own.
        others = [frame[~np.array(with_few_near(frame), bool)] for frame in frames]
        near = [_mean(frame[NEAR_READS]) for frame in others if NEAR_READS in frame]
        yield from list_prediction_cautions(
            name,
            unseen=max(_mean(frame[UNSEEN_ASVS]) for frame in others),
            seen=max(sum(in_training(frame)) for frame in frames),
            n=len(frames[0]),
            few=max(few, key=len),
            near=min(near, default=None),
        )


def _mean(values: pd.Series) -> float:
    """Return the mean; 0 of nothing."""
    return float(values.mean()) if len(values) else 0.0


def _figures(
    captions: Mapping[str, str], settings: Report, root: Path, paths: Sequence[Path]
) -> Iterator[tuple[str, PageFigure]]:
    """Yield the path of each figure below `figures/` without its ending, and the figure."""
    drawn = [figure for plot in PLOTS.values() for figure in plot.figures]
    for path in paths:
        stem = path.relative_to(root / "figures").with_suffix("").as_posix()
        for figure in drawn:
            pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(figure.path_stem))
            match = re.fullmatch(pattern, stem)
            if match is not None:
                text = render_caption(captions[figure.caption], match.groupdict(), settings)
                svg = path.read_text(encoding="utf-8")
                yield stem, PageFigure(capitalize(figure.title), text, svg)


def _below(figures: Mapping[str, PageFigure], start: str) -> list[PageFigure]:
    return [figure for stem, figure in figures.items() if stem.startswith(start)]


def _link(root: Path, path: Path) -> str:
    """Return the path of a file as the page links to it: from the folder of the results."""
    return Path(os.path.relpath(path, root)).as_posix()


def _linked_files(records: _Records, accuracy: Path | None) -> list[str]:
    """Return the links to all tables and scores, that of the accuracy of all methods first."""
    paths = [] if accuracy is None else [accuracy]
    paths += [*records.left_out, *records.predictions, *records.scored]
    return [_link(records.root, path) for path in paths]


def _methods(settings: Report, records: _Records) -> MethodsText:
    """Return the methods, by settings and by what was counted."""
    packages = [*(["torch"] if records.encoders else []), *PACKAGES]
    return methods_text(
        settings,
        records.encoders,
        reports=split_targets(records.reports),
        versions={"aam": __version__, **{name: version(name) for name in packages}},
    )


def _made_from(records: _Records) -> Table:
    """Return the version and the digest of the settings that each file of scores says of itself."""
    rows = []
    for path, report in records.scored.items():
        made = report.get("provenance", {})
        digest = made.get("aam.settings", "")[:16]
        rows.append([_link(records.root, path), made.get("aam.version", "")[:16], digest])
    return Table("What made the scores", ["file", "version", "digest of the settings"], rows)
