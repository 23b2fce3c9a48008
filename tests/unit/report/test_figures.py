import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection
from matplotlib.image import imread
from matplotlib.text import Text
from problems import predictions_of
from task_reports import GUESSING, method_of, target_of, task_of

from aam.data.target import Bounds
from aam.evaluate.importance import Importance
from aam.evaluate.scores import SUPER_LEARNER
from aam.evaluate.task_report import (
    Guessing,
    MethodReport,
    TargetReport,
    TaskReport,
    accuracy_table,
)
from aam.learners.conformal import cross_intervals
from aam.report.figures import bars, distances, importance, rarefaction, task
from aam.report.figures import history as training
from aam.report.labels import taxon_name

BASELINES = ("majority", "random_forest", "gradient_boosting", "elastic_net", "kernel_unifrac")
LONG = "a_rather_long_name_of_a_body_site_that_nobody_would_type"


def curves(path: Path) -> None:
    depths = [1, 10, 100, 1000]
    rows = [(f"s{i}", d, 10 * d / (d + 9)) for i in range(9) for d in depths[: 2 + i // 2][:4]]
    curve = pd.DataFrame(rows, columns=["sample-id", "depth", "richness"])
    rarefaction.draw(curve, pd.DataFrame({"sample-id": ["s0", "s1", "s2", "s3"]}), 500, path)


TRAINED = {"loss": 1.0, "nucleotide_loss": 2.0, "learning_rate": 1e-3, "gradient_norm": 2.0}
VALIDATED = {
    "unweighted_pearson": 0.9,
    "weighted_normalized_pearson": 0.8,
    "nucleotide_accuracy": 0.5,
    "nucleotide_baseline_accuracy": 0.4,
    "nucleotide_accuracy_unseen_asvs": 0.3,
}
WATCHED = {
    "samples_per_s": 1234.0,
    "step_s": 0.05,
    "loading_share": 0.02,
    "memory_mb": 1024.0,
    "peak_memory_mb": 2048.0,
    "gpu_power_w": np.nan,
}


def history(path: Path) -> None:
    rng = np.random.default_rng(2)
    rows = [
        (step / 4, split, name, value / (step if split == "train" else 1) * (1 + rng.random() / 10))
        for split, values in (("train", TRAINED), ("validation", VALIDATED), ("system", WATCHED))
        for name, value in values.items()
        for step in range(1, 41)
    ]
    training.draw(pd.DataFrame(rows, columns=["epoch", "split", "name", "value"]), path)


def history_of_folds(path: Path) -> None:
    epochs = pd.DataFrame({"epoch": np.arange(5) / 4, "split": "train", "value": range(1, 6)})
    runs = [epochs.assign(fold=f, name=n) for f in range(3) for n in ("loss", "learning_rate")]
    training.draw(pd.concat(runs), path)


def pairs(path: Path) -> None:
    observed = np.linspace(0.2, 1, 200)
    table = pd.DataFrame({"observed": observed, "predicted": observed**1.1})
    parts = [table.assign(metric=metric) for metric in ("unweighted", "weighted_unnormalized")]
    constant = table.head(2).assign(metric="generalized", observed=0.5, predicted=0.4)
    distances.draw_pairs(pd.concat([*parts, constant]), path)


def ordination(path: Path) -> None:
    split = ["training", "held-out", "training", "training"] * 5
    embedding = list(np.random.default_rng(0).normal(size=(20, 6)))
    ids = [f"s{i}" for i in range(20)]
    table = pd.DataFrame({"sample_id": ids, "split": split, "embedding": embedding})
    ages, hosts = [*map(str, range(19)), None], [f"h{i % 9}" for i in range(20)]
    metadata = pd.DataFrame({"sample_id": ids[::-1], "age": ages, "host": hosts})
    distances.draw_ordination(table, metadata, ["age", "host"], path)


def regression_report(
    folds: int = 12, test: int = 0, bounds: Bounds = (None, None)
) -> tuple[pd.DataFrame, TaskReport]:
    """Return intervals and scores of a number."""
    observed = np.arange(60.0)
    fold = np.where(np.arange(60) < test, -1, np.arange(60) % folds)
    table = predictions_of(observed, observed[::-1], fold)
    report = task_of("regression", LONG, regression_target(table, "age"))
    report = report.model_copy(update={"bounds": bounds})
    return cross_intervals(table, bounds), report


def regression_target(table: pd.DataFrame, column: str) -> TargetReport:
    """Return networks, a mixture and two baselines that all predict alike."""
    against = GUESSING.model_copy(update={"interval": (25.25, 36.5)})
    own = method_of("regression", table, "base", "network", guessing=against)
    others = [method_of("regression", table, name) for name in ("median", "knn_unifrac")]
    return target_of(table, [own, *others], column)


def several_targets() -> tuple[pd.DataFrame, TaskReport]:
    """Return two targets, the second with quantiles of its own width."""
    table, report = regression_report(3, test=9)
    large = table.assign(observed=10 * table["observed"])
    parts = [large.assign(target="bmi"), table.assign(target="age")]
    (target,) = report.targets
    targets = [target.model_copy(update={"column": name}) for name in ("bmi", "age")]
    return pd.concat(parts), task_of("regression", LONG, *targets)


def class_report(classes: int) -> tuple[pd.DataFrame, TaskReport]:
    names = [f"{LONG}_{i}" for i in range(classes)]
    table, methods = classified(names)
    return cross_intervals(table), task_of(
        "classification", "site", target_of(table, methods, "site")
    )


def classified(names: list[str]) -> tuple[pd.DataFrame, list[MethodReport]]:
    """Return predictions of classes, and methods that all predict them."""
    classes = len(names)
    shares = np.random.default_rng(1).dirichlet(np.ones(classes), 4 * classes)
    predicted, fold = np.array(names)[shares.argmax(axis=1)], np.arange(4 * classes) % 3
    table = predictions_of(np.tile(names, 4), predicted, fold, shares, names)
    own = method_of("classification", table, "base", "network")
    others = [own.model_copy(update={"name": name, "role": "baseline"}) for name in BASELINES]
    return table, [own, *others]


def others(table: pd.DataFrame, report: TaskReport, path: Path) -> None:
    names = {method.name for target in report.targets for method in target.others}
    baselines = pd.concat([table.assign(baseline=name) for name in sorted(names)])
    task.draw_others(baselines, report, path)


def accuracy(path: Path) -> None:
    bars.draw_accuracy(accuracy_table([regression_report()[1], class_report(3)[1]]), path)


def importance_report(**changes: Any) -> TaskReport:
    """Return a task whose importances are drawn."""
    table = predictions_of(np.arange(20.0), np.arange(20.0) + 1, np.arange(20) % 3)
    method = method_of("regression", table, "base", "network", **changes)
    return task_of("regression", "age", target_of(table, [method], "age"))


def important(path: Path, outputs: int, asvs: int = 30) -> None:
    ids = [f"{'ACGT' * 40}{i}" for i in range(asvs)]
    explained = Importance(asvs, [f"a_class_with_a_rather_long_name_{c}" for c in range(outputs)])
    gradients_AC = np.random.default_rng(0).normal(size=(asvs, outputs))
    explained.add(
        np.arange(asvs),
        attention_A=np.full(asvs, 1 / asvs),
        gradients_AC=gradients_AC,
        change_C=gradients_AC.sum(axis=0),
        removed_R=np.empty(0, int),
        removed_RC=np.empty((0, outputs)),
    )
    tree = path.with_suffix(".nwk")
    tree.write_text(f"(({','.join(f'{name}:1' for name in ids)}):0.3);")
    check = {**explained.check(), "gradients": 0.9712}
    importance.draw(explained.table(ids, ids), tree, check, importance_report(), path)


FIGURES: dict[str, Callable[[Path], None]] = {
    "curves": curves,
    "history": history,
    "history_of_folds": history_of_folds,
    "history_of_nothing": lambda path: training.draw(pd.DataFrame(columns=["name", "value"]), path),
    "pairs": pairs,
    "ordination": ordination,
    "regression": lambda path: task.draw(*regression_report(), path),
    "several_targets": lambda path: task.draw(*several_targets(), path),
    "two_classes": lambda path: task.draw(*class_report(2), path),
    "thirty_classes": lambda path: task.draw(*class_report(30), path),
    "others_of_numbers": lambda path: others(*regression_report(), path),
    "others_of_several_targets": lambda path: others(*several_targets(), path),
    "others_of_two_classes": lambda path: others(*class_report(2), path),
    "others_of_thirty_classes": lambda path: others(*class_report(30), path),
    "accuracy": accuracy,
    "importance": lambda path: important(path, 1),
    "importance_of_one_asv": lambda path: important(path, 1, 1),
    "importance_of_classes": lambda path: important(path, 20),
}


@pytest.mark.parametrize("name", FIGURES)
def test_figure_is_whole_and_bounded(name, tmp_path, figures):
    path = tmp_path / "figure.png"
    FIGURES[name](path)
    assert (np.array(imread(path).shape[:2]) <= (2200, 1200)).all()
    assert not any(kind in path.read_bytes() for kind in (b"tEXt", b"iTXt", b"tIME"))
    drawn, size = figures[0].get_tightbbox(), figures[0].get_size_inches()
    assert drawn.min.min() >= 0
    assert (drawn.max <= size).all()
    assert not any("mathdefault" in text.get_text() for text in figures[0].findobj(Text))


@pytest.mark.parametrize("make", [regression_report, lambda: class_report(2)])
def test_a_figure_says_whose_predictions_and_probabilities_it_draws(make, figures, tmp_path):
    table, report = make()
    task.draw(table, report, tmp_path / "alone.png")
    (target,) = report.targets
    mixed = target.best.model_copy(update={"name": SUPER_LEARNER, "role": "super learner"})
    changes = {"methods": (mixed, *target.methods), "leading": SUPER_LEARNER}
    several = task_of(report.kind, report.task, target.model_copy(update=changes))
    task.draw(table, several, tmp_path / "mixed.png")
    texts = [[text.get_text() for text in figure.findobj(Text)] for figure in figures]
    assert not any("super learner" in text for text in texts[0])
    assert "AAM" in texts[0], "its bar"
    drawn = ["Predicted by "]
    if report.kind != "regression":
        drawn = ["Predicted by ", "Balanced accuracy", "ROC", "Calibration"]
    for name in drawn:
        titles_of_panels = [text for text in texts[1] if name in text]
        assert any("the super learner" in text for text in titles_of_panels), name


def test_names_are_text_and_no_formulas(tmp_path):
    table, methods = classified(["$\\frac{1}{$", "other"])
    report = task_of("classification", "site", target_of(table, methods, "site"))
    task.draw(cross_intervals(table), report, tmp_path / "classes.svg")
    assert "$\\frac{1}{$" in (tmp_path / "classes.svg").read_text(encoding="utf-8")


def titles(path: Path) -> list[str]:
    """Return what an SVG says where the pointer is."""
    texts = re.findall(r"<title>(.*?)</title>", path.read_text(encoding="utf-8"), re.DOTALL)
    return [html.unescape(text) for text in texts]


def test_an_svg_names_every_sample_and_is_the_same_for_everyone(tmp_path):
    table, report = regression_report(3, test=6)
    table["sample-id"] = [f'<{name}> & "co"' for name in table["sample-id"]]
    first, second = tmp_path / "first.svg", tmp_path / "second.svg"
    task.draw(table, report, first)
    with mpl.rc_context({"svg.hashsalt": "mine", "svg.fonttype": "path"}):
        task.draw(table, report, second)
    assert first.read_bytes() == second.read_bytes()
    ElementTree.parse(first)
    said = titles(first)
    sample = table.iloc[7]
    predicted = f"predicted {sample['predicted']:g}"
    tooltip = f"{sample['sample-id']}\nobserved 7, {predicted}, fold {sample['fold']}"
    assert said.count(tooltip) == 1
    assert sum(text.startswith("<") for text in said) == len(table)


def test_of_many_samples_some_of_every_fold_are_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(task, "MOST_POINTS", 20)
    table, report = regression_report(3)
    task.draw(table, report, tmp_path / "some.svg")
    said = {text.split("\n")[0] for text in titles(tmp_path / "some.svg")}
    drawn = [name for name in table["sample-id"] if name in said]
    assert len(drawn) == 20
    assert set(table.set_index("sample-id").loc[drawn, "fold"]) == {0, 1, 2}
    assert "20 are drawn" in (tmp_path / "some.svg").read_text(encoding="utf-8")


def test_an_ordination_says_the_value_of_the_sample_under_the_pointer(tmp_path):
    ordination(tmp_path / "ordination.svg")
    said = titles(tmp_path / "ordination.svg")
    # The metadata have the samples the other way round.
    assert "s19\n0" in said
    assert "s0\nh1" in said
    assert "s1\nheld-out" in said
    assert len(said) == 20 + 19 + 20


def test_a_watched_run_shows_what_it_took_in_plain_units(figures, tmp_path):
    history(tmp_path / "history.png")
    visible = [axes for axes in figures[0].axes if axes.get_visible()]
    shown = {axes.get_title(loc="left"): axes for axes in visible}
    assert list(shown) == [
        "Loss",
        "Distances between held-out samples",
        "Masked nucleotides of held-out samples",
        "Learning rate",
        "Gradient, running median",
        "Throughput, running median",
        "Memory",
        "Waiting for data, running median",
    ]
    memory = {line.get_label(): line.get_ydata().mean() for line in shown["Memory"].lines}
    assert memory == pytest.approx({"process": 1.05, "peak on the device": 2.1}, rel=0.03)
    waiting = shown["Waiting for data, running median"]
    assert waiting.lines[-1].get_ydata().mean() == pytest.approx(2.1, rel=0.03)
    assert waiting.get_ylim() == (0, 10)


def test_intervals_are_those_of_the_table(figures, tmp_path):
    for bounds in ((None, None), (0, 55.5)):
        task.draw(*regression_report(3, bounds=bounds), tmp_path / "predictions.png")
    ends = []
    for figure in figures:
        lines = [one for one in figure.axes[0].collections if isinstance(one, LineCollection)]
        ends.append(np.concatenate([path.vertices[:, 1] for path in lines[0].get_paths()]))
    free, cut = ends
    assert free.min() < 0
    assert free.max() > 60
    assert (cut.min(), cut.max()) == (0, 55.5)
    assert np.isin(free[(free > 0) & (free < 55.5)], cut).all()


def test_bars_stand_beside_their_tips_which_are_called_by_their_taxa(figures, tmp_path):
    columns = {"importance": [3.0, 2.0, 1.0], "direction": [1, -1, 1]}
    taxa = [np.nan, "k__B; g__Rothia", np.nan]
    columns |= {"feature-id": ["B", "TACGTAGGAA", "C"], "taxon": taxa}
    (tmp_path / "tree.nwk").write_text("((TACGTAGGAA:1,B:2):0.5,C:4);")
    check = {"outputs": ["age"], "samples": 3, "gradients": None}
    table, tree, report = pd.DataFrame(columns), tmp_path / "tree.nwk", importance_report()
    importance.draw(table, tree, check, report, tmp_path / "p.svg")
    labels = [label.get_text() for label in figures[0].axes[1].get_yticklabels()]
    widths = [bar.get_width() for bar in figures[0].axes[-1].patches]
    expected = {"g__Rothia (TACGTAGG)": 2.0, "B": 3.0, "C": 1.0}
    assert dict(zip(labels, widths, strict=True)) == expected
    assert "k__B; g__Rothia\nTACGTAGGAA\n2" in titles(tmp_path / "p.svg")


@pytest.mark.parametrize("p", [0.001, 0.5])
def test_importances_of_a_task_that_predicts_nothing_are_a_sentence(p, tmp_path):
    (tmp_path / "tree.nwk").write_text("(A:1,B:2);")
    table = pd.DataFrame(
        {"feature-id": ["A", "B"], "importance": [2.0, 1.0], "direction": [1.0, -1.0]}
    )
    check = {"outputs": ["age"], "samples": 3, "gradients": 0.9}
    guessing = Guessing(score=9.0, difference=-1.0, p=p)
    report = importance_report(guessing=guessing)
    path = tmp_path / "importance.svg"
    importance.draw(table, tmp_path / "tree.nwk", check, report, path)
    text = path.read_text(encoding="utf-8")
    assert ("are not shown, because the red light" in text) == (p == 0.5)
    assert ("rank correlation" in text) == (p == 0.001)


def test_classes_have_their_own_order_and_none_is_left_out_of_a_legend(tmp_path, figures):
    """The keys of the report are sorted as text; Matplotlib hides labels such as `_b`."""
    words = ["2", "_b", "10"]
    table, methods = classified(words)
    report = task_of("classification", "site", target_of(table, methods, "site"))
    report.write(tmp_path / "scores.json")
    written = TaskReport.read(tmp_path / "scores.json")
    task.draw(cross_intervals(table), written, tmp_path / "classes.svg")
    _, recall, roc, *_ = figures[0].axes
    for texts in (recall.get_yticklabels(), roc.get_legend().get_texts()):
        assert [text.get_text().split()[0] for text in texts] == words


@pytest.mark.parametrize(
    ("taxon", "name"),
    [
        ("k__Bacteria; p__Firmicutes; f__X; g__; s__", "f__X"),
        ("d__Bacteria;g__Rothia;s__Rothia_mucilaginosa", "g__Rothia s__Rothia_mucilaginosa"),
        ("Unassigned", "Unassigned"),
        ("k__; p__", "k__; p__"),
    ],
)
def test_a_taxon_is_called_by_its_last_named_rank(taxon, name):
    assert taxon_name(taxon) == name
