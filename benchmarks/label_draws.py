"""Studies whose IDs, columns and classes have odd names, taken through a whole first answer.

A draw is a small study with names that look like numbers, dates, keywords, markup and so on. It
goes through `aam init` and the stages of a first answer, up to the page and the prediction of
another table. It has to end in one message to the user, or in files that hold the names that went
in, with the numbers of the same study whose names are plain.

Shape suffixes: N samples, F features.
"""

import csv
import io
import json
import math
import re
import shutil
import traceback
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import yaml
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam import cli
from aam.config import slices
from aam.config.configuration import Config, load
from aam.config.names import FIRST
from aam.config.settings.plot import PlotSettings
from aam.data import nested_folds
from aam.data.folds import OBSERVED, read_folds
from aam.data.importing.table import load_table
from aam.data.metadata import read_metadata, write_metadata
from aam.data.predictions import (
    PROBABILITY,
    class_names,
    class_order,
    read_predictions,
    read_results,
    split_classes,
)
from aam.data.table import FeatureTable, read_biom, write_biom
from aam.evaluate.task_report import TaskReport
from aam.learners.baselines import decision_trees
from aam.report.labels import shorten
from aam.report.page.files import PageFile, PageFiles
from aam.stages.baselines import fit_baselines
from aam.stages.export_qza import WRITERS
from aam.stages.folds import divide_into_folds
from aam.stages.import_metadata import import_metadata
from aam.stages.import_table import import_table
from aam.stages.plot import draw_figures
from aam.stages.predict import predict_table
from aam.stages.rarefy import rarefy_table
from aam.stages.score import score_task
from aam.stages.summary import write_summary
from aam.stages.super_learner import keep_super_learner
from aam.util.errors import InputError
from aam.util.notes import Note, collect_notes

DEPTH = 40
FEATURES = 8
FOLDS = 3
DRAWN_FIGURES = 10
"""One draw in so many draws figures."""
METHODS = ("extra_trees", "kernel_clr", "random_forest", "gradient_boosting", "elastic_net")
OTHER_METHODS = 10
"""One draw in so many asks for one of all methods, the others for the first alone, which is fast
and among those that weight classes."""
GOOD = ("refused", "answered")
"""Outcomes of a draw in which nothing is wrong."""
FEWER: tuple[tuple[ModuleType, dict[str, Any]], ...] = (
    (decision_trees, {"TREES": 4, "WHOLE_TREES": 4, "ITERATIONS": 4}),
    (nested_folds, {"PARTS": 2}),
)
"""Constants of modules that make a draw fast and change nothing about names."""
CAPTIONS = {"predictions": "Predictions", "rarefaction": "Reads"}

