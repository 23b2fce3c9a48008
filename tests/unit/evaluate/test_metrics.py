"""Scores: by hand, against their definitions, and where they are undefined."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aam.evaluate import metrics

NUMBERS = st.integers(-50, 50).map(float)
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 3)), min_size=2, max_size=30)
CLASSES = ["a", "b", "c"]


def probabilities(predicted: list[str]) -> np.ndarray:
    return np.array([[0.8 if name == guess else 0.1 for name in CLASSES] for guess in predicted])


def test_regression_by_hand():
    scores = metrics.regression_metrics([0, 10, 20, 30], [2, 10, 26, 26], [0, 0, 0, 1])
    fold_means = [(2 + 0 + 6) / 3, 4]
    assert scores["mae_fold_mean"] == pytest.approx(np.mean(fold_means))
    assert scores["mae_fold_sd"] == pytest.approx(np.std(fold_means, ddof=1))
    assert scores["mae_pooled"] == pytest.approx(3)
    assert scores["rmse_pooled"] == pytest.approx(np.sqrt((4 + 0 + 36 + 16) / 4))
    assert scores["r2_pooled"] == pytest.approx(1 - 56 / 500)
    assert scores["spearman"] == pytest.approx(1 - 0.0513167, abs=1e-6)
    assert tuple(scores) == metrics.REGRESSION


def test_constant_predictions_have_no_correlation_but_an_r2():
    scores = metrics.regression_metrics([1.0, 2.0, 3.0], [2.0, 2.0, 2.0], [0, 1, 2])
    assert scores["pearson"] is None
    assert scores["spearman"] is None
    assert scores["r2_pooled"] == pytest.approx(0)


def test_one_fold_has_no_spread():
    assert metrics.regression_metrics([1, 2], [1, 3], [5, 5])["mae_fold_sd"] is None


@given(ROWS, st.randoms(use_true_random=False))
def test_regression_scores_ignore_the_order_of_samples(rows, random):
    shuffled = random.sample(rows, len(rows))
    first = metrics.regression_metrics(*zip(*rows, strict=True))
    second = metrics.regression_metrics(*zip(*shuffled, strict=True))
    for name in metrics.REGRESSION:
        assert (second[name] is None) == (first[name] is None)
        assert (second[name] or 0) == pytest.approx(first[name] or 0, abs=1e-9)
    json.dumps(first, allow_nan=False)


@given(ROWS)
def test_subsets_add_up_to_the_pooled_error(rows):
    observed, predicted, fold = zip(*rows, strict=True)
    parts = metrics.subset_mae(observed, predicted, fold)
    total = sum(part["n"] * part["mae"] for part in parts.values())
    pooled = metrics.regression_metrics(observed, predicted, fold)["mae_pooled"]
    assert total / len(rows) == pytest.approx(pooled)


def test_samples_without_a_label_are_in_no_subset():
    parts = metrics.subset_mae([0, 0, 0, 0], [1, 2, 4, 8], ["x", None, "x", float("nan")])
    assert parts == {"x": {"n": 2, "mae": 2.5}}


def test_classification_by_hand():
    observed = ["a", "a", "a", "b", "b", "c"]
    predicted = ["a", "a", "b", "b", "b", "a"]
    scores = metrics.classification_metrics(
        observed, predicted, probabilities(predicted), CLASSES, [0, 0, 1, 1, 1, 1]
    )
    assert scores["accuracy"] == pytest.approx(4 / 6)
    assert scores["accuracy_fold_mean"] == pytest.approx((1 + 0.5) / 2)
    assert scores["balanced_accuracy"] == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert scores["macro_f1"] == pytest.approx((2 / 3 + 4 / 5 + 0) / 3)
    table = metrics.per_class_table(observed, predicted, probabilities(predicted), CLASSES)
    areas = [table[name]["roc_auc"] for name in CLASSES]
    assert areas == pytest.approx([2 / 3, 7 / 8, 1 / 2])
    assert scores["roc_auc"] == pytest.approx(np.mean(areas))
    assert tuple(scores) == metrics.CLASSIFICATION


def test_a_perfect_classifier_scores_one():
    observed = ["a", "b", "c", "c"]
    scores = metrics.classification_metrics(
        observed, observed, probabilities(observed), CLASSES, [0, 1, 0, 1]
    )
    assert {scores[name] for name in metrics.CLASSIFICATION if name != "accuracy_fold_sd"} == {1.0}


def test_an_absent_class_leaves_the_area_undefined_and_the_rest_defined():
    observed, predicted = ["a", "b", "a"], ["a", "c", "a"]
    shares = probabilities(predicted)
    scores = metrics.classification_metrics(observed, predicted, shares, CLASSES, [0, 1, 1])
    table = metrics.per_class_table(observed, predicted, shares, CLASSES)
    assert scores["roc_auc"] is None
    assert scores["balanced_accuracy"] == pytest.approx(0.5)
    assert table["c"] == {"n": 0, "precision": 0.0, "recall": None, "f1": 0.0, "roc_auc": None}
    assert table["b"]["precision"] is None
    json.dumps([scores, table], allow_nan=False)


def test_confusion_has_observed_classes_as_rows():
    content = metrics.confusion(["a", "a", "b"], ["b", "a", "b"], CLASSES)
    assert content == {"classes": CLASSES, "counts": [[1, 1, 0], [0, 1, 0], [0, 0, 0]]}
