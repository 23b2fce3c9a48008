import json

import numpy as np
import pandas as pd
import pytest
from problems import predictions_of

from aam.data.predictions import read_predictions, write_predictions
from aam.evaluate.scores import accuracy_table
from aam.evaluate.target_report import score_method, score_predictions


def regression(errors: list[float]) -> pd.DataFrame:
    observed = np.arange(len(errors), dtype=float)
    text = [str(value) for value in observed]
    return predictions_of(text, observed + errors, np.arange(len(errors)) % 2)


def classification() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "sample-id": ["001", "002", "NA"],
            "fold": [0, 1, 1],
            "observed": ["1", "NA", "NA"],
            "predicted": ["1", "NA", "1"],
            "probability:1": [0.9, 0.25, 0.6],
            "probability:NA": [0.1, 0.75, 0.4],
        }
    )


def test_metadata_columns_get_scores_of_their_own_whatever_the_order_of_rows():
    studies = {"s3": "b", "s2": None, "s1": "a", "s0": "a", "s9": "unused"}
    metadata = pd.DataFrame({"study": studies})
    report = score_predictions("regression", regression([1, 3, 5, 7]), metadata)
    assert report["mae_by"] == {"study": {"a": {"n": 2, "mae": 2.0}, "b": {"n": 1, "mae": 7.0}}}
    first, second = (report["folds"][name] for name in "01")
    assert (first["n"], first["mae"], second["mae"]) == (2, 3.0, 5.0)
    # Of two samples the correlation is 1 or -1.
    assert abs(first["pearson"]) == pytest.approx(1)
    assert first["r2"] < 1


def test_a_classification_comes_back_from_its_file_and_has_tables_that_json_can_hold(tmp_path):
    path = tmp_path / "predictions.tsv"
    write_predictions(path, classification())
    table = read_predictions(path)
    pd.testing.assert_frame_equal(table, classification())
    metadata = pd.DataFrame({"host": ["x", "x", "y"]}, index=["001", "002", "NA"])
    report = score_predictions("classification", table, metadata)
    subsets = {"x": {"n": 2, "accuracy": 1.0}, "y": {"n": 1, "accuracy": 0.0}}
    assert report["accuracy_by"]["host"] == subsets
    assert report["per_class"]["NA"]["recall"] == 0.5
    assert report["confusion"]["counts"] == [[1, 0], [1, 1]]
    assert json.loads(json.dumps(report, allow_nan=False)) == report


def test_accuracy_table_ranks_within_a_task_and_keeps_a_baseline_once():
    def scored(error: float) -> dict:
        return score_predictions("regression", regression([error, -error, error, error]))

    about = {"kind": "regression", "task": "body", "targets": {"age": {}, "bmi": {}}}
    about["column"] = ["bmi", "age"]
    about["bootstrap"] = {"mae_fold_mean": [0.5, 1.5]}
    about["baselines"] = {"median": scored(9), "random_forest": scored(2)}
    errors = {"small": 5, "base": 1}
    reports = [{**scored(error), **about, "model": model} for model, error in errors.items()]
    table = accuracy_table(reports)
    assert table["name"].tolist() == ["base", "random_forest", "small", "median"] * 2
    assert table["task"].tolist() == ["body, bmi"] * 4 + ["body, age"] * 4
    assert table.loc[:1, "headline_high"].tolist() == pytest.approx([1.5, np.nan], nan_ok=True)


def test_held_out_test_samples_are_scored_apart():
    table = regression([1, 3, 5, 7])
    test = regression([10, 20]).assign(fold=-1).assign(**{"sample-id": ["t0", "t1"]})
    report = score_method("regression", pd.concat([table, test]))
    assert report["test"]["mae_pooled"] == report.pop("test")["mae_fold_mean"] == 15
    assert report == score_predictions("regression", table)


def test_probabilities_that_are_too_sure_get_better_by_the_other_folds():
    rng = np.random.default_rng(0)
    share = rng.uniform(0.5, 1, 600)
    observed = np.where(rng.random(600) < share, "y", "x")
    sure = share**4 / (share**4 + (1 - share) ** 4)
    shares = np.stack([1 - sure, sure], axis=1)
    table = predictions_of(observed, "y", np.arange(600) % 3 - 1, shares, "xy")
    report = score_method("classification", table)
    assert 0.2 < report["calibration"]["slope"] < 0.4
    for scores in (report, report["test"]):
        assert scores["calibrated_brier"] < scores["brier"]
        assert scores["calibrated_ece"] < scores["ece"] - 0.05
    assert json.loads(json.dumps(report, allow_nan=False)) == report