WORDS = [
    ["0", "1"], ["1", "2"], ["2019", "2020", "2021"], ["1", "2", "10"], ["01", "02", "10"],
    ["1.0", "2.0"], ["1", "1.0", "01"], ["1e5", "1E5", "100000"], ["-1", "+1"], ["0x1", "1_000"],
    ["True", "False"], ["TRUE", "true", "True"], ["yes", "no"], ["T", "F"], ["on", "off"],
    ["NA", "None", "null"], ["nan", "NaN", "inf"], ["-inf", "Infinity"], ["-", ".", "?"],
    ["N/A", "#N/A", "missing"], ["unknown", "not collected", "Missing: not provided"],
    ["observed", "predicted", "fold", "target"], ["group", "baseline", "row", "sample-id"],
    ["likeliest", "prediction_set", "unnested"], ["probability:x", "x", "probability:"],
    ["quantile:0.5", "draw:1", "sd"], ["a", "aa", "aaa"], ["a", "a.1", "a.2"], ["case", "case 1"],
    ["<b>", "</td>", "&amp;", "&"], ["<script>alert(1)</script>", "<!--", "-->"],
    ['"', '""', "'"], ['say "x"', "it's", '"quoted"'], ["\\", "\\\\", "a\\b"], ["\\n", "\\t"],
    ["a|b", "a", "b"], ["|", "||", "\\|"], ["x" * 200, "x" * 199 + "y"], ["w" * 60, "w" * 61],
    ["עברית", "العربية", "a\u202eb"], ["e\u0301", "\u00e9"], ["🦠", "🧬", "👩\u200d🔬"],
    ["a b", "a  b", "a\u00a0b"], ["a\u200b", "a"], ["Gut", "gut", "GUT"], ["ß", "ss", "SS"],
    ["İ", "i", "I"], ["$x$", "$\\frac", "_a"], ["^b", "#222222", "url(#a)"], ["{x}", "{{x}}", "%s"],
    ["2019-01-01", "2020-02-30"], ["01/02/2019", "1/2/19"], ["5 %", "10 %"], ["0,5", "1,5"],
    ["=1+1", "@x", "+x"], ["~", "[a]", "*a"], ["a: b", "a #b", "- a"], ["..", "a/b", "/"],
    ["gut", "skin", "soil"], ["a,b", "a;b"], ["id", "name", "model"], ["ACGT", "TTTT"],
]  # fmt: skip
NUMBERS: dict[str, Callable[[np.random.Generator, int], list[str]]] = {
    "whole": lambda rng, n: [str(v) for v in rng.integers(0, 90, n)],
    "decimals": lambda rng, n: [f"{v:.2f}" for v in rng.normal(7, 1, n)],
    "small": lambda rng, n: [f"{v:.4e}" for v in rng.normal(7e-12, 1e-12, n)],
    "large": lambda rng, n: [f"{v:.4e}" for v in rng.normal(7e12, 1e12, n)],
    "nine decades": lambda rng, n: [f"{v:.6g}" for v in 10 ** rng.uniform(-3, 6, n)],
    "a code": lambda rng, n: ["-9999", *(f"{v:.1f}" for v in rng.normal(7, 1, n - 1))],
    "signs and points": lambda rng, n: [
        form.format(v)
        for form, v in zip(["+{}", "{}.", ".{}", "0{}"] * n, rng.integers(1, 60, n), strict=False)
    ],
    "nearly constant": lambda rng, n: ["5.1", "5.2", *["5"] * (n - 2)],
    "words among them": lambda rng, n: ["unknown", "90+", *map(str, rng.integers(0, 90, n - 2))],
    "percentages": lambda rng, n: [f"{v} %" for v in rng.integers(0, 90, n)],
    "decimal commas": lambda rng, n: [f"{v:.2f}".replace(".", ",") for v in rng.normal(7, 1, n)],
    "empty cells": lambda rng, n: ["", "", "", *map(str, rng.integers(0, 90, n - 3))],
    "largest": lambda rng, n: [f"{v:.6g}" for v in rng.choice([1e30, -1e30, 5e29, 1.0], n)],
    "beyond": lambda rng, n: ["1e400", "1e31", *map(str, rng.integers(0, 90, n - 2))],
    "negative": lambda rng, n: [f"{v:.3f}" for v in -rng.exponential(9, n)],
}  # fmt: skip
IDS: list[Callable[[int], str]] = [
    lambda i: f"s{i}",
    lambda i: str(i),
    lambda i: f"{i:03d}",
    lambda i: f"{i}e5",
    lambda i: f"{i}.0",
    lambda i: f"{i}.10" if i % 2 else f"{i}.1",
    lambda i: f"1.{i}E+05",
    lambda i: ["NA", "nan", "None", "null", "inf", "True", "-"][i] if i < 7 else f"NA{i}",
    lambda i: ["observed", "fold", "group", "0", "01", "1"][i] if i < 6 else f"fold{i}",
    lambda i: f"<b>{i}</b>",
    lambda i: f'"{i}"',
    lambda i: f"it's \\{i}",
    lambda i: "x" * 190 + str(i),
    lambda i: f"עברית {i}",
    lambda i: "e" + "\u0301" * (i % 4) + str(i),
    lambda i: f"🦠{i}",
    lambda i: f"2019-01-{i:02d}",
    lambda i: f"a  {i}",
    lambda i: f"{i} %",
    lambda i: f"Sample.{i}" if i % 2 else f"Sample-{i}",
]


