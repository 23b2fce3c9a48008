"""The contract "Stale stages": one change, and exactly the jobs that it makes necessary.

The tiny study has two views, two models, and two tasks: `environment` starts from the
pretrained models and is predicted for a second study, `site` starts from scratch.
"""

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.workflow

MODEL_PLOTS = Counter(plot_pretraining=1)
TASK_PLOTS = Counter(plot_task=1)
TABLES = Counter(benchmark_accuracy=1, plot_accuracy=1, summary=1)
SCORED = Counter(score=1) + TASK_PLOTS
EXPLAINED = Counter(explain=1, plot_importance=1)
TRAINED = Counter(finetune=1) + EXPLAINED + SCORED
SPEED = Counter(benchmark_speed=1, plot_speed=1)


def times(number: int, jobs: Counter[str]) -> Counter[str]:
    return Counter({name: number * count for name, count in jobs.items()})


def after_pretraining(models: int) -> Counter[str]:
    """Jobs that follow from new pretrained models: the task `site` starts from scratch."""
    return times(models, Counter(predict=1) + TRAINED) + TABLES


PRETRAINED = times(2, Counter(pretrain=1) + MODEL_PLOTS)
FINETUNED = times(4, TRAINED) + Counter(predict=2) + TABLES
AFTER_SAMPLES = PRETRAINED + SPEED + Counter(folds=2, baselines=2) + FINETUNED
AFTER_RAREFYING = Counter(unifrac=2, augment=1) + AFTER_SAMPLES
OF_ONE_TASK = times(2, TRAINED) + TABLES
OF_NEW_FOLDS = Counter(folds=1, baselines=1, predict=2) + OF_ONE_TASK

# The task `site` starts from scratch: distances reach its score by the baselines alone.
AFTER_DISTANCES = (
    Counter(unifrac=2, baselines=2, finetune=2, predict=2)
    + times(2, EXPLAINED)
    + PRETRAINED
    + SPEED
    + times(4, SCORED)
    + TABLES
)

ROWS: dict[str, tuple[dict[str, Any], Counter[str]]] = {
    "rarefaction": (
        {"rarefaction": {"depth": 150}},
        Counter(rarefy=2, plot_rarefaction=1) + AFTER_RAREFYING,
    ),
    "one more view": (
        {"rarefaction": {"views": 3}},
        Counter(rarefy=1, unifrac=1, augment=1) + AFTER_SAMPLES,
    ),
    "tokens": (
        {"tokens": {"max_length_bp": 30}},
        Counter(tokenize=1, augment=1) + AFTER_SAMPLES,
    ),
    "unifrac": (
        {"unifrac": {"checked_pairs": 7}},
        AFTER_DISTANCES,
    ),
    "unifrac, other metrics": ({"unifrac": {"alpha": 0.1}}, Counter()),
    # Snakemake compares the names of input files; see the test of jobs below.
    "unifrac, jobs that share a matrix": (
        {"unifrac": {"partitions": 3}},
        Counter(unifrac_part=6) + AFTER_DISTANCES,
    ),
    "augmentation": ({"augmentation": {"asv_dropout": 0.1}}, Counter(augment=1) + AFTER_SAMPLES),
    "models, the one that is timed": (
        {"models": {"base": {"width": 32}}},
        Counter(pretrain=1) + MODEL_PLOTS + TRAINED + SPEED + after_pretraining(1),
    ),
    "models, another": (
        {"models": {"other": {"width": 32}}},
        Counter(pretrain=1) + MODEL_PLOTS + TRAINED + after_pretraining(1),
    ),
    "pretraining": (
        {"pretraining": {"epochs": 2}},
        PRETRAINED + SPEED + after_pretraining(2),
    ),
    "tasks, folds": (
        {"tasks": {"environment": {"folds": {"k": 3}}}},
        OF_NEW_FOLDS,
    ),
    "tasks, a test set": (
        {"tasks": {"environment": {"folds": {"test": 0.2}}}},
        OF_NEW_FOLDS,
    ),
    "tasks, what the model is told": (
        {"tasks": {"environment": {"condition": ["site"]}}},
        OF_NEW_FOLDS,
    ),
    "tasks, a transform": (
        {"tasks": {"environment": {"transform": "quantile"}}},
        Counter(predict=2) + OF_ONE_TASK,
    ),
    "tasks, few labels": (
        {"tasks": {"site": {"finetuning": {"labels": 0.5}}}},
        OF_ONE_TASK,
    ),
    "tasks, an encoder per fold": (
        {"tasks": {"environment": {"finetuning": {"inductive": True}}}},
        Counter(pretrain_inductive=2, predict=2) + OF_ONE_TASK,
    ),
    "tasks, what is scored apart": (
        {"tasks": {"site": {"report_by": ["host"]}}},
        times(2, SCORED) + TABLES,
    ),
    "optimization": (
        {"optimization": {"attention": "math"}},
        PRETRAINED + SPEED + FINETUNED,
    ),
    "tasks, fine-tuning": (
        {"tasks": {"site": {"finetuning": {"epochs": 2}}}},
        OF_ONE_TASK,
    ),
    "finetuning": ({"finetuning": {"epochs": 2}}, FINETUNED),
    "benchmark": ({"benchmark": {"steps": 3}}, SPEED + Counter(summary=1)),
    "runtime": (
        {"runtime": {"workers": 1, "log_every_s": 5, "checkpoint_every_s": 9}},
        Counter(),
    ),
    "nothing": ({}, Counter()),
}


@pytest.mark.parametrize("row", ROWS)
def test_settings(completed: Any, row: str) -> None:
    change, expected = ROWS[row]
    assert completed.planned(**change) == expected


