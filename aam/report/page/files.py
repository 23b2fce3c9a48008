"""The files that a page is written from, and what each is of."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pandas as pd

from aam.config.figures import PLOTS
from aam.config.settings.page import PageSettings
from aam.data.nouns import OF_ASVS, Nouns
from aam.data.predictions import read_results
from aam.evaluate.task_report import TaskReport
from aam.report.labels import capitalize
from aam.report.page.render import PageFigure, render_caption
from aam.report.page.sections import AnswerFiles

FIGURES = {figure.path_stem: figure for plot in PLOTS.values() for figure in plot.figures}
"""All figures by their paths with wildcards."""


@dataclass(frozen=True)
class PageFile:
    """A file that the page shows, and what it is of."""

    path: Path
    model: str = ""
    """Name of the model, or `aam.config.names.FIRST`."""
    task: str = ""
    table: str = ""
    """Name of the table that was predicted."""
    method: str = ""
    """What predicted it, where that is not the model alone."""
    figure: str = ""
    """A key of `FIGURES`."""


@dataclass(frozen=True, kw_only=True)
class PageFiles:
    """All files that a page is written from; more are known later in a run."""

    scores: Sequence[PageFile] = ()
    """JSON files of the scores of all answers, in the order of the page."""
    cross_validated: Sequence[PageFile] = ()
    """TSV files of the cross-validated predictions of all answers."""
    clades: Sequence[PageFile] = ()
    """TSV files of the clades that labels depend on, of the tasks of all answers."""
    clade_features: Sequence[PageFile] = ()
    """TSV files of the features of these clades."""
    clade_losses: Sequence[PageFile] = ()
    """TSV files of what the answers, or their networks, lose without these clades."""
    importance: Sequence[PageFile] = ()
    """TSV files of the importance of ASVs, of the answers that are explained."""
    encoders: Sequence[PageFile] = ()
    """JSON files of the scores of pretraining."""
    predictions: Sequence[PageFile] = ()
    """TSV files of predictions for other tables."""
    effects: Sequence[PageFile] = ()
    """TSV files of the clades that moved them."""
    figures: Sequence[PageFile] = ()
    """SVG files."""
    accuracy: Path | None = None
    """TSV file of the scores of all methods."""
    dropped: Sequence[Path] = ()
    """TSV files of what was left out."""
    notes: Sequence[Path] = ()
    """TSV files of what was decided for the user, those of the table first."""
    table: Path
    """BIOM file of the imported table."""
    sequences: Path | None = None
    """FASTA file of its features, where the time that networks take is to be estimated."""

    @classmethod
    def of(cls, inputs: Mapping[str, Any], settings: PageSettings) -> Self:
        """Return the inputs of a rule, with what it says that they are of.

        Parameters
        ----------
        inputs
            Files by the names of this class.
        settings
            `files` has what each of a kind is of, in the same order.
        """
        described = {}
        for kind, facts in settings.files.items():
            pairs = zip(inputs.get(kind, []), facts, strict=True)
            described[kind] = [PageFile(path, **of) for path, of in pairs]
        return cls(**{**inputs, **described})

    @property
    def scored(self) -> list[Path]:
        """The scores of encoders and answers."""
        return [file.path for file in (*self.encoders, *self.scores)]

    @property
    def linked(self) -> list[Path]:
        """All tables and scores, the accuracy of all methods first."""
        accuracy = [] if self.accuracy is None else [self.accuracy]
        tables = [file.path for file in (*self.predictions, *self.effects)]
        return [*accuracy, *self.dropped, *tables, *self.scored]


def read_figure(
    file: PageFile, settings: PageSettings, nouns: Nouns = OF_ASVS, *, root: Path
) -> PageFigure:
    """Return a figure with the caption that Snakemake's report has, too.

    Parameters
    ----------
    file
        One of the figures of a page.
    settings
        What captions name of the configuration, and the captions.
    nouns
        What features are called.
    root
        Folder of the page.
    """
    figure = FIGURES[file.figure]
    wildcards = {"model": file.model, "answer": file.model, "task": file.task}
    text = render_caption(settings.captions[figure.caption], wildcards, settings.plain())
    title = capitalize(nouns.rename_asvs(figure.title))
    return PageFigure(
        title,
        nouns.rename_asvs(text),
        svg=file.path.read_text(encoding="utf-8"),
        link=link_to(file.path, root),
    )


def link_to(path: Path, root: Path) -> str:
    """Return the path of a file as a page links to it.

    Parameters
    ----------
    path
        The file.
    root
        Folder of the page.
    """
    return Path(os.path.relpath(path, root)).as_posix()


def select_figures(
    figures: Iterable[tuple[PageFile, PageFigure]],
    name: str = "",
    *,
    model: str = "",
    task: str = "",
) -> list[PageFigure]:
    """Return the figures of a name, or of a model and a task."""
    chosen = []
    for file, figure in figures:
        if (file.model, file.task) == (model, task) and name in ("", file.figure):
            chosen.append(figure)
    return chosen


def read_answers(
    files: PageFiles,
    figures: Sequence[tuple[PageFile, PageFigure]],
    predictions: Sequence[tuple[PageFile, pd.DataFrame]],
) -> Iterator[AnswerFiles]:
    """Yield what the page shows of each answer."""
    cross_validated = {(file.model, file.task): file.path for file in files.cross_validated}
    importance = {(file.model, file.task): file.path for file in files.importance}
    clades = {file.task: file.path for file in files.clades}
    features = {file.task: file.path for file in files.clade_features}
    losses = {(file.model, file.task): file.path for file in files.clade_losses}
    for file in files.scores:
        of = (file.model, file.task)
        predicted = {}
        for other, frame in predictions:
            if (other.model, other.task) == of:
                by_method = f" by the {other.method}" if other.method else ""
                predicted[f"{other.table}{by_method}"] = frame
        yield AnswerFiles(
            TaskReport.read(file.path),
            cross_validated=read_results(cross_validated[of]),
            clades=read_results(clades[file.task]) if file.task in clades else None,
            clade_features=read_results(features[file.task]) if file.task in features else None,
            clade_losses=read_results(losses[of]) if of in losses else None,
            importance=read_results(importance[of]) if of in importance else None,
            figures=select_figures(figures, model=file.model, task=file.task),
            predictions=predicted,
            effects={
                other.table: read_results(other.path)
                for other in files.effects
                if (other.model, other.task) == of
            },
        )
