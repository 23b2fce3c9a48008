"""A study that is complete: its report, and the jobs that each change makes necessary.

The tiny study has two views, two models, and two tasks: `environment` starts from the
pretrained models and is predicted for a second study, `site` starts from scratch.
"""

import json
import re
import shutil
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from browser import needs_browser, open_page

from aam.evaluate.task_report import TaskReport
from aam.report.page.answers import is_stopped
from aam.report.page.details import trains_networks
from aam.util.atomic import read_json

pytestmark = pytest.mark.workflow


def times(number: int, jobs: Counter[str]) -> Counter[str]:
    return Counter({name: number * count for name, count in jobs.items()})


FIRST = Counter(score=1, plot_answer=1, plot_clades=1)
"""The first answer to a task; all are on one page."""
FIRST_PAGE = Counter(first_page=1)
FIRSTS = times(2, FIRST) + FIRST_PAGE
TABLES = Counter(benchmark_accuracy=1, plot_accuracy=1, summary=1)
SCORED = Counter(score=1, plot_answer=1, plot_clades=1, plot_importance=1)
"""Whether importances are drawn depends on the scores."""
EXPLAINED = Counter(explain=1, plot_importance=1)
TRAINED = Counter(finetune=1, plot_finetuning=1, explain=1) + SCORED
MIXED = Counter(super_learner=1, predict=1)
PREDICTED = Counter(predict_networks=1) + MIXED
OF_A_MODEL = Counter(pretrain=1, plot_pretraining=1) + PREDICTED + TRAINED
"""The task `site` starts from scratch."""
OF_A_TASK = times(2, TRAINED) + TABLES
PRETRAINED = times(2, OF_A_MODEL) + TABLES
FINETUNED = times(4, TRAINED) + times(2, PREDICTED) + TABLES
AFTER_SAMPLES = PRETRAINED + times(2, TRAINED)
OF_READS = Counter(store_samples=1, baselines=2, clades=2) + FIRSTS + AFTER_SAMPLES
"""Folds are of the samples of view 0, baselines see the reads and distances of all views."""
AFTER_RAREFYING = Counter(unifrac=2, folds=2) + OF_READS
# Distances reach the score of `site` by the baselines alone.
AFTER_DISTANCES = Counter(unifrac=2, baselines=2) + FIRSTS + PRETRAINED + times(2, SCORED)
OF_NEW_FOLDS = (
    Counter(folds=1, baselines=1, clades=1) + FIRST + FIRST_PAGE + times(2, PREDICTED) + OF_A_TASK
)