@dataclass(frozen=True)
class Study:
    """A study as somebody might have it."""

    ids: Sequence[str]
    """IDs of the samples; the last few are those of the table to predict."""
    metadata: Mapping[str, Sequence[str]]
    """Cells by column; the first column is the target."""
    groups: str | None
    report_by: str | None
    kind: str | None
    """What the target is predicted as; None: as `aam init` proposes."""
    methods: Sequence[str]
    figures: bool
    biom: bool
    """The table is a BIOM file, which takes longer to read than text."""

    @property
    def target(self) -> str:
        """Name of the column that is predicted."""
        return next(iter(self.metadata))


@dataclass(frozen=True)
class Outcome:
    """How a draw ended, and what about it was wrong or was told."""

    what: str
    """refused, answered, crashed, or silent: a difference that nobody was told of."""
    text: str = ""


def draw_study(seed: int) -> Study:
    """Return the study of a seed.

    Parameters
    ----------
    seed
        Any number from 0.
    """
    rng = np.random.default_rng(seed)
    samples = int(rng.integers(24, 37))
    kind = str(rng.choice(["", "", "", "classification", "ordinal", "regression"])) or None
    words = [*WORDS[rng.integers(len(WORDS))]]
    if rng.random() < 0.2:
        words += [*WORDS[rng.integers(len(WORDS))], _random_word(rng)]
    words = [*dict.fromkeys(words)][:5]
    is_numeric = kind == "regression" or (kind is None and rng.random() < 0.3)
    if is_numeric:
        target = [*NUMBERS[str(rng.choice([*NUMBERS]))](rng, samples)]
    else:
        target = [words[i % len(words)] for i in range(samples)]
        if rng.random() < 0.2:
            target[0] = _random_word(rng)
        if rng.random() < 0.2:
            target[1] = ""
    names = [str(name) for name in WORDS[rng.integers(len(WORDS))] if name.strip()]
    names = [*dict.fromkeys([names[0], "host", *names[1:], "noise"])]
    others = WORDS[rng.integers(len(WORDS))]
    metadata = {names[0]: target}
    for number, name in enumerate(names[1:]):
        if name == "host":
            metadata[name] = [f"{others[i % len(others)]}{i // 3}" for i in range(samples)]
        else:
            metadata[name] = [others[(i + number) % len(others)] for i in range(samples)]
    name_of = IDS[rng.integers(len(IDS))]
    groups = "host" if rng.random() < 0.5 and names[0] != "host" else None
    return Study(
        ids=[name_of(i) for i in rng.permutation(samples + 4)],
        metadata=metadata,
        groups=groups,
        report_by=names[-1] if rng.random() < 0.4 and names[-1] != names[0] else None,
        kind=kind,
        methods=[METHODS[0 if seed % OTHER_METHODS else rng.integers(len(METHODS))]],
        figures=seed % DRAWN_FIGURES == 0,
        biom=seed % DRAWN_FIGURES == 1,
    )


def _random_word(rng: np.random.Generator) -> str:
    """Return a word of a few characters of any plane, without white space at its ends."""
    letters = [chr(int(rng.choice([rng.integers(33, 127), rng.integers(161, 0x3000)])))]
    letters += [chr(int(code)) for code in rng.integers(32, 0x2000, int(rng.integers(0, 6)))]
    return "".join(letter for letter in letters if letter.isprintable()).strip() or "?"


def run_draw(seed: int, folder: Path) -> Outcome:
    """Take the study of a seed through a whole first answer.

    Parameters
    ----------
    seed
        Any number from 0.
    folder
        An empty folder to work in.
    """
    study = draw_study(seed)
    try:
        with ExitStack() as stack:
            for module, constants in FEWER:
                stack.enter_context(patch.multiple(module, **constants))
            return _compare(study, folder)
    except InputError as error:
        text = str(error)
        is_message = ": got " in text and "Hint: " in text
        return Outcome("refused" if is_message else "silent", text)
    except Exception:  # noqa: BLE001  Whatever it is, it is what the draw looks for.
        return Outcome("crashed", traceback.format_exc())


def _compare(study: Study, folder: Path) -> Outcome:
    """Answer a study, and the same with plain names, and compare what is written."""
    with collect_notes() as told:
        config, files = _answer(study, folder)
    wrong = [*_lost_values(study, files, config, told), *_changed_names(study, files, config)]
    _answer_plain(study, files, config, folder / "plain")
    wrong += _other_numbers(study, files, config, _files(folder / "plain"))
    return Outcome("silent", "\n".join(wrong)) if wrong else Outcome("answered", "")


