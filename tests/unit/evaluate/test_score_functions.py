import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.evaluate import score_functions
from aam.evaluate.scores import CLASSIFICATION, ORDINAL, REGRESSION
from aam.evaluate.task_report import ClassScores, SubsetScore

NUMBERS = st.integers(-50, 50).map(float)
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 3)), min_size=2, max_size=30)
CLASSES = ["a", "b", "c"]


def probabilities(predicted: list[str]) -> np.ndarray:
    return np.array([[0.8 if name == guess else 0.1 for name in CLASSES] for guess in predicted])


def test_regression_by_hand():
    scores = score_functions.regression_scores([0, 10, 20, 30], [2, 10, 26, 26], [0, 0, 0, 1])
    fold_means = [(2 + 0 + 6) / 3, 4]
    assert scores["mae_fold_mean"] == pytest.approx(np.mean(fold_means))
    assert scores["mae_fold_sd"] == pytest.approx(np.std(fold_means, ddof=1))
    assert scores["mae_pooled"] == pytest.approx(3)
    assert scores["rmse_pooled"] == pytest.approx(np.sqrt((4 + 0 + 36 + 16) / 4))
    assert scores["r2_pooled"] == pytest.approx(1 - 56 / 500)
    assert scores["spearman"] == pytest.approx(1 - 0.0513167, abs=1e-6)
    assert tuple(scores) == tuple(REGRESSION)


def test_what_never_varies_has_no_correlation_and_one_fold_no_spread():
    scores = score_functions.regression_scores([1.0, 2.0, 3.0], [2.0, 2.0, 2.0], [0, 0, 0])
    assert scores["pearson"] is scores["spearman"] is scores["mae_fold_sd"] is None
    assert scores["r2_pooled"] == pytest.approx(0)
    names = ["b", "b"]
    given = names, names, probabilities(names), CLASSES, [0, 1]
    scores = score_functions.classification_scores(*given, ordinal=True)
    assert (scores["quadratic_kappa"], scores["mae_ranks"]) == (None, 0)


@settings(deadline=None)
@given(ROWS, st.randoms(use_true_random=False))
def test_regression_ignores_the_order_of_samples_and_subsets_add_up(rows, random):
    first = score_functions.regression_scores(*zip(*rows, strict=True))
    second = score_functions.regression_scores(*zip(*random.sample(rows, len(rows)), strict=True))
    for name in REGRESSION:
        assert (second[name] is None) == (first[name] is None)
        assert (second[name] or 0) == pytest.approx(first[name] or 0, abs=1e-9)
    json.dumps(first, allow_nan=False)
    observed, predicted, fold = map(np.array, zip(*rows, strict=True))
    parts = score_functions.means_by_label(np.abs(observed - predicted), fold)
    total = sum(part.n * part.score for part in parts.values())
    assert total / len(rows) == pytest.approx(first["mae_pooled"])


def test_samples_without_a_label_are_in_no_subset():
    parts = score_functions.means_by_label([1, 2, 4, 8], ["x", None, "x", float("nan")])
    assert parts == {"x": SubsetScore(n=2, score=2.5)}


def test_classification_by_hand():
    observed = ["a", "a", "a", "b", "b", "c"]
    predicted = ["a", "a", "b", "b", "b", "a"]
    shares = probabilities(predicted)
    folds = [0, 0, 1, 1, 1, 1]
    scores = score_functions.classification_scores(observed, predicted, shares, CLASSES, folds)
    assert scores["accuracy"] == pytest.approx(4 / 6)
    assert scores["accuracy_fold_mean"] == pytest.approx((1 + 0.5) / 2)
    assert scores["balanced_accuracy"] == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert scores["macro_f1"] == pytest.approx((2 / 3 + 4 / 5 + 0) / 3)
    table = score_functions.per_class_table(observed, predicted, shares, CLASSES)
    areas = [table[name].roc_auc for name in CLASSES]
    assert areas == pytest.approx([2 / 3, 7 / 8, 1 / 2])
    assert scores["roc_auc"] == pytest.approx(np.mean(areas))
    assert tuple(scores) == tuple(CLASSIFICATION)
    content = score_functions.confusion(observed, predicted, CLASSES)
    assert content.classes == tuple(CLASSES)
    assert content.counts == ((2, 1, 0), (0, 2, 0), (1, 0, 0))


