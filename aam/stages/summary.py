"""What was learned from a dataset: a page with all of it, and the answers as Markdown."""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from aam import __version__
from aam.config.figures import PLOTS
from aam.evaluate.page import answers, result_tables, words
from aam.evaluate.page.answers import Caution
from aam.evaluate.page.render import OfEncoder, OfTask, Results, Shown, caption, page
from aam.evaluate.page.result_tables import Table
from aam.evaluate.predictions import by_target
from aam.evaluate.summary import by_task, summary_page, terminal_lines
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.stages.plot import NAMES
from aam.util.atomic import read_json, write_text
from aam.util.errors import InputError, problem

PACKAGES = "torch", "scikit-learn", "scikit-bio", "numpy", "snakemake"
"""Whose versions the methods name."""
TRAINING = "Training curves"
"""Title of the figures that the page folds away."""
MOST_ASVS = 100
"""ASVs of a table of importance that the page shows."""
Report = Mapping[str, Any]


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Write the page and the summary into the folder of the dataset's results.

    `cfg` is the slice `aam.config.slices.summary`, with the captions of all figures by their names.
    """
    root = outputs["summary"].parent
    encoders = {path.parent.name: read_json(path) for path in inputs["pretrain"]}
    reports = {path: read_json(path) for path in inputs.get("finetune", [])}
    dropped = {path: _table(path) for path in inputs.get("dropped", [])}
    left_out = [sentence for table in dropped.values() for sentence in _sentences(table)]
    shown = list(_figures(cfg, root, inputs.get("figures", [])))
    results = Results(
        dataset=root.name,
        tasks=list(_tasks(reports, shown, inputs.get("predictions", []))),
        encoders=[
            OfEncoder(name, words.on_encoder(found), _of(shown, "pretrain", name))
            for name, found in encoders.items()
        ],
        cautions=list(_cautions(encoders, dropped, inputs.get("predictions", []))),
        left_out=left_out,
        data_figures=_of(shown, "rarefaction"),
        methods=_methods(cfg, encoders, reports.values()),
        files=[
            (path.name, Path(os.path.relpath(path, root)).as_posix())
            for name in ("accuracy", "dropped", "predictions", "finetune", "pretrain")
            for path in _listed(inputs, name)
        ],
        made_from=_made_from(root, [*inputs["pretrain"], *reports]),
    )
    write_text(outputs["report"], page(results))
    tasks = list(reports.values())
    write_text(outputs["summary"], summary_page(root.name, encoders, tasks, left_out))


def terminal_summary(results_dir: Path) -> str:
    """Return a few lines on the results in a folder such as `results/demo`.

    Raises
    ------
    InputError
        If no model has been pretrained there.
    """
    pretrain = sorted(results_dir.glob("pretrain/*/metrics.json"))
    if not pretrain:
        raise problem(
            results_dir,
            "no pretrain/<model>/metrics.json below it",
            "the folder of a dataset's results",
            "run the workflow first, with `make demo` for instance",
        )
    lines = terminal_lines(
        results_dir.name,
        {path.parent.name: read_json(path) for path in pretrain},
        [read_json(path) for path in sorted(results_dir.glob("finetune/*/*/metrics.json"))],
    )
    if (results_dir / "report.html").exists():
        lines.append(f"  open in a browser: {results_dir / 'report.html'}")
    return "\n".join(lines)


def _tasks(
    reports: Mapping[Path, Report], shown: list[tuple[str, Shown]], predictions: list[Path]
) -> Iterator[OfTask]:
    """Yield what each model found in each task, the tasks in the order of the accuracy table."""
    folders = {(found["model"], found["task"]): path.parent for path, found in reports.items()}
    for name, of_task, of_all in by_task(list(reports.values())):
        for report in of_task:
            task, _, column = name.partition(", ")
            folder = folders[report["model"], task]
            figures = _of(shown, "finetune", report["model"], task)
            yield OfTask(
                name=name.replace("_", " "),
                model=report["model"] if len(of_task) > 1 else "",
                answer=answers.answer(report),
                cautions=answers.cautions(report)
                or [Caution("good", "Nothing was found that limits the trust in these scores.")],
                sentences=list(words.on_task(report)),
                figures=[one for one in figures if one.title != TRAINING],
                training=[one for one in figures if one.title == TRAINING],
                tables=[*of_all, *_task_tables(report, folder, column, predictions)],
            )


def _task_tables(
    report: Report, folder: Path, column: str, predictions: list[Path]
) -> Iterator[Table]:
    for label, found in (("Super learner", report.get("super_learner")), ("AAM", report)):
        compared = (
            None if found is None else result_tables.comparison_table(label, found, report["kind"])
        )
        if compared is not None:
            yield compared
    intervals = by_target(_table(folder / "intervals.tsv", dtype=None))[column]
    yield result_tables.of_frame("Cross-validated predictions", intervals, "intervals.tsv")
    importance = folder / "importance.tsv"
    if importance.is_file():
        most = _table(importance, dtype=None).head(MOST_ASVS)
        yield result_tables.of_frame(f"The {len(most)} most important ASVs", most, "importance.tsv")
    for path in predictions:
        if path.parts[-3:-1] == (report["model"], report["task"].partition(", ")[0]):
            table = _table(path, dtype=None)
            yield result_tables.of_frame(f"Predictions for {path.stem}", table, path.name)


def _cautions(
    encoders: Mapping[str, Report], dropped: Mapping[Path, pd.DataFrame], predictions: list[Path]
) -> Iterator[Caution]:
    """Yield what concerns all tasks."""
    lost = sum(len(table) for table in dropped.values() if "depth" in table)
    kept = [found["held_out_samples"] + found["training_samples"] for found in encoders.values()]
    yield from answers.of_samples(lost, max(kept, default=0))
    for name, found in encoders.items():
        yield from answers.of_encoder(name, found)
    unseen = {
        path.stem: float(_table(path, dtype=None)["unseen_asvs"].mean()) for path in predictions
    }
    for table, share in unseen.items():
        yield from answers.of_prediction(table, share)


def _figures(cfg: Cfg, root: Path, paths: list[Path]) -> Iterator[tuple[str, Shown]]:
    """Yield the place of each figure below `figures/`, and the figure."""
    for path in paths:
        place = path.relative_to(root / "figures").with_suffix("").as_posix()
        for figure in (figure for plot in PLOTS.values() for figure in plot.figures):
            pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(figure.place))
            found = re.fullmatch(pattern, place)
            if found is not None:
                said = caption(cfg["captions"][figure.caption], found.groupdict(), cfg)
                yield place, Shown(figure.title.capitalize(), said, path.read_text("utf-8"))


def _of(shown: list[tuple[str, Shown]], *folders: str) -> list[Shown]:
    start = list(folders)
    return [one for place, one in shown if place.split("/")[: len(start)] == start]


def _methods(cfg: Cfg, encoders: Mapping[str, Report], reports: Any) -> dict[str, Any]:
    """Return what the methods tell: settings, and what was counted."""
    of_tasks = {found["task"]: found for found in reports}
    return {
        **{key: cfg[key] for key in ("depth", "views", "metrics")},
        "encoders": {
            name: {**cfg["models"][name], **{key: found[key] for key in ("parameters", "steps")}}
            for name, found in encoders.items()
        },
        "tasks": {
            name: {
                **cfg["tasks"][name],
                **{key: found[key] for key in ("n", "kind", "grouping")},
                "folds": len(found["folds"]),
            }
            for name, found in of_tasks.items()
        },
        "versions": {"aam": __version__, **{name: version(name) for name in PACKAGES}},
    }


def _made_from(root: Path, paths: list[Path]) -> Table:
    """Return the version and the digest of the settings that each file of scores says of itself."""
    rows = []
    for path in paths:
        made = read_json(path).get("provenance", {})
        settings = made.get("aam.settings", "")[:16]
        place = Path(os.path.relpath(path, root)).as_posix()
        rows.append([place, made.get("aam.version", ""), settings])
    return Table("What made the scores", ["file", "version", "digest of the settings"], rows)


def _table(path: Path, dtype: Any = str) -> pd.DataFrame:
    types = dict.fromkeys(NAMES, str) if dtype is None else dtype
    return pd.read_csv(path, sep="\t", dtype=types, keep_default_na=False, na_values=[""])


def _listed(inputs: Files, name: str) -> list[Path]:
    found = inputs.get(name, [])
    return found if isinstance(found, list) else [found]


def _sentences(table: pd.DataFrame) -> list[str]:
    """Count what a table of dropped things lists: by reason, or by rarefaction depth."""
    if "why" in table:
        kinds = Counter(zip(table["what"], table["why"], strict=True))
        return [f"{what}: {count}, {why}" for (what, why), count in sorted(kinds.items())]
    return [
        f"sample: {count}, with fewer than {depth} reads, the rarefaction depth"
        for depth, count in sorted(Counter(table["depth"]).items())
    ]


if __name__ == "__main__":
    try:
        print(terminal_summary(Path(sys.argv[1])))
    except InputError as error:
        sys.exit(str(error))