def _files(folder: Path) -> dict[str, Path]:
    """Return the files of a study by what they hold."""
    names = {
        "user_table": "table", "user_metadata": "metadata.tsv", "tree": "tree.nwk",
        "config": "mine.yaml", "table": "inputs.biom", "sequences": "inputs.fasta",
        "dropped": "dropped.tsv", "metadata": "metadata.parquet", "view": "view0.biom",
        "view_dropped": "view0.dropped.tsv", "folds": "folds.tsv", "members": "members.tsv",
        "baselines": "baselines.tsv", "nested": "nested.parquet", "other": "other.tsv",
        "scores": "results/answers/t/first/scores.json",
        "answer": "results/answers/t/first/predictions.tsv",
        "figure": "results/figures/answers/t/first/predictions.svg",
        "kept": "results/answers/t/first/super_learner",
        "digest": "results/answers/t/first/super_learner.json",
        "predicted": "results/predict/first/t/other.tsv",
        "summary": "results/first.md", "page": "results/first.html",
        "notes": "results/notes/table.tsv", "metadata_notes": "results/notes/metadata.tsv",
        "fold_notes": "results/folds/t.notes.tsv",
    }  # fmt: skip
    return {name: folder / path for name, path in names.items()}


def _answer(study: Study, folder: Path) -> tuple[Config, dict[str, Path]]:
    """Carry out what `aam init` and `aam run` do, in this process."""
    files = _files(folder)
    files["scores"].parent.mkdir(parents=True)
    _write_user_files(study, files)
    config = _configure(study, files)
    import_table(
        table=files["user_table"],
        table_out=files["table"],
        sequences_out=files["sequences"],
        dropped_out=files["dropped"],
        notes_out=files["notes"],
    )
    import_metadata(
        table=files["table"],
        metadata=files["user_metadata"],
        metadata_out=files["metadata"],
        notes_out=files["metadata_notes"],
    )
    rarefy_table(
        table=files["table"],
        depth=DEPTH,
        seed=0,
        view=0,
        table_out=files["view"],
        dropped_out=files["view_dropped"],
    )
    divide_into_folds(
        metadata=files["metadata"],
        table=files["view"],
        settings=slices.folds(config, "t"),
        folds_out=files["folds"],
        members_out=files["members"],
        notes_out=files["fold_notes"],
    )
    _fit_and_predict(config, files)
    figures = []
    if study.figures:
        records = {"predictions": files["answer"], "report": files["scores"]}
        figures = [_of_task(files["figure"], figure="answers/{task}/{answer}/predictions")]
        draw_figures(
            settings=PlotSettings(draw={"predictions": "task.draw"}),
            records=records,
            figures_out={"predictions": files["figure"]},
        )
    (dataset,) = config.datasets
    write_summary(
        files=PageFiles(
            scores=[_of_task(files["scores"])],
            cross_validated=[_of_task(files["answer"])],
            predictions=[_of_task(files["predicted"], table="new")],
            figures=figures,
            dropped=[files["dropped"], files["view_dropped"]],
            notes=[files["notes"], files["metadata_notes"], files["fold_notes"]],
            table=files["table"],
            sequences=files["sequences"],
        ),
        settings=slices.first_page(config, dataset).model_copy(update={"captions": CAPTIONS}),
        summary_out=files["summary"],
        report_out=files["page"],
    )
    return config, files


def _of_task(path: Path, **facts: str) -> PageFile:
    """Return a file of the first answer to the only task."""
    return PageFile(path, model="first", task="t", **facts)


