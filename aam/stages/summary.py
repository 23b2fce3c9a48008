"""What was learned from a dataset: a page with all of it, and the answers as Markdown."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd

from aam.config.figures import PLOTS
from aam.config.names import name_models
from aam.config.questions import question_of
from aam.config.sections.model import LINEAGE
from aam.config.settings.describe import RunPlan
from aam.config.settings.page import PageModel, PageSettings
from aam.data.lineages import SPELLED_BP
from aam.data.nouns import Nouns
from aam.data.outlier_branches import without_dropped_branches
from aam.data.predictions import NEAR_READS, UNSEEN_ASVS, read_results
from aam.data.sequences import read_fasta
from aam.data.table import ASV_READS, FeatureTable, TableFacts, read_biom
from aam.evaluate.task_report import TaskReport
from aam.report.duration import NETWORK_PARTS, Work, expected_parts
from aam.report.page.answers import (
    Answer,
    list_answers,
    write_brief_answer,
    write_short_answer,
)
from aam.report.page.cautions import (
    Caution,
    list_cautions,
    list_encoder_cautions,
    list_prediction_cautions,
)
from aam.report.page.details import left_out_sentences
from aam.report.page.encoders import EncoderReport, encoder_sentences
from aam.report.page.files import (
    PageFile,
    PageFiles,
    link_to,
    read_answers,
    read_figure,
    select_figures,
)
from aam.report.page.methods import methods_text
from aam.report.page.networks import describe_networks
from aam.report.page.render import (
    EncoderSection,
    PageFigure,
    Results,
    render_page,
    render_summary,
)
from aam.report.page.sections import TRAINING, task_sections
from aam.report.page.tables import Table, in_training, with_few_near
from aam.report.page.unseen_studies import write_studies
from aam.util.atomic import write_text
from aam.util.errors import first_few
from aam.util.notes import Note, read_notes
from aam.version import __version__

MOST_CLOSING = 10
"""Answers that a run ends with; of more it counts the verdicts."""
PACKAGES = "scikit-learn", "scikit-bio", "numpy", "snakemake"
"""Whose versions the methods name; with networks also that of PyTorch."""


def write_summary(
    *,
    files: PageFiles,
    settings: PageSettings,
    summary_out: Path,
    report_out: Path,
) -> None:
    """Write the page and the summary into the folder of the dataset's results.

    Parameters
    ----------
    files
        What was made of the dataset.
    settings
        What the page names of the configuration.
    summary_out
        Markdown file to write, into the folder of the dataset's results.
    report_out
        HTML file to write.
    """
    root = summary_out.parent
    table = read_biom(files.table)
    nouns = Nouns.of_table(table.facts)
    figures = [(file, read_figure(file, settings, nouns, root=root)) for file in files.figures]
    predictions = [(file, read_results(file.path)) for file in files.predictions]
    answers = list(read_answers(files, figures, predictions))
    reports = [answer.report for answer in answers]
    encoders = {file.model: EncoderReport.read(file.path) for file in files.encoders}
    left_out = [read_results(path) for path in files.dropped]
    decided = _decisions(files.notes, drops_long_branches=settings.drops_long_branches)
    packages = [*(["torch"] if encoders else []), *PACKAGES]
    results = Results(
        dataset=root.name,
        tasks=list(task_sections(answers, nouns)),
        encoders=list(_write_encoder_sections(encoders, settings.models, figures)),
        cautions=[
            *_encoder_limits(encoders),
            *_prediction_limits(predictions, table.facts),
            *(Caution("caution", note.text) for note in decided if note.is_caution),
        ],
        decisions=[note.text for note in decided if not note.is_caution],
        networks=_describe_networks(settings, table, files.sequences, reports),
        rarefied=Nouns.of_table(table.facts).many if table.facts.is_counted else "",
        left_out=list(
            left_out_sentences(
                left_out,
                drops_long_branches=settings.drops_long_branches,
                nouns=Nouns.of_table(table.facts),
            )
        ),
        data_figures=select_figures(figures, PLOTS["rarefaction"].figures[0].path_stem),
        methods=methods_text(
            settings,
            encoders,
            answers=list_answers(reports),
            versions={"aam": __version__, **{name: version(name) for name in packages}},
            facts=table.facts,
        ),
        files=[link_to(path, root) for path in files.linked],
        made_from=_name_origins(root, files, [*encoders.values(), *reports]),
    )
    write_text(report_out, render_page(results))
    write_text(summary_out, render_summary(results, page=report_out.name))


def closing_summary(
    page: Path,
    scores: Sequence[Path],
    *,
    notes: Sequence[Path] = (),
    drops_long_branches: bool = False,
    left_over: Sequence[str] = (),
    older: Sequence[str] = (),
) -> str:
    """Return what a run ends with, in a few lines.

    Parameters
    ----------
    page
        The page that the run wrote, in the folder of the dataset's results.
    scores
        `scores.json` of each answer on the page, in the order of the tasks. Others in that folder
        are of tasks that nobody asked for.
    notes
        TSV files of what was decided for the user, of which the cautions are named.
    drops_long_branches
        Whether ASVs behind long branches are left out before reads are drawn.
    left_over
        Folders of such tasks, below the folder of the dataset.
    older
        Files and folders that an older version wrote.

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
    if older:
        shown = f"{first_few(older)} in {page.parent}"
        unasked.append(f"Left over from an older version, and not read: {shown}")
    if not scores:
        return "\n".join([f"{dataset}: open {page} in a browser", *unasked])
    answers = list_answers([TaskReport.read(path) for path in scores])
    decided = _decisions(notes, drops_long_branches=drops_long_branches)
    lines = [
        *(f"{dataset}, {line}" for line in _closing_answers(answers)),
        *(f"Light: caution. {note.text}" for note in decided if note.is_caution),
        f"Page: open {page} in a browser",
        *unasked,
    ]
    return "\n".join(lines)


