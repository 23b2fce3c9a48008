import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from problems import nested_of
from stage_calls import as_outputs

from aam.data.predictions import read_predictions, write_predictions
from aam.evaluate import task_report
from aam.evaluate.bootstrap import bootstrap_intervals
from aam.evaluate.scored_task import ScoredTask
from aam.evaluate.scores import accuracy_table
from aam.stages.score import score_model
from aam.util.errors import InputError
from aam.util.seeds import seed_of

RECIPES = {"kernel": 0.25, "full": 0.75}
"""Their weights."""
CLASSES = ["low", "mid", "high"]
SETTINGS = {
    "names": {"dataset": "d", "model": "m", "task": "t"},
    "encoder": "full",
    "start": "pretrained",
    "labels": 1.0,
    "evaluation": "transductive",
    "start_directory": None,
    "column": "age",
    "structure": {"column": "host", "stated": True},
    "kind": "regression",
    "classes": None,
    "bounds": [None, None],
    "report_by": [],
}


@pytest.fixture
def folds() -> pd.DataFrame:
    """Return the folds of some labelled samples, in no order."""
    place = np.random.default_rng(0).permutation(24)
    table = pd.DataFrame({"sample-id": [f"{i:04d}" for i in place], "fold": place % 3})
    return table.assign(observed=10.0 * place, group="")


@pytest.fixture
def scored(tmp_path: Path, folds: pd.DataFrame) -> Callable[..., dict]:
    def run(own: pd.DataFrame, baselines: pd.DataFrame, **changes) -> dict:
        names = ("predictions", "baselines", "folds", "metadata", "recipes")
        names = (*names, "nested", "nested_baselines")
        files = {name: tmp_path / name for name in names}
        outputs = {name: tmp_path / name for name in ("metrics", "intervals")}
        write_predictions(files["predictions"], own)
        write_predictions(files["baselines"], baselines)
        nested_of(own).to_parquet(files["nested"])
        is_constant = baselines["baseline"].isin(["median", "majority"])
        nested_of(baselines[~is_constant]).to_parquet(files["nested_baselines"])
        folds.to_csv(files["folds"], sep="\t", index=False)
        study = ["ab"[i % 2] for i in range(len(folds))]
        table = pa.table({"sample_id": folds["sample-id"].to_numpy(object), "study": study})
        pq.write_table(table, files["metadata"])
        write_predictions(files["recipes"], of_recipes(own))
        settings = {**SETTINGS, **changes}
        keys = ("encoder", "start", "labels", "evaluation", "start_directory")
        training = {key: settings[key] for key in keys}
        task = ScoredTask.read(settings)
        score_model(**files, task=task, **training, **as_outputs(outputs))
        return json.loads(outputs["metrics"].read_text())

    return run


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


def test_a_model_is_compared_with_every_baseline_and_mixed_with_them(folds, scored):
    own, other = (predicted(folds, error) for error in (1.0, 40.0))
    forest = own.sample(frac=1, random_state=0).assign(baseline="random_forest")
    forest["predicted"] = 2 * forest["observed"] - forest["predicted"]
    baselines = pd.concat([other.assign(baseline="median"), forest])
    report = scored(own, baselines, report_by=["study"])
    assert {name: one["weight"] for name, one in report["recipes"].items()} == RECIPES
    scores = {name: one["score"] for name, one in report["recipes"].items()}
    mae = report["mae_fold_mean"]
    assert scores == pytest.approx({"kernel": mae, "full": 3 * mae}, rel=1e-6)
    assert report["mae_by"]["study"].keys() == {"a", "b"}
    assert (report["model"], report["task"], report["start"]) == ("m", "t", "pretrained")
    assert (report["evaluation"], report["labels"]) == ("transductive", 1.0)
    assert report["baselines"].keys() == {"median", "random_forest"}
    assert report["comparisons"].keys() == {"random_forest"}
    against = report["comparisons"]["random_forest"]
    assert against["difference"] == pytest.approx(0, abs=1e-6)
    assert against["holm_p"] == against["corrected_t_p"]
    assert against["wilcoxon_samples_p"] > 0.05
    guessing = report["guessing"]
    assert guessing["score"] + guessing["difference"] == pytest.approx(mae)
    assert guessing["difference"] < 0
    assert guessing["corrected_t_p"] < 0.05
    mixed = report["super_learner"]
    assert mixed["guessing"]["score"] == guessing["score"]
    assert mixed["guessing"]["difference"] < guessing["difference"]
    # Errors of opposite signs: half of each, and nothing of the constant.
    assert mixed["weights"] == pytest.approx({"m": 0.5, "random_forest": 0.5}, abs=0.01)
    assert mixed["mae_pooled"] < 0.1 * report["mae_pooled"]
    assert mixed["without_own"]["mae_pooled"] == report["baselines"]["random_forest"]["mae_pooled"]
    assert mixed["without_own"]["comparison"]["difference"] < 0
    low, high = report["bootstrap"]["mae_fold_mean"]
    assert low < report["mae_fold_mean"] < high
    # A forest of all labels is not mixed with a model of few.
    few = scored(own, baselines, labels=0.1, bounds=[0, None])
    assert (few["labels"], few["bounds"]) == (0.1, [0, None])
    assert "super_learner" not in few
    assert few["comparisons"] == report["comparisons"]


