"""Pictures: reproducible, of bounded size, nothing cut off."""

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from aam.evaluate.figures import benchmark, distances, rarefaction, task, training
from aam.evaluate.report import accuracy_table, task_metrics

LONG = "a_rather_long_name_of_a_body_site_that_nobody_would_type"


def curves(path: Path) -> None:
    depths = [1, 10, 100, 1000]
    rows = [(f"s{i}", d, 10 * d / (d + 9)) for i in range(9) for d in depths[: 2 + i // 2][:4]]
    curve = pd.DataFrame(rows, columns=["sample-id", "depth", "richness"])
    dropped = pd.DataFrame({"sample-id": ["s0", "s1", "s2", "s3"]})
    rarefaction.draw(curve, dropped, 500, path)


def history(path: Path) -> None:
    names = {
        "train": ["loss", "unweighted_loss", "nucleotide_loss", "learning_rate", "gradient_norm"],
        "validation": [
            "unweighted_pearson",
            "weighted_normalized_pearson",
            "nucleotide_accuracy",
            "nucleotide_baseline_accuracy",
            "nucleotide_accuracy_unseen_asvs",
        ],
    }
    rows = [
        (step, step / 4, split, name, 1 / (step + 1))
        for split in names
        for name in names[split]
        for step in range(1, 9)
    ]
    training.draw(pd.DataFrame(rows, columns=["step", "epoch", "split", "name", "value"]), path)


def history_of_folds(path: Path) -> None:
    rows = [
        (fold, step / 4, "train", name, fold + step)
        for fold in range(3)
        for name in ("loss", "learning_rate")
        for step in range(5)
    ]
    training.draw(pd.DataFrame(rows, columns=["fold", "epoch", "split", "name", "value"]), path)


def pairs(path: Path) -> None:
    observed = np.linspace(0.2, 1, 200)
    table = pd.DataFrame({"observed": observed, "predicted": observed**1.1})
    metrics = ("unweighted", "weighted_unnormalized", "generalized")
    distances.draw_pairs(pd.concat([table.assign(metric=metric) for metric in metrics]), path)


def constant_pairs(path: Path) -> None:
    table = pd.DataFrame({"metric": "unweighted", "observed": [0.5, 0.5], "predicted": [0.4, 0.4]})
    distances.draw_pairs(table, path)


def ordination(path: Path) -> None:
    split = ["training", "held-out", "training", "training"] * 5
    embedding = list(np.random.default_rng(0).normal(size=(20, 6)))
    distances.draw_ordination(pd.DataFrame({"split": split, "embedding": embedding}), path)


def regression_report(folds: int = 12) -> tuple[pd.DataFrame, dict]:
    observed = np.arange(60.0)
    table = pd.DataFrame(
        {
            "sample-id": [str(i) for i in range(60)],
            "fold": np.arange(60) % folds,
            "observed": observed,
            "predicted": observed[::-1],
        }
    )
    scores = task_metrics("regression", table)
    names = {"kind": "regression", "model": LONG, "task": LONG}
    return table, {**scores, **names, "baselines": {"median": scores, "knn_unifrac": scores}}


def class_report(classes: int) -> tuple[pd.DataFrame, dict]:
    rng = np.random.default_rng(1)
    names = np.array([f"{LONG}_{i}" for i in range(classes)])
    shares = rng.dirichlet(np.ones(classes), 4 * classes)
    table = pd.DataFrame(
        {
            "sample-id": [str(i) for i in range(4 * classes)],
            "fold": np.arange(4 * classes) % 3,
            "observed": np.tile(names, 4),
            "predicted": names[shares.argmax(axis=1)],
            **{f"probability:{name}": shares[:, i] for i, name in enumerate(names)},
        }
    )
    scores = task_metrics("classification", table)
    report = {"kind": "classification", "model": LONG, "task": "site"}
    return table, {**scores, **report, "baselines": {"majority": scores, "random_forest": scores}}


def speed(path: Path) -> None:
    table = pd.DataFrame(
        {
            "name": ["naive", "advanced", LONG],
            "batch_size": [8, 64, 64],
            "samples_per_s": [3.0, 4500.0, np.nan],
            "peak_memory_mb": [9000.0, 800.0, np.nan],
            "speedup": [1.0, 1500.0, np.nan],
        }
    )
    benchmark.draw_speed(table, path)


def accuracy(path: Path) -> None:
    reports = [regression_report()[1], class_report(3)[1]]
    benchmark.draw_accuracy(accuracy_table(reports), path)


PICTURES: dict[str, Callable[[Path], None]] = {
    "curves": curves,
    "history": history,
    "history_of_folds": history_of_folds,
    "pairs": pairs,
    "constant_pairs": constant_pairs,
    "ordination": ordination,
    "regression": lambda path: task.draw(*regression_report(), path),
    "regression_42_folds": lambda path: task.draw(*regression_report(42), path),
    "two_classes": lambda path: task.draw(*class_report(2), path),
    "thirty_classes": lambda path: task.draw(*class_report(30), path),
    "speed": speed,
    "accuracy": accuracy,
}


@pytest.mark.parametrize("name", PICTURES)
def test_picture_is_whole_and_bounded_and_the_same_for_everyone(name, tmp_path, monkeypatch):
    figures: list[Figure] = []
    save = Figure.savefig

    def kept(figure: Figure, *arguments, **options) -> None:
        figures.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", kept)
    first, second = tmp_path / "first.png", tmp_path / "second.png"
    PICTURES[name](first)
    with mpl.rc_context({"font.size": 20, "savefig.dpi": 50, "lines.linewidth": 9}):
        PICTURES[name](second)
    assert first.read_bytes() == second.read_bytes()
    height, width = imread(first).shape[:2]
    assert width <= 1200
    assert height <= 2200
    assert not any(kind in first.read_bytes() for kind in (b"tEXt", b"iTXt", b"tIME"))
    drawn, size = figures[0].get_tightbbox(), figures[0].get_size_inches()
    assert drawn.x0 >= 0
    assert drawn.y0 >= 0
    assert drawn.x1 <= size[0]
    assert drawn.y1 <= size[1]