def _write_user_files(study: Study, files: Mapping[str, Path]) -> None:
    """Write table, tree, metadata, and the table to predict, as a user has them."""
    rng = np.random.default_rng(len(study.ids))
    sequences = ["".join(rng.choice([*"ACGT"], 24)) for _ in range(FEATURES)]
    labelled = len(study.metadata[study.target])
    column = pd.factorize(np.array(study.metadata[study.target], object))[0]
    rate_NF = np.ones((len(study.ids), FEATURES))
    rate_NF[np.arange(labelled), column % FEATURES] += 3
    # Reads are drawn by the names of samples, unless all reads of a sample are.
    counts_NF = rng.multinomial(DEPTH, rate_NF / rate_NF.sum(axis=1, keepdims=True))
    _write_table(
        files["user_table"], study.ids[:labelled], sequences, counts_NF[:labelled], study.biom
    )
    tips = [f"{name}:{0.1 + 0.1 * j:.1f}" for j, name in enumerate(sequences)]
    files["tree"].write_text(f"(({','.join(tips[:4])}):0.3,({','.join(tips[4:])}):0.2);\n")
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t", lineterminator="\n")
    writer.writerow(["sample-id", *study.metadata])
    writer.writerows(zip(study.ids[:labelled], *study.metadata.values(), strict=True))
    files["user_metadata"].write_text(text.getvalue(), encoding="utf-8")
    # The first sample of the study is among those to predict, too.
    others = [0, *range(labelled, len(study.ids))]
    _write_table(files["other"], [study.ids[i] for i in others], sequences, counts_NF[others])


def _write_table(
    path: Path,
    ids: Sequence[str],
    sequences: Sequence[str],
    counts_NF: NDArray[np.int64],
    biom: bool = False,
) -> None:
    """Write a table as text, or as BIOM 2.1."""
    if biom:
        write_biom(path, FeatureTable([*ids], [*sequences], csr_array(counts_NF)), {})
        return
    rows = [[name, *map(str, counts_NF[:, j])] for j, name in enumerate(sequences)]
    with path.open("w", encoding="utf-8", newline="") as handle:
        # A name with quotes gets quotes around it: without those it would be a quoted name.
        writer = csv.writer(handle, dialect="excel-tab", lineterminator="\n")
        writer.writerows([["#OTU ID", *ids], *rows])


def _configure(study: Study, files: Mapping[str, Path]) -> Config:
    """Return the configuration that `aam init` writes, with the methods of the draw."""
    command = ["init", files["user_table"], files["user_metadata"], "--tree", files["tree"]]
    command += ["--output", files["config"]]
    if study.kind is None and "," not in study.target:
        command += ["--columns", study.target]
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            cli.main([*map(str, command)])
    except SystemExit as end:
        if not isinstance(end.code, str):
            # An option that begins with a dash is argparse's to refuse.
            raise InputError(": got a usage error. Hint: ") from end
        raise InputError(end.code) from end
    raw = yaml.safe_load(files["config"].read_text(encoding="utf-8"))
    load({**raw, "tasks": raw.get("tasks") or {}})
    proposed = {task["column"]: task for task in (raw.get("tasks") or {}).values()}
    if study.kind is None and study.target in proposed:
        task = proposed[study.target]
    else:
        (dataset,) = raw["datasets"]
        task = {"dataset": dataset, "column": study.target}
        task["kind"] = study.kind or "classification"
        task["folds"] = {"stratified": True} if task["kind"] != "regression" else {}
        if study.kind == "ordinal":
            task["classes"] = [*dict.fromkeys(filter(None, study.metadata[study.target]))][::-1]
    task["folds"] = {**task["folds"], "k": FOLDS, "groups": study.groups or False}
    task["baselines"] = [*map(str, study.methods)]
    task["report_by"] = [study.report_by] if study.report_by else []
    changed = {"rarefaction": {"depth": DEPTH}, "models": {}, "tasks": {"t": task}}
    return load({**raw, **changed})


def _fit_and_predict(config: Config, files: Mapping[str, Path]) -> None:
    """Carry out the stages of a first answer from the folds on, and predict the other table."""
    study: dict[str, Any] = {name: files[name] for name in ("folds", "tree")}
    fitted: dict[str, Any] = {"baselines": files["baselines"], "nested_baselines": files["nested"]}
    fit_baselines(
        **study,
        views=[files["view"]],
        **dict(slices.baselines(config, "t")),
        predictions_out=files["baselines"],
        nested_out=files["nested"],
    )
    score_task(
        **fitted,
        folds=files["folds"],
        metadata=files["metadata"],
        table=files["table"],
        rarefied=files["view"],
        settings=slices.score(config, "t", FIRST),
        scores_out=files["scores"],
        predictions_out=files["answer"],
    )
    keep_super_learner(
        **fitted,
        **study,
        views=[files["view"]],
        sequences=files["sequences"],
        table=files["table"],
        settings=slices.super_learner(config, "t", FIRST),
        directory_out=files["kept"],
        digest_out=files["digest"],
    )
    predict_table(
        model=files["kept"],
        table=files["other"],
        predictions_out=files["predicted"],
        notes_out=files["predicted"].with_suffix(".notes.tsv"),
    )