def test_a_column_that_is_not_there_writes_nothing(folds, scored, tmp_path):
    own = predicted(folds, 1.0)
    with pytest.raises(InputError, match="'studdy'.*study"):
        scored(own, own.assign(baseline="median"), report_by=["studdy"])
    assert not (tmp_path / "metrics").exists()


def test_groups_are_drawn_whole_and_no_test_is_made_over_their_samples(folds, scored, tmp_path):
    folds["group"] = [f"host{int(name) // 6}-{int(name) % 3}" for name in folds["sample-id"]]
    # The predictions are in another order than the folds.
    own = predicted(folds, 5.0).sample(frac=1, random_state=1)
    report = scored(own, own.assign(baseline="random_forest", predicted=own["observed"] + 9.0))
    written = read_predictions(tmp_path / "predictions")
    by_id = folds.set_index("sample-id")["group"].loc[written["sample-id"]]
    seed = seed_of("bootstrap", "d", "t")
    groups = folds["group"].nunique()
    structure = {"column": "host", "groups": groups, "independent": False, "stated": True}
    assert report["structure"] == structure
    assert "wilcoxon_samples_p" not in report["comparisons"]["random_forest"]
    assert report["bootstrap"] == bootstrap_intervals("regression", written, by_id, seed)
    assert report["bootstrap"] != bootstrap_intervals("regression", written, folds["group"], seed)


def test_samples_are_independent_where_no_two_share_a_group(folds, scored):
    own = predicted(folds, 5.0)
    settings = {"column": None, "stated": False}
    report = scored(own, own.assign(baseline="median"), structure=settings)
    assert report["structure"] == {**settings, "groups": None, "independent": True}
    folds["group"] = "host" + folds["sample-id"]
    report = scored(own, own.assign(baseline="median"), structure=settings)
    assert report["structure"] == {**settings, "groups": len(folds), "independent": True}


def test_columns_that_tell_the_target_are_asked_of_the_scored_samples(folds, scored, monkeypatch):
    folds["group"] = "host" + (folds["fold"].astype(str))
    folds.loc[:3, "fold"] = -1
    own = predicted(folds, 1.0)
    asked = {}

    def confounders(target, metadata, **more):
        asked.update(more, target=target, metadata=metadata)
        return [{"column": "plate", "score": 1.0, "kind": "exact"}]

    monkeypatch.setattr(task_report, "confounders", confounders)
    report = scored(own, own.assign(baseline="median"))
    assert report["confounders"] == [{"column": "plate", "score": 1.0, "kind": "exact"}]
    known = folds[4:].set_index("sample-id")
    assert asked["target"].to_dict() == known["observed"].to_dict()
    assert asked["metadata"].index.tolist() == known.index.tolist()
    assert asked["groups"].to_dict() == known["group"].to_dict()
    assert (asked["kind"], asked["exclude"]) == ("regression", ["age"])


