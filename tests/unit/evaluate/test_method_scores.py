import json

import numpy as np
import pandas as pd
import pytest
from problems import predictions_of
from task_reports import GUESSING, method_of, target_of, task_of

from aam.data.predictions import read_predictions, write_predictions
from aam.evaluate.method_scores import (
    bin_probabilities,
    headline_score,
    report_coverage,
    score_folds,
    score_samples,
    score_with_calibration,
)
from aam.evaluate.task_report import MethodReport, SampleScores, SubsetScore, accuracy_table


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
    table = regression([1, 3, 5, 7])
    report = score_samples("regression", table, metadata)
    assert report.by == {"study": {"a": SubsetScore(n=2, score=2), "b": SubsetScore(n=1, score=7)}}
    folds = score_folds("regression", table)
    assert (folds[0].n, folds[0].score, folds[1].score) == (2, 3.0, 5.0)
    # Of two samples the correlation is 1 or -1.
    assert abs(folds[0].pearson) == pytest.approx(1)
    assert folds[0].r2 < 1


def test_a_classification_comes_back_from_its_file_and_has_tables_that_json_can_hold(tmp_path):
    path = tmp_path / "predictions.tsv"
    write_predictions(path, classification())
    table = read_predictions(path)
    pd.testing.assert_frame_equal(table, classification())
    metadata = pd.DataFrame({"host": ["x", "x", "y"]}, index=["001", "002", "NA"])
    report = score_samples("classification", table, metadata)
    subsets = {"x": SubsetScore(n=2, score=1), "y": SubsetScore(n=1, score=0)}
    assert report.by["host"] == subsets
    assert report.per_class["NA"].recall == 0.5
    assert report.confusion.counts == ((1, 0), (1, 1))
    text = json.dumps(report.model_dump(mode="json"), allow_nan=False)
    assert SampleScores.model_validate_json(text) == report


def test_accuracy_table_ranks_within_a_task_and_keeps_a_baseline_once():
    def method(name: str, role: str, error: float, **changes: object) -> MethodReport:
        table = regression([error, -error, error, error])
        return method_of("regression", table, name, role, **changes)

    reports = []
    for model, error in (("small", 5), ("base", 1)):
        methods = [
            method(
                model,
                "network",
                error,
                guessing=GUESSING.model_copy(update={"interval": (0.5, 1.5)}),
            ),
            method("median", "baseline", 9),
            method("random_forest", "baseline", 2),
        ]
        targets = [target_of(regression([1, 1, 1, 1]), methods, name) for name in ("bmi", "age")]
        reports.append(task_of("regression", "body", *targets, answer=model))
    table = accuracy_table(reports)
    assert table["name"].tolist() == ["base", "random_forest", "small", "median"] * 2
    assert table["task"].tolist() == ["body"] * 8
    assert table["target"].tolist() == ["bmi"] * 4 + ["age"] * 4
    assert table.loc[:1, "headline_high"].tolist() == pytest.approx([1.5, np.nan], nan_ok=True)


def test_held_out_test_samples_are_scored_apart():
    table = regression([1, 3, 5, 7])
    held_out = regression([10, 20]).assign(fold=-1).assign(**{"sample-id": ["t0", "t1"]})
    scores, test, _ = score_with_calibration("regression", pd.concat([table, held_out]))
    assert test.scores["mae_pooled"] == test.scores["mae_fold_mean"] == 15
    assert scores == score_samples("regression", table)


def test_probabilities_that_are_too_sure_get_better_by_the_other_folds():
    rng = np.random.default_rng(0)
    share = rng.uniform(0.5, 1, 600)
    observed = np.where(rng.random(600) < share, "y", "x")
    sure = share**4 / (share**4 + (1 - share) ** 4)
    shares = np.stack([1 - sure, sure], axis=1)
    table = predictions_of(observed, "y", np.arange(600) % 3 - 1, shares, "xy")
    scored, test, recalibration = score_with_calibration("classification", table)
    assert 0.2 < recalibration.slope < 0.4
    for part in (scored, test):
        assert part.calibrated.brier < part.scores["brier"]
        assert part.calibrated.ece < part.scores["ece"] - 0.05