def _lost_values(
    study: Study, files: Mapping[str, Path], config: Config, told: Sequence[Note]
) -> Iterator[str]:
    """Yield samples whose value is missing or another one, without a warning that names it."""
    folds = read_folds(files["folds"])
    task = config.tasks["t"]
    listed = task.where.get(study.target)
    observed = folds["observed"].to_dict()
    groups = folds["group"].to_dict()
    warnings = "\n".join(note.text for note in told)
    for row, cell in enumerate(study.metadata[study.target]):
        name = study.ids[row]
        is_told = cell[:20] in warnings or repr(cell)[1:15] in warnings
        if name not in observed:
            if cell and not is_told and (listed is None or cell in listed):
                yield f"{name!r}: {cell!r} is left out, and nobody is told"
        elif task.kind == "regression":
            # Decimal commas and percent signs are told of a column, not of each cell.
            is_told = is_told or repr(study.target) in warnings or f"'{study.target}'" in warnings
            is_plain = _number(cell) == _number(cell, is_plain=True)
            if float(observed[name]) != _number(cell) or not (is_plain or is_told):
                yield f"{name!r}: {cell!r} became {observed[name]!r}"
        elif observed[name] != cell and not is_told:
            yield f"{name!r}: {cell!r} became {observed[name]!r}"
        if name in groups and study.groups:
            group = study.metadata[study.groups][row]
            if groups[name] != group and _visible(groups[name]) != _visible(group):
                yield f"{name!r}: group {group!r} became {groups[name]!r}"


def _number(cell: str, *, is_plain: bool = False) -> float:
    """Return the number in a cell, NaN where it is none; a plain one has neither comma nor sign."""
    text = cell if is_plain else cell.replace("%", "").replace(",", ".")
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _visible(text: str) -> str:
    """Return what a reader sees of a name: one form of each letter, no signs without width."""
    composed = unicodedata.normalize("NFC", text.replace("\u200b", "").replace("\ufeff", ""))
    return " ".join(composed.split())


def _changed_names(study: Study, files: Mapping[str, Path], config: Config) -> Iterator[str]:
    """Yield files that hold other names than the folds."""
    folds = read_folds(files["folds"])
    is_number = config.tasks["t"].kind == "regression"
    classes = [] if is_number else list(config.tasks["t"].classes or class_order(folds["observed"]))
    ids = set(folds.index)
    table = read_results(files["answer"])
    if set(table["sample-id"]) != ids:
        yield "answer: other samples"
    if class_names(table) != classes:
        yield f"answer: classes {class_names(table)} in place of {classes}"
    if classes:
        if table.set_index("sample-id")["observed"].to_dict() != folds["observed"].to_dict():
            yield "answer: other observed classes"
        if not set(table["predicted"]) <= set(classes):
            yield "answer: other predicted classes"
        sets = table["prediction_set"].map(split_classes)
        if not all(one and set(one) <= set(classes) for one in sets):
            yield "answer: sets of other classes"
    if not (read_folds(files["kept"] / "folds.tsv") == folds).all(axis=None):
        yield "other folds are kept"
    if json.loads((files["kept"] / "super_learner.json").read_text())["classes"] != classes:
        yield "other classes are kept"
    predicted = read_results(files["predicted"])
    labelled = len(study.metadata[study.target])
    if [*predicted["sample-id"]] != [study.ids[0], *study.ids[labelled:]]:
        yield "the other table has other samples"
    if class_names(predicted) != classes:
        yield f"the other table has classes {class_names(predicted)}"
    best = TaskReport.read(files["scores"]).targets[0].best
    if best.confusion is not None and best.per_class is not None:
        if [*best.confusion.classes] != classes:
            yield "scores: other classes"
        if sum(one.n for one in best.per_class.values()) != len(folds):
            yield "scores: other numbers of samples in the classes"
    yield from _changed_exports(files, classes)
    yield from _changed_page(study, files, classes, ids)