ROWS: dict[str, tuple[dict[str, Any], Counter[str]]] = {
    "rarefaction": (
        {"rarefaction": {"depth": 150}},
        Counter(rarefy=2, plot_rarefaction=1) + AFTER_RAREFYING,
    ),
    "one more view": ({"rarefaction": {"views": 3}}, Counter(rarefy=1, unifrac=1) + OF_READS),
    # The page of first answers says how long the networks take.
    "tokens": (
        {"tokens": {"max_length_bp": 30}},
        Counter(tokenize=1, store_samples=1) + AFTER_SAMPLES + FIRST_PAGE,
    ),
    "unifrac": ({"unifrac": {"engine": "scikit-bio"}}, AFTER_DISTANCES),
    # Snakemake compares the names of input files; see the test of jobs below.
    "unifrac, jobs that share a matrix": (
        {"unifrac": {"partitions": 3}},
        Counter(unifrac_part=6) + AFTER_DISTANCES,
    ),
    "augmentation": (
        {"augmentation": {"asv_dropout": 0.1}},
        Counter(store_samples=1) + AFTER_SAMPLES,
    ),
    "models, one of two": (
        {"models": {"other": {"width": 32}}},
        OF_A_MODEL + TRAINED + TABLES + FIRST_PAGE,
    ),
    "models, a new one": (
        {"models": {"third": {"width": 16, "heads": 2}}},
        OF_A_MODEL + TRAINED + TABLES + FIRST_PAGE,
    ),
    "pretraining": ({"pretraining": {"epochs": 2}}, PRETRAINED + FIRST_PAGE),
    "pretraining, subsampled rows": ({"pretraining": {"subsampled": 0.5}}, PRETRAINED + FIRST_PAGE),
    "tasks, folds": ({"tasks": {"environment": {"folds": {"k": 3}}}}, OF_NEW_FOLDS),
    "tasks, covariates": ({"tasks": {"environment": {"condition": ["site"]}}}, OF_NEW_FOLDS),
    "tasks, a transform": (
        {"tasks": {"environment": {"transform": "quantile"}}},
        times(2, PREDICTED) + OF_A_TASK,
    ),
    "tasks, an encoder per fold": (
        {"tasks": {"environment": {"finetuning": {"inductive": True}}}},
        Counter(pretrain_inductive=2) + times(2, PREDICTED) + OF_A_TASK + FIRST_PAGE,
    ),
    "tasks, scores by group": (
        {"tasks": {"site": {"report_by": ["host"]}}},
        times(2, SCORED) + TABLES + FIRST + FIRST_PAGE,
    ),
    "tasks, nothing explained": (
        {"tasks": {"site": {"importance": False}}},
        Counter(summary=1) + FIRST_PAGE,
    ),
    "tasks, fine-tuning": (
        {"tasks": {"site": {"finetuning": {"epochs": 2}}}},
        OF_A_TASK + FIRST_PAGE,
    ),
    "finetuning": ({"finetuning": {"epochs": 2}}, FINETUNED + FIRST_PAGE),
    "optimization": ({"optimization": {"attention": "math"}}, PRETRAINED + times(2, TRAINED)),
    # Two views; of each model an ordination, and three files of each task.
    "outputs": ({"outputs": {"qza": True}}, Counter(export_qza=18)),
    "what changes no result": (
        {
            "benchmark": {"seconds": 0.2},
            "runtime": {"workers": 1, "checkpoint_every_s": 9},
            "unifrac": {"alpha": 0.1},
        },
        Counter(),
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_settings(completed: Any, row: str) -> None:
    change, expected = ROWS[row]
    assert completed.planned(**change) == expected


def test_speed_is_measured_when_asked_for(completed: Any) -> None:
    planned = completed.dry_run(*completed.configured(), "--", "bench")
    assert "Timing demo" in planned
    assert "Pretraining" not in planned


def test_jobs_that_share_a_matrix_change_nothing_after_it(completed: Any, tmp_path: Path) -> None:
    checkout = replace(completed, root=tmp_path / "copy")
    shutil.copytree(completed.root, checkout.root)
    # Jobs are those of ssu, whatever engine computed the matrices of the completed study.
    alone, shared = {"engine": "ssu"}, {"engine": "ssu", "partitions": 2}
    assert checkout.run("data", unifrac=alone).returncode == 0
    matrices = sorted(checkout.root.glob("results/demo/unifrac/unweighted/view*.parquet"))
    before, planned = [path.read_bytes() for path in matrices], checkout.planned(unifrac=alone)
    done = checkout.run("data", unifrac=shared)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "Comparing the samples of demo: unweighted, view 1, part 1 of 2" in done.stdout
    assert [path.read_bytes() for path in matrices] == before != []
    assert checkout.planned(unifrac=shared) == planned


def test_a_model_or_task_concerns_no_other(completed: Any) -> None:
    folds = {"environment": {"folds": {"seed": 5}}}
    for change, concerned, other in (
        ({"models": {"other": {"width": 32}}}, "Pretraining AAM (other) on demo", "(base)"),
        ({"tasks": folds}, "Fine-tuning AAM (base) to environment", "site"),
    ):
        messages = completed.messages(**change)
        assert concerned in messages
        assert not [message for message in messages if other in message.split()]


@contextmanager
def edited(path: Path) -> Iterator[None]:
    """Add a line of logic to a module, and take it back."""
    before = path.read_text(encoding="utf-8")
    path.write_text(before + "\n\nFLAG = True\n", encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(before, encoding="utf-8")


LOGIC: dict[str, Counter[str]] = {
    "stages/rarefy.py": Counter(rarefy=2, plot_rarefaction=1) + AFTER_RAREFYING,
    "stages/tokenize.py": Counter(tokenize=1, store_samples=1) + AFTER_SAMPLES,
    "stages/folds.py": Counter(folds=2, baselines=2, clades=2) + FIRSTS + FINETUNED,
    # Networks are asked about the clades that are named.
    "stages/baselines.py": Counter(baselines=2, clades=2)
    + FIRSTS
    + times(4, SCORED + Counter(explain=1))
    + times(2, MIXED)
    + TABLES,
    "stages/pretrain.py": PRETRAINED,
    "stages/explain.py": times(4, EXPLAINED) + Counter(summary=1),
    "model/layers/blocks.py": PRETRAINED + times(2, TRAINED),
    "tasks/finetune/fold_model.py": FINETUNED,
    "../benchmarks/speed/batches.py": Counter(),
    # A prediction for another table has intervals too.
    "learners/conformal.py": times(4, SCORED + Counter(explain=1))
    + FIRSTS
    + TABLES
    + times(2, Counter(predict=1, predict_networks=1)),
}
"""What a line of logic in a module makes stale."""


@pytest.mark.parametrize("module", LOGIC)
def test_logic(completed: Any, module: str) -> None:
    with edited(completed.root / "aam" / module):
        assert completed.planned() == LOGIC[module]


def test_scripts(completed: Any) -> None:
    """Their logic counts as that of the stage does; their words and times do not."""
    script = completed.root / "workflow" / "scripts" / "explain.py"
    before = script.read_text(encoding="utf-8")
    with edited(script):
        assert completed.planned() == LOGIC["stages/explain.py"]
    words = before.replace('"""', '"""Other words. ', 1).replace("    with", "    # Why.\n    with")
    script.write_text(words, encoding="utf-8")
    assert completed.planned() == Counter()
    script.write_text(before, encoding="utf-8")


def test_touched_cloned_and_copied(completed: Any, tmp_path: Path) -> None:
    for path in sorted(completed.root.rglob("*")):
        if ".snakemake" not in path.parts:
            path.touch()
    assert completed.planned() == Counter()
    # Without the times of the files, as git and most copying programs leave them.
    copy = replace(completed, root=tmp_path / "clone")
    shutil.copytree(completed.root, copy.root, copy_function=shutil.copyfile)
    assert copy.planned() == Counter()
    metadata = copy.root / "results" / "demo" / "simulated" / "metadata.tsv"
    metadata.write_text(metadata.read_text() + "\n", encoding="utf-8")
    planned = copy.planned()
    assert (planned["import_metadata"], planned["finetune"], planned["pretrain"]) == (1, 4, 0)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("report.html", "summary"),
        ("first.md", "first_page"),
        ("answers/site/base/predictions.tsv", "score"),
        ("clades/site.tsv", "clades"),
    ],
)
def test_a_deleted_result_is_made_again(completed: Any, name: str, rule: str) -> None:
    path = completed.root / "results" / "demo" / name
    elsewhere = completed.root / "deleted"
    path.rename(elsewhere)
    planned = completed.planned()
    elsewhere.rename(path)
    assert planned[rule] == 1


def test_a_run_ends_with_the_answers_and_the_page_also_where_nothing_is_to_be_done(
    completed: Any, tmp_path: Path
) -> None:
    checkout = replace(completed, root=tmp_path / "copy")
    shutil.copytree(completed.root, checkout.root)
    *_, config = checkout.configured()
    page = "results/demo/report.html"
    done = checkout.aam("run", config, "--forcerun", "summary", "--", page)
    job, empty, *answers, last = done.stdout.splitlines()
    assert (job, empty) == ("[1 of 1] Writing the page of demo", "")
    summary = (checkout.root / "results/demo/summary.md").read_text(encoding="utf-8")
    names = [
        f"demo, {task}, AAM ({model}): "
        for task in completed.study["tasks"]
        for model in completed.study["models"]
    ]
    assert len(answers) == len(names)
    for answer, name in zip(answers, names, strict=True):
        assert answer.startswith(name)
        assert answer.removeprefix(name) in summary
    assert last == f"Page: open {page} in a browser"
    again = checkout.aam("run", config, "--", page).stdout.splitlines()
    assert again[0].startswith("Nothing to be done")
    assert again[1:] == ["", *answers, last]
    other = checkout.aam("run", config, "--", "results/demo/inputs/table.biom")
    assert len(other.stdout.splitlines()) == 1, "nobody asked for the page"


def test_report_holds_all_figures_with_captions(completed: Any) -> None:
    done = completed.snakemake(*completed.configured(), "--report", "report.zip")
    assert done.returncode == 0, done.stdout[-4000:]
    with zipfile.ZipFile(completed.root / "report.zip") as archive:
        page = next(name for name in archive.namelist() if name.endswith("report.html"))
        text = archive.read(page).decode()
        inside = [name for name in archive.namelist() if name.endswith(".svg")]
    found = re.search(r"var results = (\{.*\});$", text, re.MULTILINE)
    assert found is not None
    entries = json.loads(found[1])
    figures = (completed.root / "results" / "demo" / "figures").rglob("*.svg")
    shown = {str(path.relative_to(completed.root)) for path in figures}
    assert len(shown) == 1 + 2 * 3 + 4 * 5 + 1 + 2 * 3
    assert len(inside) == len(shown)
    assert entries.keys() == shown | {"results/demo/benchmark/accuracy.tsv"}
    for path, entry in entries.items():
        assert len(entry["caption"]) > 100, path
        assert entry["labels"]["dataset"] == "demo"


def test_summary_links_lead_somewhere(completed: Any) -> None:
    folder = completed.root / "results" / "demo"
    text = (folder / "summary.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    page = (folder / "report.html").read_text(encoding="utf-8")
    links += re.findall(r'<a href="([^#][^"]*)"', page)
    assert len(links) > 10
    assert [link for link in links if not (folder / link).exists()] == []


@needs_browser
def test_the_page_opens_in_a_browser_without_a_word_of_complaint(completed: Any) -> None:
    page = completed.root / "results" / "demo" / "report.html"
    text, complaints = open_page(page, profile=completed.root / "browser")
    assert complaints == []
    # What its script makes, and what it is there to say.
    assert "Download as TSV" in text
    assert text.count("environment is off by") == 2
    assert text.count("site is predicted right in") == 2
    # First answers are on a page of their own.
    paths = page.parent.glob("answers/*/*/scores.json")
    reports = [TaskReport.read(path) for path in paths if path.parent.name != "first"]
    targets = [(report.kind, target) for report in reports for target in report.targets]
    encoders = [read_json(path) for path in page.parent.glob("pretrain/*/scores.json")]
    # Those of the first answers, those of other methods, to which the page links, the accuracy of
    # all tasks, importances under a red light, clades where none are named, and curves without a
    # training.
    left_out = 2 * 3 + len(reports) + 1
    for report in reports:
        clades = pd.read_csv(page.parent / "clades" / f"{report.task}.tsv", sep="\t")
        is_named = len(clades) and not is_stopped(report.kind, report.targets[0])
        left_out += not is_named
    left_out += sum(is_stopped(kind, target) for kind, target in targets)
    left_out += sum(not trains_networks(target) for _, target in targets)
    left_out += sum(encoder["steps"] == 0 for encoder in encoders)
    assert text.count("<svg") == len(list((page.parent / "figures").rglob("*.svg"))) - left_out