def _closing_answers(answers: Sequence[Answer]) -> Iterator[str]:
    """Yield the one answer of a page with its light, or a line for each of several."""
    if len(answers) == 1:
        light = list_cautions(answers[0])[0]
        yield f"{answers[0].name}: {write_short_answer(answers[0])}"
        yield from filter(None, [write_studies(answers[0])])
        yield f"light: {light.light}. {light.text}"
        return
    several = len({answer.key for answer in answers}) < len(answers)
    for answer in answers[:MOST_CLOSING]:
        by = f", {answer.networks}" if several and answer.networks else ""
        yield f"{answer.name}{by}: {write_brief_answer(answer)}"
    others = Counter(answer.verdict.outcome for answer in answers[MOST_CLOSING:])
    if others:
        yield "further tasks: " + ", ".join(f"{word} ({n})" for word, n in others.items())


def closing_predictions(paths: Sequence[Path], table: Path | None = None) -> list[str]:
    """Return what a run ends with on tables that it predicted, a line for each of their lights.

    Parameters
    ----------
    paths
        TSV files of predictions for other tables, named after these. Those that do not exist are
        left out.
    table
        BIOM file of the table of training, which says what its features are called; None: ASVs.

    Returns
    -------
    list of str
        Empty where nothing limits the trust in the predictions, and nothing was decided.
    """
    files = [PageFile(path, table=path.stem) for path in paths if path.is_file()]
    facts = ASV_READS if table is None else read_biom(table).facts
    results = [(file, read_results(file.path)) for file in files]
    cautions = list(_prediction_limits(results, facts))
    notes = [note for file in files if (note := file.path.with_suffix(".notes.tsv")).is_file()]
    return [
        *(f"Predictions, light: {caution.light}. {caution.text}" for caution in cautions),
        *(f"Predictions: {note.text}" for note in _decisions(notes)),
    ]


def _decisions(paths: Sequence[Path], *, drops_long_branches: bool = False) -> list[Note]:
    """Return what was decided for the user, each decision once: tasks may share some."""
    notes = dict.fromkeys(note for path in paths for note in read_notes(path))
    return without_dropped_branches(notes, is_dropped=drops_long_branches)