def _changed_exports(files: Mapping[str, Path], classes: Sequence[str]) -> Iterator[str]:
    """Yield exports for QIIME 2 that hold other names than the predictions."""
    predictions = read_predictions(files["answer"])
    kind = "Classifier" if classes else "Regressor"
    types = [f"SampleData[{kind}Predictions]", *(["SampleData[Probabilities]"] if classes else [])]
    for name in types:
        text = "".join(WRITERS[name](files["answer"]))
        header, *rows = csv.reader(io.StringIO(text, newline=""), dialect="excel-tab")
        if [row[0] for row in rows] != [*predictions["sample-id"]]:
            yield f"{name}: other samples"
        if name.endswith("Predictions]") and [row[1] for row in rows] != [
            *predictions["predicted"]
        ]:
            yield f"{name}: other predictions"
        if name == "SampleData[Probabilities]" and header[1:] != list(classes):
            yield f"{name}: classes {header[1:]}"


class _Cells(HTMLParser):
    """The texts of the cells of all tables of a page, and of its figures."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        if tag in ("td", "th", "text", "title"):
            self.texts.append("")

    def handle_data(self, data: str) -> None:
        if self.texts:
            self.texts[-1] += data


def _changed_page(
    study: Study, files: Mapping[str, Path], classes: Sequence[str], ids: set[str]
) -> Iterator[str]:
    """Yield what the page and the figure hold in place of the names."""
    page = files["page"].read_text(encoding="utf-8")
    cells = _Cells()
    cells.feed(page)
    shown = {text.strip() for text in cells.texts}
    missing = [name for name in [*ids, *(PROBABILITY + c for c in classes)] if name not in shown]
    if missing:
        yield f"the page lacks {missing[:3]}"
    if "b" in cells.tags:
        yield "the page has marks of a name"
    if not study.figures:
        return
    texts = [
        _plain_space("".join(text.itertext()))
        for text in ElementTree.fromstring(files["figure"].read_text(encoding="utf-8")).iter()
        if text.tag.endswith(("text", "title"))
    ]
    inlined = {_plain_space(text) for text in cells.texts}
    for name in classes:
        if not any(_plain_space(shorten(name, 16)) in text for text in texts):
            yield f"the figure lacks {name!r}"
        if not any(_plain_space(shorten(name, 16)) in text for text in inlined):
            yield f"the figure of the page lacks {name!r}"


def _plain_space(text: str) -> str:
    return " ".join(text.split())


def _answer_plain(study: Study, files: Mapping[str, Path], config: Config, folder: Path) -> None:
    """Answer the same study with plain names of the same order."""
    plain = _files(folder)
    plain["scores"].parent.mkdir(parents=True)
    renamed = _plain_names(study, files, config)
    table = read_folds(files["folds"])
    groups = {name: f"g{i:03d}" for i, name in enumerate(sorted(set(table["group"]) - {""}))}
    table["group"] = [groups.get(name, "") for name in table["group"]]
    for column in [name for name in map(str, table) if re.match(f"observed$|{OBSERVED}", name)]:
        table[column] = [renamed.classes.get(value, value) for value in table[column]]
    table.index = pd.Index([renamed.ids[name] for name in table.index], name="sample-id")
    table.to_csv(plain["folds"], sep="\t")
    metadata = read_metadata(files["metadata"])
    metadata.index = pd.Index([renamed.ids[name] for name in metadata.index])
    write_metadata(plain["metadata"], metadata, {})
    for name in ("view", "table"):
        biom = read_biom(files[name])
        ids = [renamed.ids[one] for one in biom.sample_ids]
        write_biom(plain[name], FeatureTable(ids, biom.feature_ids, biom.counts), {})
    other = load_table(files["other"])
    ids = [renamed.ids[one] for one in other.sample_ids]
    _write_table(plain["other"], ids, other.feature_ids, other.counts.toarray())
    for name in ("tree", "sequences"):
        plain[name].write_bytes(files[name].read_bytes())
    task = config.tasks["t"]
    if task.classes:
        classes = [renamed.classes[name] for name in task.classes]
        task = task.model_copy(update={"classes": classes})
    with redirect_stderr(io.StringIO()):
        _fit_and_predict(config.model_copy(update={"tasks": {"t": task}}), plain)


@dataclass(frozen=True)
class _Renamed:
    """Plain names by the names of a study."""

    ids: Mapping[str, str]
    classes: Mapping[str, str]


def _plain_names(study: Study, files: Mapping[str, Path], config: Config) -> _Renamed:
    """Return plain names that have the order of those of the study."""
    observed = read_folds(files["folds"])["observed"]
    classes = class_order([*observed, *(config.tasks["t"].classes or [])])
    if config.tasks["t"].kind == "regression":
        classes = []
    return _Renamed(
        ids={name: f"s{i:04d}" for i, name in enumerate(sorted(study.ids))},
        classes={name: f"c{i:03d}" for i, name in enumerate(classes)},
    )


def _other_numbers(
    study: Study, files: Mapping[str, Path], config: Config, plain: Mapping[str, Path]
) -> Iterator[str]:
    """Yield files whose content depends on what samples and classes are called."""
    renamed = _plain_names(study, files, config)
    for name in ("baselines", "answer", "predicted"):
        expected = _read_text(plain[name])
        table = _read_text(files[name])
        table["sample-id"] = [renamed.ids[one] for one in table["sample-id"]]
        for column in ("observed", "predicted", "likeliest"):
            if renamed.classes and column in table:
                table[column] = [renamed.classes[one] for one in table[column]]
        if "prediction_set" in table:
            sets = table["prediction_set"].map(split_classes)
            table["prediction_set"] = ["|".join(renamed.classes[c] for c in one) for one in sets]
        table = table.rename(
            columns={PROBABILITY + old: PROBABILITY + new for old, new in renamed.classes.items()}
        )
        if not table.equals(expected):
            yield f"{name} depends on names"
    report = json.loads(files["scores"].read_text(encoding="utf-8"))
    other = json.loads(plain["scores"].read_text(encoding="utf-8"))
    if not _are_alike(_rename_report(report, renamed), other):
        yield "the scores depend on names"


def _are_alike(first: Any, second: Any) -> bool:
    """Return whether two reports are the same but for rounding: sums follow the order of names."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(
            _are_alike(value, second[name]) for name, value in first.items()
        )
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_are_alike, first, second))
    if isinstance(first, float) and isinstance(second, float):
        return math.isclose(first, second, rel_tol=1e-9, abs_tol=1e-12)
    return bool(first == second)


