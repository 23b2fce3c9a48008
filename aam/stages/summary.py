"""What was learned from a dataset: a page with all of it, and the answers as Markdown."""

import math
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from aam import __version__
from aam.config.figures import PLOTS
from aam.config.names import name_models
from aam.data.predictions import read_results
from aam.data.sequences import read_fasta
from aam.data.table import read_biom
from aam.evaluate.scores import split_targets
from aam.report.duration import NETWORK_PARTS, Work, expected_parts
from aam.report.labels import capitalize
from aam.report.page.cautions import (
    Caution,
    list_encoder_cautions,
    list_prediction_cautions,
    list_rarefaction_cautions,
)
from aam.report.page.details import encoder_sentences
from aam.report.page.methods import MethodsText, methods_text
from aam.report.page.networks import network_sentences
from aam.report.page.render import EncoderSection, PageFigure, Results, render_caption, render_page
from aam.report.page.reports import is_baseline
from aam.report.page.result_tables import Table, in_training
from aam.report.page.sections import TRAINING, TaskFiles, task_sections
from aam.report.page.sentences.left_out import describe_left_out
from aam.report.summary import closing_lines, summary_page, terminal_lines
from aam.util.atomic import read_json, write_text
from aam.util.errors import InputError, problem

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
    figures: Sequence[Path] = (),
    table: Path | None = None,
    sequences: Path | None = None,
    depth: int,
    views: int,
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
    figures
        SVG files below `figures`.
    table, sequences
        BIOM and FASTA file of the imported table, from which the time that networks take is
        estimated.
    depth, views
        Reads that were drawn from each sample, and how often.
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
        "metrics": metrics,
        "models": models,
        "tasks": tasks,
    }
    encoders = {path.parent.name: read_json(path) for path in pretrain}
    reports = {path: read_json(path) for path in finetune}
    predicted = {path: read_results(path) for path in predictions}
    left_out = [read_results(path) for path in dropped]
    lost = [sentence for one in left_out for sentence in describe_left_out(one)]
    of_networks = [*_networks(networks, tasks, table, sequences, [*reports.values()])]
    limits = list(_limits(encoders, [*reports.values()], left_out, predicted))
    shown = dict(_figures(captions, settings, root, figures))
    scored = {**dict(zip(pretrain, encoders.values(), strict=True)), **reports}
    labels = name_models(encoders)
    beside = {"intervals": intervals, "importance": importance}
    tables = [*([] if accuracy is None else [accuracy]), *dropped, *predictions]
    results = Results(
        dataset=root.name,
        tasks=list(task_sections(_task_files(root, beside, reports, predicted, shown))),
        encoders=[
            _encoder_section(name, labels[name], found, shown) for name, found in encoders.items()
        ],
        cautions=limits,
        networks=of_networks,
        left_out=lost,
        data_figures=_below(shown, "rarefaction"),
        methods=_methods(settings, encoders, [*reports.values()]),
        files=[_place(root, path) for path in [*tables, *scored]],
        made_from=_made_from({_place(root, path): found for path, found in scored.items()}),
    )
    write_text(report_out, render_page(results))
    markdown = summary_page(
        root.name,
        encoders,
        [*reports.values()],
        limits,
        lost,
        networks=of_networks,
        page=report_out.name,
    )
    write_text(summary_out, markdown)


def terminal_summary(results_dir: Path) -> str:
    """Return a few lines on the results in a folder such as `results/demo`.

    Raises
    ------
    InputError
        If no model has been pretrained there, and no task answered.
    """
    pretrain = sorted(results_dir.glob("pretrain/*/metrics.json"))
    tasks = _reports_in_order(results_dir)
    if not pretrain and not tasks:
        got = "no metrics.json of a model or of a first answer below it"
        hint = "run the workflow first, with `make demo` for instance"
        raise problem(results_dir, got, "the folder of a dataset's results", hint)
    lines = terminal_lines(
        results_dir.name,
        {path.parent.name: read_json(path) for path in pretrain},
        tasks,
    )
    if (results_dir / "report.html").exists():
        lines.append(f"  open in a browser: {results_dir / 'report.html'}")
    return "\n".join(lines)


def closing_summary(page: Path) -> str:
    """Return what a run ends with, in three lines, by the path of the page that it wrote."""
    return "\n".join(closing_lines(page, _reports_in_order(page.parent)))


def _reports_in_order(results_dir: Path) -> list[dict[str, Any]]:
    """Return the scores of all tasks in the order of the configuration.

    That is the order of the accuracy table; tasks that it lacks come last. Without models they are
    those of the first answers.
    """
    of_models = sorted(results_dir.glob("finetune/*/*/metrics.json"))
    paths = of_models or sorted(results_dir.glob("first/*/metrics.json"))
    reports = [read_json(path) for path in paths]
    table = results_dir / "benchmark" / "accuracy.tsv"
    if not table.exists():
        return reports
    names = [name.partition(", ")[0] for name in read_results(table)["task"]]
    order = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return sorted(reports, key=lambda report: order.get(report["task"], len(order)))


def _encoder_section(
    name: str, label: str, report: Report, figures: Mapping[str, PageFigure]
) -> EncoderSection:
    """Return the section of an encoder; one that was not trained has no training curves."""
    shown = _below(figures, f"pretrain/{name}/")
    if report["steps"] == 0:
        shown = [figure for figure in shown if figure.title != TRAINING]
    return EncoderSection(label, " ".join(encoder_sentences(report)), shown)