def test_a_single_sample_is_scored_as_far_as_it_can_be():
    """As that of a level which `report_by` asks for."""
    scores = score_functions.classification_scores(["a"], ["a"], probabilities(["a"]), CLASSES, [0])
    assert (scores["accuracy"], scores["balanced_accuracy"]) == (1.0, 1.0)
    assert (scores["accuracy_fold_sd"], scores["roc_auc"]) == (None, None)


def test_an_absent_class_leaves_the_area_undefined_and_the_rest_defined():
    observed, predicted = ["a", "b", "a"], ["a", "c", "a"]
    pair = observed, predicted, probabilities(predicted), CLASSES
    scores, table = (
        score_functions.classification_scores(*pair, [0, 1, 1]),
        score_functions.per_class_table(*pair),
    )
    assert (scores["roc_auc"], scores["balanced_accuracy"]) == (None, 0.5)
    assert table["c"] == ClassScores(n=0, precision=0.0, recall=None, f1=0.0, roc_auc=None)
    assert table["b"].precision is None


def test_ordered_classes_are_scored_by_their_distance():
    observed, near, far = ["a", "b", "c", "c"], ["b", "b", "c", "c"], ["c", "b", "c", "c"]
    close, distant = (
        score_functions.classification_scores(
            observed, guess, probabilities(guess), CLASSES, [0, 0, 1, 1], ordinal=True
        )
        for guess in (near, far)
    )
    assert close["accuracy"] == distant["accuracy"]
    assert (close["mae_ranks"], distant["mae_ranks"]) == (0.25, 0.5)
    # Observed squares 1 of 4 pairs, by chance (1*2*1 + 1*2*4 + 2*2*1) / 4 for near.
    expected = np.array([[0, 1, 4], [1, 0, 1], [4, 1, 0]]) * np.outer([1, 1, 2], [0, 2, 2]) / 4
    assert close["quadratic_kappa"] == pytest.approx(1 - 1 / expected.sum())
    assert distant["quadratic_kappa"] < close["quadratic_kappa"]
    assert tuple(close) == tuple(ORDINAL)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=60))
def test_bins_of_reliability_hold_every_sample_once_whatever_their_order(rows):
    observed = [CLASSES[code] for code, _ in rows]
    top = np.array([0.4 + 0.1 * level for _, level in rows])
    shares = np.stack([top, (1 - top) / 2, (1 - top) / 2], axis=1)
    bins = score_functions.reliability(observed, shares, CLASSES)
    assert sum(row.n for row in bins) == len(rows)
    right = sum(row.n * row.accuracy for row in bins)
    assert right == pytest.approx(observed.count("a"))
    backwards = score_functions.reliability(observed[::-1], shares[::-1], CLASSES)
    for one, other in zip(bins, backwards, strict=True):
        assert dict(other) == pytest.approx(dict(one))


def test_the_calibration_error_is_the_gap_between_confidence_and_accuracy():
    observed = ["a"] * 8 + ["b"] * 2 + ["a"] * 5 + ["b"] * 5
    top = np.repeat([0.9, 0.6], 10)
    scores = score_functions.probability_scores(
        observed, np.stack([top, 1 - top], axis=1), ["a", "b"]
    )
    assert scores["ece"] == pytest.approx((0.1 + 0.1) / 2)
    truth = np.array([name == "a" for name in observed], dtype=float)
    assert scores["brier"] == pytest.approx(np.mean((top - truth) ** 2))