def _read_text(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False)


def _rename_report(report: Any, renamed: _Renamed, key: str = "") -> Any:
    """Return a report with plain names of samples and classes where it has names of a study."""
    if key in ("per_class", "intercepts") and report is not None:
        return {renamed.classes[name]: value for name, value in report.items()}
    if key == "classes" and report is not None:
        return [renamed.classes[name] for name in report]
    if key == "samples" and isinstance(report, list):
        return [renamed.ids[name] for name in report]
    if isinstance(report, dict):
        return {name: _rename_report(value, renamed, name) for name, value in report.items()}
    if isinstance(report, list):
        return [_rename_report(value, renamed) for value in report]
    return report


def count_draws(draws: int, folder: Path, first: int = 0) -> Iterator[tuple[int, Outcome]]:
    """Yield the seed and the outcome of each draw.

    Parameters
    ----------
    draws
        Number of draws.
    folder
        Folder to work in; what a draw writes is removed, unless it failed.
    first
        Seed of the first draw.
    """
    for seed in range(first, first + draws):
        place = folder / str(seed)
        place.mkdir(parents=True)
        outcome = run_draw(seed, place)
        if outcome.what in GOOD:
            shutil.rmtree(place)
        yield seed, outcome


def explain(seed: int, outcome: Outcome) -> str:
    """Return what a failed draw was and what was wrong, to be read by somebody who mends it."""
    study = draw_study(seed)
    words = list(dict.fromkeys(study.metadata[study.target]))[:6]
    last = re.sub(r"\n+$", "", outcome.text)[-1500:]
    return (
        f"draw {seed} {outcome.what}: column {study.target!r} of {words}, IDs such as "
        f"{study.ids[0]!r}, kind {study.kind}, methods {study.methods}\n{last}"
    )
