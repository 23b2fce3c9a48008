import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.evaluate import score_functions
from aam.evaluate.scores import (
    CLASSIFICATION,
    ORDINAL,
    REGRESSION,
    correct_p_values,
    is_better,
)
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


def test_samples_are_binned_in_tenths_by_how_sure_they_are():
    top = np.linspace(0.5, 0.975, 20)
    observed = np.array(["a", "b"] * 10)
    order = np.random.default_rng(0).permutation(20)
    shares = np.stack([top, 1 - top], axis=1)
    bins = score_functions.reliability(observed[order], shares[order], ["a", "b"])
    assert [one.n for one in bins] == [2] * 10
    assert [one.confidence for one in bins] == pytest.approx(top.reshape(10, 2).mean(axis=1))
    assert [one.accuracy for one in bins] == [0.5] * 10
    half = score_functions.reliability(["a", "b"], [[0.5, 0.5]] * 2, ["a", "b"])
    assert [(one.n, one.confidence, one.accuracy) for one in half] == [(2, 0.5, 0.5)]


def test_calibrated_probabilities_are_scored_next_to_a_constant():
    observed = ["a", "a", "b", "c"]
    calibrated = np.array([[0.5, 0.3, 0.2], [0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [1.0, 0.0, 0.0]])
    constant = np.array([[0.5, 0.25, 0.25]] * 4)
    found = score_functions.calibration_scores(observed, calibrated, constant, CLASSES)
    true = np.array([0.5, 0.8, 0.6, 1e-12])
    assert found.log_loss == pytest.approx(-np.log(true).mean())
    assert found.constant_log_loss == pytest.approx(-np.log([0.5, 0.5, 0.25, 0.25]).mean())
    truth = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    assert found.brier == pytest.approx(((calibrated - truth) ** 2).sum(axis=1).mean())
    assert found.constant_brier == pytest.approx(((constant - truth) ** 2).sum(axis=1).mean())
    # The last sample is predicted for sure, and wrong.
    assert found.ece == pytest.approx((0.5 + 0.2 + 0.4 + 1.0) / 4)


def test_probabilities_are_scaled_to_add_up_to_one():
    scores = score_functions.probability_scores(["a", "b"], [[2.0, 2.0], [1.0, 3.0]], ["a", "b"])
    assert scores["brier"] == pytest.approx((0.5**2 + 0.25**2) / 2)


def test_one_class_predicted_for_all_has_no_correlation():
    names = ["a", "a", "b"]
    constant = score_functions.classification_scores(
        names, ["a"] * 3, probabilities(["a"] * 3), CLASSES, [0, 0, 1]
    )
    assert constant["mcc"] == 0.0
    alone = score_functions.classification_scores(
        ["a"] * 3, ["a"] * 3, probabilities(["a"] * 3), CLASSES, [0, 0, 1], ordinal=True
    )
    assert (alone["mcc"], alone["quadratic_kappa"]) == (0.0, None)
    right = score_functions.classification_scores(
        names, names, probabilities(names), CLASSES, [0, 0, 1], ordinal=True
    )
    assert (right["mcc"], right["quadratic_kappa"], right["mae_ranks"]) == (1.0, 1.0, 0.0)
    assert right["accuracy_fold_sd"] == 0.0


def test_numbers_that_cannot_vary_have_neither_r2_nor_correlation():
    scores = score_functions.regression_scores([2.0, 2.0], [1.0, 3.0], [0, 1])
    assert (scores["r2_pooled"], scores["pearson"], scores["spearman"]) == (None, None, None)
    assert (scores["mae_fold_mean"], scores["mae_fold_sd"]) == (1.0, 0.0)
    line = score_functions.regression_scores([1.0, 2.0, 4.0], [2.0, 4.0, 8.0], [0, 0, 1])
    assert line["pearson"] == pytest.approx(1.0)


def test_p_values_are_corrected_by_the_method_of_holm():
    corrected = correct_p_values([0.01, None, 0.04, 0.03, 0.005])
    assert corrected == [pytest.approx(0.03), None, 0.06, 0.06, pytest.approx(0.02)]
    assert correct_p_values([0.5, 0.9, 0.5]) == [1.0, 1.0, 1.0]
    assert correct_p_values([None]) == [None]
    assert correct_p_values([0.2]) == [0.2]


def test_errors_are_better_where_they_are_lower_and_accuracies_where_they_are_higher():
    assert [is_better("regression", step) for step in (-1.0, 0.0, 1.0)] == [True, False, False]
    assert [is_better("ordinal", step) for step in (-1.0, 0.0, 1.0)] == [False, False, True]