def _write_encoder_sections(
    encoders: Mapping[str, EncoderReport],
    models: Mapping[str, PageModel],
    figures: Sequence[tuple[PageFile, PageFigure]],
) -> Iterator[EncoderSection]:
    """Yield the section of each encoder; one that was not trained has no training curves."""
    labels = name_models(encoders)
    for name, report in encoders.items():
        shown = select_figures(figures, model=name)
        if report.steps == 0:
            shown = [figure for figure in shown if figure.title != TRAINING]
        reads_lineages = models[name].encoder == LINEAGE
        text = " ".join(encoder_sentences(report, reads_lineages=reads_lineages))
        yield EncoderSection(labels[name], text, shown)


def _describe_networks(
    settings: PageSettings,
    table: FeatureTable,
    sequences: Path | None,
    reports: Sequence[TaskReport],
) -> str:
    """Return what results without networks say of these; others say nothing."""
    if settings.networks.state == "shown":
        return ""
    if not table.facts.is_counted:
        what = Nouns.of_table(table.facts).many
        return f"Networks were not trained: they learn from reads, and these are amounts of {what}."
    models: list[str] = []
    seconds = None
    plan = settings.networks.plan
    if plan is not None:
        models = list(plan.models)
        seconds = _network_seconds(plan, table, sequences, reports)
    return describe_networks(
        reports,
        models=models,
        tasks=[name for name in settings.tasks if question_of(name) is None],
        seconds=seconds,
        reads_lineages=not table.facts.has_sequences,
    )


def _network_seconds(
    plan: RunPlan,
    table: FeatureTable,
    sequences: Path | None,
    reports: Sequence[TaskReport],
) -> float:
    """Return about how long the networks of a study take, in whole minutes."""
    longest_bp = SPELLED_BP
    if table.facts.has_sequences:
        assert sequences is not None, "the time of networks depends on the lengths of sequences"
        longest_bp = max(map(len, read_fasta(sequences).values()))
    labels = {}
    for report in reports:
        best = report.targets[0].best
        labels[report.task] = (best.n, len(best.folds))
    answered = {name: plan.tasks[name] for name in labels}
    asked = plan.model_copy(update={"tasks": answered})
    work = Work.from_table(asked, table, longest_bp)
    parts = expected_parts(asked, work, labels)
    seconds = sum(part.seconds for part in parts if part.kind in NETWORK_PARTS)
    return 60.0 * math.ceil(seconds / 60.0)


def _encoder_limits(encoders: Mapping[str, EncoderReport]) -> Iterator[Caution]:
    """Yield what limits the trust in encoders."""
    labels = name_models(encoders)
    for name, report in encoders.items():
        yield from list_encoder_cautions(labels[name], report)


def _prediction_limits(
    predictions: Sequence[tuple[PageFile, pd.DataFrame]],
    facts: TableFacts = ASV_READS,
) -> Iterator[Caution]:
    """Yield what limits the trust in predictions for other tables.

    The models of all tasks may know a table differently: the worst is named, once per table.
    """
    by_table: dict[str, list[pd.DataFrame]] = {}
    for file, frame in predictions:
        by_table.setdefault(file.table, []).append(frame)
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
            facts=facts,
        )


def _mean(values: pd.Series) -> float:
    """Return the mean; 0 of nothing."""
    return float(values.mean()) if len(values) else 0.0


def _name_origins(
    root: Path, files: PageFiles, reports: Sequence[EncoderReport | TaskReport]
) -> Table:
    """Return the version and the digest of the settings that each file of scores says of itself."""
    rows = []
    for path, report in zip(files.scored, reports, strict=True):
        made = report.provenance
        digest = made.get("aam.settings", "")[:16]
        rows.append([link_to(path, root), made.get("aam.version", "")[:16], digest])
    return Table("What made the scores", ["file", "version", "digest of the settings"], rows)