def test_an_interval_covers_its_ends_and_what_a_missing_bound_leaves_open():
    table = pd.DataFrame(
        {
            "fold": [0, 0, 1, 1, -1, -1],
            "observed": ["1", "5", "3", "9", "2", "7"],
            "lower": [1.0, 2.0, 4.0, 8.0, 2.0, 3.0],
            "upper": [3.0, 5.0, 6.0, 9.5, 4.0, 6.0],
        }
    )
    found = report_coverage(table)
    assert found.level == 0.9
    assert found.coverage == 0.75
    assert found.by_fold == {0: 1.0, 1: 0.5}
    assert found.size == pytest.approx((2 + 3 + 2 + 1.5) / 4)
    assert (found.test.n, found.test.coverage, found.test.size) == (2, 0.5, 2.5)
    # Samples of a fold without intervals are neither inside nor outside.
    none = report_coverage(
        table[:4].assign(lower=[np.nan, np.nan, 4.0, 8.0], upper=[np.nan, np.nan, 6.0, 9.5])
    )
    assert (none.coverage, none.by_fold, none.size) == (0.5, {1: 0.5}, None)
    without = report_coverage(table[:4].assign(lower=[np.nan, 2.0, 2.0, 9.5]))
    assert (without.size, without.test) == (None, None)
    assert without.by_fold == {0: 1.0, 1: 0.5}


def test_the_coverage_of_sets_is_that_of_their_classes():
    table = pd.DataFrame(
        {
            "fold": [0, 0, 1, -1],
            "observed": ["a", "b|c", "b", "a"],
            "prediction_set": ["a|b", "b\\|c", "a", "b"],
        }
    )
    found = report_coverage(table)
    assert (found.coverage, found.by_fold) == (pytest.approx(2 / 3), {0: 1.0, 1: 0.0})
    assert found.size == pytest.approx((2 + 1 + 1) / 3)
    assert (found.test.n, found.test.coverage, found.test.size) == (1, 0.0, 1.0)


def test_a_headline_score_is_of_the_folds_alone():
    table = regression([1, 3, 5, 7]).assign(fold=[0, 0, 1, -1])
    assert headline_score("regression", table) == pytest.approx((2 + 5) / 2)
    shares = pd.DataFrame({"sample-id": list("abcd"), "fold": [0, 0, 1, -1]})
    shares = shares.assign(observed=list("xyyx"), predicted=list("xyxy"))
    shares = shares.assign(**{"probability:x": 0.5, "probability:y": 0.5})
    assert headline_score("classification", shares) == pytest.approx((1 + 0.5) / 2)


def test_a_fold_of_classes_is_scored_by_the_share_that_is_right():
    folds = score_folds("classification", classification())
    assert {fold: (one.n, one.score) for fold, one in folds.items()} == {0: (1, 1.0), 1: (2, 0.5)}
    assert (folds[0].r2, folds[0].pearson) == (None, None)


def test_probabilities_are_binned_where_there_are_some():
    assert bin_probabilities(regression([1, 2])) == ()
    bins = bin_probabilities(classification())
    assert [(one.n, one.confidence, one.accuracy) for one in bins] == [
        *((1, 0.6, 0.0), (1, 0.75, 1.0), (1, 0.9, 1.0))
    ]


def test_numbers_without_a_test_set_have_neither_its_score_nor_a_recalibration():
    assert score_with_calibration("regression", regression([1, 2]))[1:] == (None, None)


def test_calibrated_classes_are_scored_next_to_how_frequent_they_are_in_the_other_folds():
    rng = np.random.default_rng(0)
    observed = rng.choice(["x", "y"], 40)
    shares = rng.uniform(0.2, 0.8, 40)
    both = np.stack([shares, 1 - shares], axis=1)
    table = predictions_of(observed, "x", np.arange(40) % 4, both, "xy")
    scores, test, recalibration = score_with_calibration("classification", table)
    assert (scores.n, test) == (40, None)
    assert recalibration.intercepts.keys() == {"x", "y"}
    # The 30 samples of the other folds, and one more that is half of each class.
    others = [np.sum(observed[np.arange(40) % 4 != fold] == "x") for fold in range(4)]
    shares = (np.array(others)[np.arange(40) % 4] + 0.5) / 31
    entropy = -np.log(np.where(observed == "x", shares, 1 - shares)).mean()
    assert scores.calibrated.constant_log_loss == pytest.approx(entropy)
