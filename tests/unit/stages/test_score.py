"""The scores of a task, of networks and baselines or of baselines alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.figure import Figure
from problems import nested_of
from scipy.sparse import csr_array
from stage_calls import as_outputs

from aam.config.settings.tasks import ScoreSettings, TrainingFacts
from aam.data.predictions import read_predictions, read_results, write_predictions
from aam.data.table import FeatureTable, write_biom
from aam.evaluate import task_scores
from aam.evaluate.comparison import compare_with_guessing
from aam.evaluate.task_report import Structure, TargetReport, TaskReport, accuracy_table
from aam.report.figures import task as task_figures
from aam.stages.score import score_task
from aam.util.errors import InputError

RECIPES = {"kernel": 0.25, "full": 0.75}
"""Their weights."""
CLASSES = ["low", "mid", "high"]
SHARES = [f"probability:{name}" for name in CLASSES]
SETTINGS: dict[str, Any] = {
    "dataset": "d",
    "task": "t",
    "columns": ["age"],
    "structure": {"column": "host", "stated": True},
    "kind": "regression",
    "classes": None,
    "bounds": [None, None],
    "report_by": [],
}
TRAINING = TrainingFacts(
    recipe="full",
    start="pretrained",
    labels=1.0,
    evaluation="transductive",
    start_directory=None,
)


@pytest.fixture
def folds() -> pd.DataFrame:
    """Return the folds of some labelled samples, in no order."""
    place = np.random.default_rng(0).permutation(24)
    table = pd.DataFrame({"sample-id": [f"{i:04d}" for i in place], "fold": place % 3})
    return table.assign(observed=10.0 * place, group="")


@pytest.fixture
def scored(tmp_path: Path, folds: pd.DataFrame) -> Callable[..., TaskReport]:
    """Return what scores predictions of networks, or none, and of baselines."""

    def run(
        own: pd.DataFrame | None, baselines: pd.DataFrame, labels: float = 1.0, **changes: Any
    ) -> TaskReport:
        names = ("baselines", "folds", "metadata", "nested_baselines")
        files = {name: tmp_path / name for name in names}
        outputs = {"scores": tmp_path / "scores", "predictions": tmp_path / "predictions.tsv"}
        write_predictions(files["baselines"], baselines)
        is_constant = baselines["baseline"].isin(["median", "majority"])
        nested_of(baselines[~is_constant]).to_parquet(files["nested_baselines"])
        folds.to_csv(files["folds"], sep="\t", index=False)
        ids = folds["sample-id"].tolist()
        for name, scale in {"table": 10, "rarefied": 1}.items():
            counts = np.array([[1 + scale * int(number), int(number) % 3] for number in ids])
            table = FeatureTable(ids, ["ACGT", "TTTT"], csr_array(counts.astype(np.int64)))
            files[name] = tmp_path / name
            write_biom(files[name], table, {})
        study = ["ab"[i % 2] for i in range(len(folds))]
        table = pa.table({"sample_id": folds["sample-id"].to_numpy(object), "study": study})
        pq.write_table(table, files["metadata"])
        if own is not None:
            files |= {name: tmp_path / name for name in ("predictions", "nested", "recipes")}
            write_predictions(files["predictions"], own)
            nested_of(own).to_parquet(files["nested"])
            write_predictions(files["recipes"], of_recipes(own))
        settings = {**SETTINGS, "answer": "first", **changes}
        if own is not None:
            training = TRAINING.model_copy(update={"labels": labels})
            settings |= {"answer": "m", "training": training}
        settings = ScoreSettings.model_validate(settings)
        score_task(**files, settings=settings, **as_outputs(outputs))
        return TaskReport.read(outputs["scores"])

    return run


def only(report: TaskReport) -> TargetReport:
    (target,) = report.targets
    return target


def of_recipes(own: pd.DataFrame) -> pd.DataFrame:
    """Return predictions of the first recipe, which are those of the model, and of a worse one."""
    first, second = (own.assign(recipe=name, weight=value) for name, value in RECIPES.items())
    if "probability:mid" not in own:
        second["predicted"] = second["observed"] + 3.0 * (second["predicted"] - second["observed"])
    return pd.concat([first, second])


def predicted(folds: pd.DataFrame, error: float) -> pd.DataFrame:
    """Return predictions of the samples of the folds, off by about `error`."""
    noise = np.random.default_rng(0).normal(0, error, len(folds))
    return folds.drop(columns="group").assign(predicted=folds["observed"] + noise)


def test_networks_are_compared_with_every_baseline_and_mixed_with_them(folds, scored):
    own, other = (predicted(folds, error) for error in (1.0, 40.0))
    forest = own.sample(frac=1, random_state=0).assign(baseline="random_forest")
    forest["predicted"] = 2 * forest["observed"] - forest["predicted"]
    baselines = pd.concat([other.assign(baseline="median"), forest])
    report = scored(own, baselines, report_by=["study"])
    assert (report.answer, report.task) == ("m", "t")
    target = only(report)
    networks = target.networks
    assert {name: one.weight for name, one in networks.training.recipes.items()} == RECIPES
    scores = {name: one.score for name, one in networks.training.recipes.items()}
    mae = networks.scores["mae_fold_mean"]
    assert scores == pytest.approx({"kernel": mae, "full": 3 * mae}, rel=1e-6)
    assert networks.by["study"].keys() == {"a", "b"}
    assert networks.training.evaluation == "transductive"
    assert [one.name for one in target.baselines] == ["median", "random_forest"]
    assert networks.comparisons.keys() == {"random_forest"}
    against = networks.comparisons["random_forest"]
    assert against.difference == pytest.approx(0, abs=1e-6)
    assert against.holm_p == against.p
    guessing = networks.guessing
    assert guessing.score + guessing.difference == pytest.approx(mae)
    assert guessing.difference < 0
    assert guessing.p < 0.05
    mixed = target.best
    assert mixed is target.super_learner
    assert mixed.guessing.score == guessing.score
    assert mixed.guessing.difference < guessing.difference
    # Errors of opposite signs: half of each, and nothing of the constant.
    weights = mixed.mixing.weights
    assert weights == pytest.approx({"m": 0.5, "random_forest": 0.5}, abs=0.01)
    assert mixed.scores["mae_pooled"] < 0.1 * networks.scores["mae_pooled"]
    without = mixed.mixing.without_networks
    assert without.score == target.method("random_forest").scores["mae_fold_mean"]
    assert without.comparison.difference < 0
    low, high = networks.interval
    assert low < mae < high
    # A forest of all labels is not mixed with networks of few.
    few = scored(own, baselines, labels=0.1, bounds=[0, None])
    assert few.bounds == (0, None)
    assert only(few).super_learner is None
    assert only(few).best is only(few).networks
    assert only(few).best.comparisons == networks.comparisons


def test_baselines_alone_are_mixed_where_there_are_several(folds, scored, tmp_path):
    median, forest, machine = (
        predicted(folds, error).assign(baseline=name)
        for name, error in (("median", 90.0), ("random_forest", 9.0), ("kernel_clr", 4.0))
    )
    target = only(scored(None, pd.concat([median, forest, machine])))
    assert target.networks is None
    assert target.best is target.super_learner
    assert target.best.mixing.weights.keys() == {"random_forest", "kernel_clr"}
    assert target.best.mixing.without_networks is None
    assert target.best.comparisons.keys() == {"random_forest", "kernel_clr"}
    for method in target.baselines:
        assert method.interval[0] < method.scores["mae_fold_mean"] < method.interval[1]
    assert only(scored(None, pd.concat([median, forest]))).leading == "random_forest"
    report = scored(None, median)
    assert (report.answer, only(report).leading) == ("first", "median")


def mean_error(axes: Axes) -> float:
    """Return the mean absolute error of the points of a panel."""
    drawn = [one.get_offsets() for one in axes.collections if isinstance(one, PathCollection)]
    observed, guess = np.concatenate([np.asarray(points) for points in drawn]).T
    return float(np.abs(observed - guess).mean())


def mean_diagonal(cells: Any) -> float:
    """Return the mean share of each class that the cells of a confusion matrix have right."""
    shares = np.asarray(cells).reshape(len(CLASSES), len(CLASSES))
    return float(np.diag(shares).mean())


def draw_answer(
    report: TaskReport, folder: Path, baselines: pd.DataFrame, figures: list[Figure], **more: Any
) -> tuple[list[Axes], dict[str, Axes]]:
    """Return the panels of the answer, and those of the other methods by their title."""
    task_figures.draw(read_results(folder / "predictions.tsv"), report, folder / "answer.svg")
    task_figures.draw_others(baselines, report, folder / "others.svg", **more)
    answer, others = figures[-2:]
    shown = [axes for axes in others.axes if axes.get_visible()]
    return answer.axes, {axes.get_title(loc="left").split("\n")[0]: axes for axes in shown}


@pytest.mark.parametrize("has_networks", [False, True])
def test_the_figure_of_numbers_shows_the_answer_and_links_to_every_other_method(
    has_networks, folds, scored, tmp_path, figures
):
    median, forest, machine = (
        predicted(folds, error).assign(baseline=name)
        for name, error in (("median", 90.0), ("random_forest", 9.0), ("kernel_clr", 4.0))
    )
    forest["predicted"] = 2 * forest["observed"] - forest["predicted"]
    baselines = pd.concat([median, forest, machine])
    own = predicted(folds, 6.0) if has_networks else None
    report = scored(own, baselines)
    target = only(report)
    panels, others = draw_answer(report, tmp_path, baselines, figures, networks=own)
    score = target.super_learner.scores["mae_pooled"]
    assert mean_error(panels[0]) == pytest.approx(score, rel=1e-5)
    for method in target.baselines:
        assert mean_error(panels[0]) != pytest.approx(method.scores["mae_pooled"])
    expected = {"random forest": "random_forest", "kernel on CLR": "kernel_clr"}
    expected |= {"AAM": "m"} if has_networks else {}
    assert others.keys() == expected.keys()
    for label, name in expected.items():
        score = target.method(name).scores["mae_pooled"]
        assert mean_error(others[label]) == pytest.approx(score, rel=1e-5)


def test_the_figure_of_classes_shows_the_answer_and_links_to_every_other_method(
    folds, scored, tmp_path, figures
):
    code = np.arange(len(folds)) % 3
    own = folds[["sample-id", "fold"]].assign(observed=np.array(CLASSES)[code])
    parts = [own.assign(baseline="majority", predicted="low", **dict.fromkeys(SHARES, 1 / 3))]
    for name, wrong in (("random_forest", 9), ("kernel_clr", 6)):
        guess = np.where(np.arange(len(folds)) < wrong, (code + 1) % 3, code)
        sure = {share: 0.2 + 0.4 * (guess == i) for i, share in enumerate(SHARES)}
        parts.append(own.assign(baseline=name, predicted=np.array(CLASSES)[guess], **sure))
    baselines = pd.concat(parts)
    report = scored(None, baselines, kind="classification")
    target = only(report)
    panels, others = draw_answer(report, tmp_path, baselines, figures)
    (cells,) = (one for one in panels[0].collections if isinstance(one, PolyCollection))
    score = target.super_learner.scores["balanced_accuracy"]
    assert mean_diagonal(cells.get_array()) == pytest.approx(score)
    recalls = [bar.get_width() for bar in panels[1].patches]
    assert np.mean(recalls) == pytest.approx(score)
    assert others.keys() == {"random forest", "kernel on CLR"}
    for label, name in (("random forest", "random_forest"), ("kernel on CLR", "kernel_clr")):
        (image,) = others[label].images
        expected = target.method(name).scores["balanced_accuracy"]
        assert mean_diagonal(image.get_array()) == pytest.approx(expected)


def test_a_method_alone_is_the_answer_of_its_figure(folds, scored, tmp_path, figures):
    baselines = pd.concat(
        predicted(folds, error).assign(baseline=name)
        for name, error in (("median", 90.0), ("random_forest", 9.0))
    )
    report = scored(None, baselines)
    panels, others = draw_answer(report, tmp_path, baselines, figures)
    assert mean_error(panels[0]) == pytest.approx(only(report).best.scores["mae_pooled"])
    assert "Predicted by the random forest" in panels[0].get_title(loc="left")
    assert only(report).others == ()
    assert others.keys() == {""}
    assert "No other method" in (tmp_path / "others.svg").read_text(encoding="utf-8")


def test_scores_of_another_version_are_refused_in_one_sentence(folds, scored, tmp_path):
    scored(None, predicted(folds, 1.0).assign(baseline="median"))
    path = tmp_path / "scores"
    path.write_text(path.read_text().replace('"leading"', '"first"'))
    with pytest.raises(InputError, match="delete the file and run again"):
        TaskReport.read(path)


def test_a_column_that_is_not_there_writes_nothing(folds, scored, tmp_path):
    own = predicted(folds, 1.0)
    with pytest.raises(InputError, match="'studdy'.*study"):
        scored(own, own.assign(baseline="median"), report_by=["studdy"])
    assert not (tmp_path / "scores").exists()


def test_tests_and_intervals_count_groups_of_samples_by_their_ids(folds, scored, tmp_path):
    folds["group"] = [f"host{int(name) // 6}-{int(name) % 3}" for name in folds["sample-id"]]
    # The predictions are in another order than the folds.
    own = predicted(folds, 5.0).sample(frac=1, random_state=1)
    forest = own.assign(baseline="random_forest", predicted=own["observed"] + 9.0)
    target = only(scored(own, forest))
    written = read_predictions(tmp_path / "predictions")
    by_id = folds.set_index("sample-id")["group"].loc[written["sample-id"]]
    groups = folds["group"].nunique()
    structure = Structure(column="host", groups=groups, independent=False, stated=True)
    assert target.structure == structure
    guessing = target.networks.guessing
    assert guessing == compare_with_guessing("regression", written, by_id)
    assert guessing != compare_with_guessing("regression", written, folds["group"])


def test_samples_are_independent_where_no_two_share_a_group(folds, scored):
    own = predicted(folds, 5.0)
    settings = {"column": None, "stated": False}
    target = only(scored(own, own.assign(baseline="median"), structure=settings))
    assert target.structure == Structure(**settings, groups=None, independent=True)
    folds["group"] = "host" + folds["sample-id"]
    target = only(scored(own, own.assign(baseline="median"), structure=settings))
    assert target.structure == Structure(**settings, groups=len(folds), independent=True)


def test_rivals_and_other_groups_are_asked_of_the_scored_samples(folds, scored, monkeypatch):
    folds["group"] = "host" + (folds["fold"].astype(str))
    folds.loc[:3, "fold"] = -1
    own = predicted(folds, 1.0)
    asked = {}

    def measure_rivals(observed, predictions, rivals, *, skill, seed):
        asked.update(observed=observed, ids=predictions["sample-id"], rivals=rivals)
        return ()

    monkeypatch.setattr(task_scores, "measure_rivals", measure_rivals)
    assert only(scored(own, own.assign(baseline="median"))).rivals == ()
    known = folds[4:].set_index("sample-id").loc[asked["ids"]]
    assert asked["observed"].value_NK[:, 0].tolist() == known["observed"].tolist()
    assert len(set(asked["observed"].unit_N)) == known["group"].nunique()
    by_name = {rival.name: rival for rival in asked["rivals"]}
    assert by_name.keys() == {"study", "reads", "richness"}
    reads = known.index.astype(int).to_numpy()
    bins = by_name["reads"].level_N
    assert (np.diff(bins[np.argsort(reads)]) >= 0).all(), "in the order of reads before rarefaction"


def test_intervals_have_a_row_per_sample_and_test_samples_are_scored_apart(folds, scored, tmp_path):
    folds.loc[:3, "fold"] = -1
    own = predicted(folds, 5.0)
    target = only(scored(own, own.assign(baseline="median")))
    assert target.networks.n == len(own) - 4
    assert target.networks.test.n == target.method("median").test.n == 4
    assert target.coverage.test.n == 4
    table = pd.read_csv(tmp_path / "predictions.tsv", sep="\t", dtype={"sample-id": str})
    assert list(table) == ["sample-id", "fold", "observed", "predicted", "lower", "upper"]
    assert table["sample-id"].tolist() == own["sample-id"].tolist()
    covered = table["observed"].between(table["lower"], table["upper"])
    assert target.coverage.coverage == covered[table["fold"] >= 0].mean()


def test_the_table_of_intervals_is_of_the_super_learner_where_there_is_one(folds, scored, tmp_path):
    own = predicted(folds, 5.0)
    error = own["predicted"] - own["observed"]
    forest = own.assign(predicted=own["observed"] + error.to_numpy()[::-1])
    low, high = own["predicted"] - 20, own["predicted"] + 20
    wide = own.assign(**{"quantile:0.05": low, "quantile:0.95": high})
    target = only(scored(wide, forest.assign(baseline="random_forest")))
    table = pd.read_csv(tmp_path / "predictions.tsv", sep="\t", dtype={"sample-id": str})
    covered = table["observed"].between(table["lower"], table["upper"])
    assert target.coverage.coverage == pytest.approx(covered.mean())
    size = (table["upper"] - table["lower"]).mean()
    assert target.coverage.size == pytest.approx(size, rel=1e-6)
    error = (table["predicted"] - table["observed"]).abs().mean()
    assert error == pytest.approx(target.super_learner.scores["mae_pooled"], rel=1e-6)


def test_every_target_of_a_task_is_scored(folds, scored, tmp_path):
    small = predicted(folds, 1.0).assign(target="bmi")
    large = predicted(folds, 9.0).assign(target="age")
    both = pd.concat([small, large])
    report = scored(both, both.assign(baseline="median"), columns=["bmi", "age"])
    assert report.columns == ("bmi", "age")
    bmi, age = report.targets
    assert age.best.scores["mae_pooled"] > 5 * bmi.best.scores["mae_pooled"]
    assert age.coverage.size > 5 * bmi.coverage.size
    assert age.method("median").scores["mae_pooled"] == age.best.scores["mae_pooled"]
    table = pd.read_csv(tmp_path / "predictions.tsv", sep="\t")
    assert table["target"].tolist() == both["target"].tolist()


def test_ordered_classes_keep_their_order_whatever_the_columns(folds, scored, tmp_path):
    code = np.arange(len(folds)) % 3
    shares = {f"probability:{name}": 0.2 + 0.4 * (code == i) for i, name in enumerate(CLASSES)}
    own = folds[["sample-id", "fold"]].assign(observed=np.array(CLASSES)[code])
    wrong = np.where(np.arange(len(folds)) < 6, "high", own["observed"])
    own = own.assign(predicted=wrong, **dict(sorted(shares.items())))
    report = scored(own, own.assign(baseline="majority"), kind="ordinal", classes=CLASSES)
    networks = only(report).networks
    assert networks.confusion.classes == tuple(CLASSES)
    assert networks.scores["mae_ranks"] == pytest.approx((2 * 2 + 2 * 1) / len(folds))
    guess = 1 / len(CLASSES)
    majority = only(report).method("majority")
    assert networks.guessing.score == majority.scores["balanced_accuracy"] == pytest.approx(guess)
    assert majority.interval is None
    accuracy = networks.scores["balanced_accuracy"]
    assert accuracy == pytest.approx(guess + networks.guessing.difference)
    row = accuracy_table([report]).set_index("name").loc["majority"]
    assert row["balanced_accuracy"] == pytest.approx(guess)
    assert row["accuracy"] == networks.scores["accuracy"]
    shown = ["likeliest", "prediction_set", *(f"probability:{name}" for name in CLASSES)]
    assert list(pd.read_csv(tmp_path / "predictions.tsv", sep="\t"))[-5:] == shown
    assert only(report).coverage.size >= 1
    assert sum(one.n for one in only(report).reliability) == len(folds)