def _task_files(
    root: Path,
    paths: Mapping[str, Sequence[Path]],
    reports: Mapping[Path, Report],
    predictions: Mapping[Path, pd.DataFrame],
    figures: Mapping[str, PageFigure],
) -> Iterator[TaskFiles]:
    beside = {
        name: {path.parent: read_results(path) for path in of_a_kind}
        for name, of_a_kind in paths.items()
    }
    for path, report in reports.items():
        method = FIRST if is_baseline(report) else report["model"]
        folder = f"{method}/{report['task']}"
        of_others = {}
        for other, table in predictions.items():
            _, _, rest = other.as_posix().rpartition(f"/predict/{folder}/")
            if rest:
                mixed = " by the super learner" if "/" in rest else ""
                of_others[f"{other.stem}{mixed}"] = table
        yield TaskFiles(
            report,
            intervals=beside["intervals"][path.parent],
            importance=beside["importance"].get(path.parent),
            figures=_below(figures, f"{_place(root, path.parent)}/"),
            predictions=of_others,
        )


def _networks(
    networks: Report | None,
    tasks: Mapping[str, Any],
    table: Path | None,
    sequences: Path | None,
    reports: Sequence[Report],
) -> Iterator[str]:
    """Yield what results without networks say of these."""
    if networks is None:
        return
    models = list(networks["models"])
    seconds = None
    if models:
        assert table is not None, "the time of networks rests on the table"
        assert sequences is not None, "and on the lengths of its sequences"
        seconds = _network_seconds(networks, table, sequences, reports)
    yield from network_sentences(reports, models=models, tasks=list(tasks), seconds=seconds)


def _network_seconds(
    networks: Report, table: Path, sequences: Path, reports: Sequence[Report]
) -> float:
    """Return about how long the networks of a study take, in whole minutes."""
    longest_bp = max(map(len, read_fasta(sequences).values()))
    labels = {report["task"]: (report["n"], len(report["folds"])) for report in reports}
    answered = {name: networks["tasks"][name] for name in labels}
    asked = {**networks, "tasks": answered}
    work = Work.from_table(asked, read_biom(table), longest_bp)
    parts = expected_parts(asked, work, labels)
    seconds = sum(part.seconds for part in parts if part.kind in NETWORK_PARTS)
    return 60.0 * math.ceil(seconds / 60.0)


def _limits(
    encoders: Mapping[str, Report],
    reports: Sequence[Report],
    dropped: list[pd.DataFrame],
    predictions: Mapping[Path, pd.DataFrame],
) -> Iterator[Caution]:
    """Yield what limits the trust in all tasks."""
    lost = sum(len(table) for table in dropped if "depth" in table)
    # Without an encoder the labelled samples stand for all that rarefaction kept.
    kept = [found["held_out_samples"] + found["training_samples"] for found in encoders.values()]
    kept = kept or [report["n"] for report in reports]
    yield from list_rarefaction_cautions(lost, max(kept, default=0))
    labels = name_models(encoders)
    for name, found in encoders.items():
        yield from list_encoder_cautions(labels[name], found)
    # The models of all tasks may know a table differently: the worst is told, once per table.
    unseen: dict[str, float] = {}
    seen: dict[str, int] = {}
    samples: dict[str, int] = {}
    for path, table in predictions.items():
        name = path.stem
        unseen[name] = max(unseen.get(name, 0.0), float(table["unseen_asvs"].mean()))
        seen[name] = max(seen.get(name, 0), sum(in_training(table)))
        samples[name] = len(table)
    for name, share in unseen.items():
        yield from list_prediction_cautions(name, unseen=share, seen=seen[name], n=samples[name])


def _figures(
    captions: Mapping[str, str], settings: Report, root: Path, paths: Sequence[Path]
) -> Iterator[tuple[str, PageFigure]]:
    """Yield the place of each figure below `figures/`, and the figure."""
    for path in paths:
        place = path.relative_to(root / "figures").with_suffix("").as_posix()
        for figure in (figure for plot in PLOTS.values() for figure in plot.figures):
            pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(figure.path_stem))
            if found := re.fullmatch(pattern, place):
                said = render_caption(captions[figure.caption], found.groupdict(), settings)
                svg = path.read_text(encoding="utf-8")
                yield place, PageFigure(capitalize(figure.title), said, svg)


def _below(figures: Mapping[str, PageFigure], start: str) -> list[PageFigure]:
    return [figure for place, figure in figures.items() if place.startswith(start)]


def _place(root: Path, path: Path) -> str:
    return Path(os.path.relpath(path, root)).as_posix()


def _methods(
    settings: Report, encoders: Mapping[str, Report], reports: Sequence[Report]
) -> MethodsText:
    """Return the methods, by settings and by what was counted."""
    packages = [*(["torch"] if encoders else []), *PACKAGES]
    return methods_text(
        settings,
        encoders,
        reports=split_targets(reports),
        versions={"aam": __version__, **{name: version(name) for name in packages}},
    )


def _made_from(scored: Mapping[str, Report]) -> Table:
    """Return the version and the digest of the settings that each file of scores says of itself."""
    made = {place: found.get("provenance", {}) for place, found in scored.items()}
    keys = "aam.version", "aam.settings"
    rows = [[place, *(one.get(key, "")[:16] for key in keys)] for place, one in made.items()]
    return Table("What made the scores", ["file", "version", "digest of the settings"], rows)


if __name__ == "__main__":
    try:
        print(terminal_summary(Path(sys.argv[1])))
    except InputError as error:
        sys.exit(str(error))