def test_intervals_have_a_row_per_sample_and_test_samples_are_scored_apart(folds, scored, tmp_path):
    folds.loc[:3, "fold"] = -1
    own = predicted(folds, 5.0)
    report = scored(own, own.assign(baseline="median"))
    assert report["n"] == len(own) - 4
    assert report["test"]["n"] == report["baselines"]["median"]["test"]["n"] == 4
    assert report["intervals"]["test"]["n"] == 4
    table = pd.read_csv(tmp_path / "intervals", sep="\t", dtype={"sample-id": str})
    assert list(table) == ["sample-id", "fold", "observed", "predicted", "lower", "upper"]
    assert table["sample-id"].tolist() == own["sample-id"].tolist()
    covered = table["observed"].between(table["lower"], table["upper"])
    assert report["intervals"]["coverage"] == covered[table["fold"] >= 0].mean()


def test_the_table_of_intervals_is_of_the_super_learner_where_there_is_one(folds, scored, tmp_path):
    own = predicted(folds, 5.0)
    error = own["predicted"] - own["observed"]
    forest = own.assign(predicted=own["observed"] + error.to_numpy()[::-1])
    low, high = own["predicted"] - 20, own["predicted"] + 20
    wide = own.assign(**{"quantile:0.05": low, "quantile:0.95": high})
    report = scored(wide, forest.assign(baseline="random_forest"))
    mixed = report["super_learner"]["intervals"]
    table = pd.read_csv(tmp_path / "intervals", sep="\t", dtype={"sample-id": str})
    covered = table["observed"].between(table["lower"], table["upper"])
    assert mixed["coverage"] == pytest.approx(covered.mean())
    assert mixed["width"] == pytest.approx((table["upper"] - table["lower"]).mean(), rel=1e-6)
    error = (table["predicted"] - table["observed"]).abs().mean()
    assert error == pytest.approx(report["super_learner"]["mae_pooled"], rel=1e-6)
    assert mixed["width"] != pytest.approx(report["intervals"]["width"], rel=0.01)


def test_every_target_of_a_task_is_scored(folds, scored, tmp_path):
    small = predicted(folds, 1.0).assign(target="bmi")
    large = predicted(folds, 9.0).assign(target="age")
    both = pd.concat([small, large])
    report = scored(both, both.assign(baseline="median"))
    bmi = report["targets"]["bmi"]
    age = report["targets"]["age"]
    assert {key: report[key] for key in bmi} == bmi
    assert age["mae_pooled"] > 5 * bmi["mae_pooled"]
    assert age["intervals"]["width"] > 5 * bmi["intervals"]["width"]
    assert age["baselines"]["median"]["mae_pooled"] == age["mae_pooled"]
    table = pd.read_csv(tmp_path / "intervals", sep="\t")
    assert table["target"].tolist() == both["target"].tolist()


def test_ordered_classes_keep_their_order_whatever_the_columns(folds, scored, tmp_path):
    code = np.arange(len(folds)) % 3
    shares = {f"probability:{name}": 0.2 + 0.4 * (code == i) for i, name in enumerate(CLASSES)}
    own = folds[["sample-id", "fold"]].assign(observed=np.array(CLASSES)[code])
    wrong = np.where(np.arange(len(folds)) < 6, "high", own["observed"])
    own = own.assign(predicted=wrong, **dict(sorted(shares.items())))
    report = scored(own, own.assign(baseline="majority"), kind="ordinal", classes=CLASSES)
    assert report["confusion"]["classes"] == CLASSES
    assert report["mae_ranks"] == pytest.approx((2 * 2 + 2 * 1) / len(folds))
    guess = 1 / len(CLASSES)
    assert report["guessing"]["score"] == report["baselines"]["majority"]["balanced_accuracy"]
    assert report["guessing"]["score"] == pytest.approx(guess)
    assert report["balanced_accuracy"] == pytest.approx(guess + report["guessing"]["difference"])
    row = accuracy_table([report]).set_index("name").loc["majority"]
    assert row["balanced_accuracy"] == pytest.approx(guess)
    assert row["accuracy"] == report["accuracy"]
    low, high = report["bootstrap"]["quadratic_kappa"]
    assert low < report["quadratic_kappa"] < high
    shown = ["likeliest", "prediction_set", *(f"probability:{name}" for name in CLASSES)]
    assert list(pd.read_csv(tmp_path / "intervals", sep="\t"))[-5:] == shown
    assert report["intervals"]["set_size"] >= 1
