"""The stage `score`: targets, test samples, groups, order of classes, and what it writes."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from aam.evaluate.bootstrap import bootstrap_intervals
from aam.evaluate.predictions import read_predictions, write_predictions
from aam.runtime.run_options import RunOptions
from aam.stages import score
from aam.util.seeds import seed_of

SAMPLES = 24


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, Path]:
    """Return the folds of some labelled samples, in no order."""
    place = np.random.default_rng(0).permutation(SAMPLES)
    path = tmp_path / "in" / "folds.tsv"
    path.parent.mkdir()
    folds = pd.DataFrame({"sample-id": [f"{i:04d}" for i in place], "fold": place % 3})
    folds = folds.assign(observed=[f"{10.0 * i}" for i in place], group="")
    folds.to_csv(path, sep="\t", index=False)
    return {"folds": path, "metadata": tmp_path / "not-read.parquet"}


def run_score(folder: Path, inputs: dict[str, Path], **cfg) -> dict:
    settings = {
        "names": {"dataset": "d", "model": "m", "task": "t"},
        "encoder": "full",
        "start": "pretrained",
        "labels": 1.0,
        "evaluation": "transductive",
        "kind": "regression",
        "classes": None,
        "bounds": [None, None],
        "report_by": [],
        **cfg,
    }
    inputs["metadata"].touch()
    outputs = {"metrics": folder / "metrics.json", "intervals": folder / "intervals.tsv"}
    score.run(settings, inputs=inputs, outputs=outputs, runtime=RunOptions())
    return json.loads(outputs["metrics"].read_text())


def cross_validated(inputs: dict[str, Path], error: float) -> pd.DataFrame:
    """Return predictions of the samples of the folds, off by about `error`."""
    folds = pd.read_csv(inputs["folds"], sep="\t", dtype=str)
    rng = np.random.default_rng(0)
    observed = folds["observed"].astype(float)
    table = folds[["sample-id", "fold", "observed"]].astype({"fold": int})
    return table.assign(predicted=observed + rng.normal(0, error, len(folds)))


def test_a_model_is_compared_with_every_baseline_and_stacked_with_a_forest(tmp_path, inputs):
    own, other = (cross_validated(inputs, error) for error in (1.0, 40.0))
    files = {name: tmp_path / f"{name}.tsv" for name in ("predictions", "baselines")}
    write_predictions(files["predictions"], own)
    forest = own.sample(frac=1, random_state=0).assign(baseline="random_forest")
    forest["predicted"] = 2 * forest["observed"].astype(float) - forest["predicted"]
    write_predictions(files["baselines"], pd.concat([other.assign(baseline="median"), forest]))
    report = run_score(tmp_path, {**inputs, **files})
    assert (report["evaluation"], report["labels"]) == ("transductive", 1.0)
    assert report["bounds"] == [None, None]
    names = {"median", "random_forest"}
    assert report["baselines"].keys() == report["comparisons"].keys() == names
    against = report["comparisons"]["median"]
    assert against["folds_won"] == 1
    assert against["wilcoxon_samples_p"] < 0.001
    assert report["comparisons"]["random_forest"]["difference"] == pytest.approx(0, abs=1e-6)
    assert report["stacked"]["with"] == "random_forest"
    assert report["stacked"]["mae_pooled"] == pytest.approx(0, abs=1e-6)
    low, high = report["bootstrap"]["mae_fold_mean"]
    assert low < report["mae_fold_mean"] < high


def test_few_labels_are_told_and_no_forest_of_all_labels_is_mixed_in(tmp_path, inputs):
    own = cross_validated(inputs, 1.0)
    files = {name: tmp_path / f"{name}.tsv" for name in ("predictions", "baselines")}
    write_predictions(files["predictions"], own)
    write_predictions(files["baselines"], own.assign(baseline="random_forest"))
    report = run_score(tmp_path, {**inputs, **files}, labels=0.1, bounds=[0, None])
    assert (report["labels"], report["bounds"]) == (0.1, [0, None])
    assert "stacked" not in report
    assert "random_forest" in report["comparisons"]


def test_bootstrap_draws_the_groups_of_the_folds(tmp_path, inputs):
    # The predictions are in another order than the folds.
    own = cross_validated(inputs, 5.0).sample(frac=1, random_state=1)
    files = {name: tmp_path / f"{name}.tsv" for name in ("predictions", "baselines")}
    write_predictions(files["predictions"], own)
    write_predictions(files["baselines"], own.assign(baseline="median"))
    folds = pd.read_csv(inputs["folds"], sep="\t", dtype=str)
    host = {name: f"host{int(name) // 6}-{int(name) % 3}" for name in folds["sample-id"]}
    path = tmp_path / "hosts.tsv"
    folds.assign(group=folds["sample-id"].map(host)).to_csv(path, sep="\t", index=False)
    report = run_score(tmp_path, {**inputs, **files, "folds": path})
    written = read_predictions(files["predictions"])
    by_id = [host[name] for name in written["sample-id"]]
    seed = seed_of("bootstrap", "d", "t")
    expected = bootstrap_intervals("regression", written, by_id, seed)
    assert report["bootstrap"] == expected
    in_folds = [host[name] for name in folds["sample-id"]]
    assert bootstrap_intervals("regression", written, in_folds, seed) != expected


def test_intervals_are_a_table_with_a_row_per_sample_and_test_samples_scored_apart(
    tmp_path, inputs
):
    folds = pd.read_csv(inputs["folds"], sep="\t", dtype=str)
    folds.loc[:3, "fold"] = "-1"
    folds.to_csv(inputs["folds"], sep="\t", index=False)
    own = cross_validated(inputs, 5.0)
    files = {name: tmp_path / f"{name}.tsv" for name in ("predictions", "baselines")}
    write_predictions(files["predictions"], own)
    write_predictions(files["baselines"], own.assign(baseline="median"))
    report = run_score(tmp_path, {**inputs, **files})
    assert report["n"] == len(own) - 4
    assert report["test"]["n"] == report["baselines"]["median"]["test"]["n"] == 4
    assert report["intervals"]["test"]["n"] == 4
    table = pd.read_csv(tmp_path / "intervals.tsv", sep="\t", dtype={"sample-id": str})
    assert list(table) == ["sample-id", "fold", "observed", "predicted", "lower", "upper"]
    assert table["sample-id"].tolist() == own["sample-id"].tolist()
    covered = table["observed"].between(table["lower"], table["upper"])
    assert report["intervals"]["coverage"] == covered[table["fold"] >= 0].mean()


def test_every_target_of_a_task_is_scored(tmp_path, inputs):
    first, second = cross_validated(inputs, 1.0), cross_validated(inputs, 9.0)
    both = pd.concat([first.assign(target="bmi"), second.assign(target="age")])
    paths = {name: tmp_path / f"{name}.tsv" for name in ("predictions", "baselines")}
    write_predictions(paths["predictions"], both)
    write_predictions(paths["baselines"], both.assign(baseline="median"))
    report = run_score(tmp_path, {**inputs, **paths})
    bmi, age = report["targets"]["bmi"], report["targets"]["age"]
    assert {key: report[key] for key in bmi} == bmi
    assert age["mae_pooled"] > 5 * bmi["mae_pooled"]
    assert age["intervals"]["width"] > 5 * bmi["intervals"]["width"]
    assert age["baselines"]["median"]["mae_pooled"] == age["mae_pooled"]
    table = pd.read_csv(tmp_path / "intervals.tsv", sep="\t")
    assert table["target"].tolist() == both["target"].tolist()


def test_ordered_classes_keep_their_order_whatever_the_columns(tmp_path, inputs):
    folds = pd.read_csv(inputs["folds"], sep="\t", dtype=str)
    classes = ["low", "mid", "high"]
    code = np.arange(len(folds)) % 3
    shares = {f"probability:{name}": 0.2 + 0.4 * (code == i) for i, name in enumerate(classes)}
    own = folds[["sample-id", "fold"]].assign(observed=np.array(classes)[code])
    wrong = np.where(np.arange(len(folds)) < 6, "high", own["observed"])
    own = own.assign(predicted=wrong, **dict(sorted(shares.items())))
    paths = {name: tmp_path / f"{name}.tsv" for name in ("predictions", "baselines")}
    write_predictions(paths["predictions"], own)
    write_predictions(paths["baselines"], own.assign(baseline="majority"))
    report = run_score(tmp_path, {**inputs, **paths}, kind="ordinal", classes=classes)
    assert report["confusion"]["classes"] == classes
    assert report["mae_ranks"] == pytest.approx((2 * 2 + 2 * 1) / len(folds))
    low, high = report["bootstrap"]["quadratic_kappa"]
    assert low < report["quadratic_kappa"] < high
    table = pd.read_csv(tmp_path / "intervals.tsv", sep="\t")
    assert list(table)[-1] == "prediction_set"
    assert report["intervals"]["set_size"] >= 1