def test_jobs_that_share_a_matrix_change_nothing_after_it(completed: Any, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(completed.root, copy)
    checkout = type(completed)(copy)
    done = checkout.run("data", unifrac={"partitions": 2})
    assert done.returncode == 0, done.stdout[-4000:]
    assert "Computing unweighted of demo, view 1: part 1 of 2" in done.stdout
    assert checkout.planned(unifrac={"partitions": 2}) == Counter()


def test_a_model_concerns_no_other_model(completed: Any) -> None:
    messages = completed.messages(models={"other": {"width": 32}})
    assert "Pretraining other on demo" in messages
    assert not [message for message in messages if "base" in message.split()]


def test_a_task_concerns_no_other_task(completed: Any) -> None:
    messages = completed.messages(tasks={"environment": {"folds": {"seed": 5}}})
    assert "Fine-tuning base to environment" in messages
    assert not [message for message in messages if "site" in message.split()]


def test_a_new_model_leaves_the_others_alone(completed: Any) -> None:
    planned = completed.planned(models={"third": {"width": 16, "heads": 2}})
    new = Counter(pretrain=1, predict=1) + MODEL_PLOTS + times(2, TRAINED) + TABLES
    assert planned == new


@contextmanager
def edited(root: Path, module: str, old: str, new: str) -> Iterator[None]:
    """Replace a piece of a module of the package, and put it back."""
    path = root / "aam" / module
    text = path.read_text(encoding="utf-8")
    assert old in text, f"the test expects {old!r} in {module}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")


LOGIC: dict[str, tuple[str, str, str, Counter[str]]] = {
    "rarefy": (
        "stages/rarefy.py",
        "reads < cfg",
        "reads <= cfg",
        Counter(rarefy=2, plot_rarefaction=1) + AFTER_RAREFYING,
    ),
    "tokenize": (
        "stages/tokenize.py",
        "> cfg[",
        ">= cfg[",
        Counter(tokenize=1, augment=1) + AFTER_SAMPLES,
    ),
    "pretrain": (
        "tasks/pretrain/results.py",
        '"format": 1',
        '"format": 2',
        PRETRAINED + after_pretraining(2),
    ),
    "a layer": (
        "nn/block.py",
        "self.dropout(self.ffn_out",
        "self.dropout(2 * self.ffn_out",
        PRETRAINED + SPEED + FINETUNED,
    ),
    "baselines": (
        "stages/baselines.py",
        "def run(",
        "FLAG = True\n\n\ndef run(",
        Counter(baselines=2) + times(4, SCORED) + TABLES,
    ),
    "scores": (
        "evaluate/metrics.py",
        "def ",
        "FLAG = True\n\n\ndef ",
        # Intervals know the scores.
        times(4, SCORED) + TABLES + Counter(predict=2),
    ),
    "intervals": (
        "evaluate/conformal.py",
        "\ndef ",
        "\nFLAG = True\n\n\ndef ",
        # A prediction for another table has intervals too.
        times(4, SCORED) + TABLES + Counter(predict=2),
    ),
    "the training of a fold": (
        "tasks/finetune/training.py",
        "logger = ",
        "flag = True\nlogger = ",
        FINETUNED,
    ),
    "importance": (
        "stages/explain.py",
        "TRUSTED = 0.5",
        "TRUSTED = 0.6",
        times(4, EXPLAINED) + Counter(summary=1),
    ),
    "the naive step": (
        "bench/naive.py",
        "ASVS_PER_CHUNK = 256",
        "ASVS_PER_CHUNK = 128",
        SPEED + Counter(summary=1),
    ),
    "folds": (
        "stages/folds.py",
        "logger = ",
        "flag = True\nlogger = ",
        Counter(folds=2, baselines=2) + FINETUNED,
    ),
}


@pytest.mark.parametrize("stage", LOGIC)
def test_logic_of_a_stage(completed: Any, stage: str) -> None:
    module, old, new, expected = LOGIC[stage]
    with edited(completed.root, module, old, new):
        assert completed.planned() == expected


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("tasks/pretrain/run.py", "logger = ", "# a comment\nlogger = "),
        ("stages/pretrain.py", '"""Pretrain one encoder', '"""Train an encoder'),
        ("data/samples.py", '"""', '"""New words. '),
        ("util/log.py", "INFO", "DEBUG"),
        ("__init__.py", '"0.', '"7.'),
    ],
)
def test_words_are_not_logic(completed: Any, module: str, old: str, new: str) -> None:
    with edited(completed.root, module, old, new):
        assert completed.planned() == Counter()


def test_a_colour_costs_pictures_only(completed: Any) -> None:
    with edited(completed.root, "evaluate/figures/style.py", '"#0072B2"', '"#000080"'):
        planned = completed.planned()
    assert planned["plot_task"] == 4
    assert {name for name in planned if not name.startswith("plot_")} == {"summary"}


def test_everything_touched(completed: Any) -> None:
    for path in sorted(completed.root.rglob("*")):
        if ".snakemake" not in path.parts:
            path.touch()
    assert completed.planned() == Counter()


def test_cloned_and_copied_again(completed: Any, tmp_path: Path) -> None:
    copy = tmp_path / "clone"
    # Without the times of the files, as git and most copying programs leave them.
    shutil.copytree(completed.root, copy, copy_function=shutil.copyfile)
    assert type(completed)(copy).planned() == Counter()


def test_a_changed_input_is_noticed(completed: Any, tmp_path: Path) -> None:
    copy = tmp_path / "changed"
    shutil.copytree(completed.root, copy)
    metadata = copy / "results" / "demo" / "simulated" / "metadata.tsv"
    metadata.write_text(metadata.read_text() + "\n", encoding="utf-8")
    planned = type(completed)(copy).planned()
    assert planned["import_metadata"] == 1
    assert planned["finetune"] == 4
    assert planned["pretrain"] == 0
