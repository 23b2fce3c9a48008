import numpy as np
import pandas as pd
import pytest
from problems import predictions_of
from scipy import stats

from aam.data.predictions import mean_recall
from aam.evaluate.comparison import compare, compare_with_guessing, corrected_resampled_t


def table(errors: list[float], folds: int = 4) -> pd.DataFrame:
    rows = np.arange(len(errors))
    observed, predicted = (10 + rows).astype(str), (10 + rows + errors).astype(str)
    return predictions_of(observed, predicted, rows % folds)


def test_the_corrected_test_by_hand():
    difference = np.array([-1.0, -2.0, -1.5, 0.5])
    p = corrected_resampled_t(difference, [10, 10, 10, 10])
    t = difference.mean() / np.sqrt((1 / 4 + 1 / 3) * difference.var(ddof=1))
    assert p == pytest.approx(2 * stats.t.cdf(t, 3))
    assert p > stats.ttest_1samp(difference, 0).pvalue


def test_folds_are_compared_whatever_the_order_of_rows():
    first, second = table([1, 2, 3, 1, 1, 2, 1, 1]), table([2, 4, 2, 3, 2, 6, 2, 3])
    comparison = compare(
        "regression", first, second.sample(frac=1, random_state=0), independent=True
    )
    by_fold = np.array([1 - 2, 2 - 5, 2 - 2, 1 - 3])
    assert comparison.difference == pytest.approx(by_fold.mean())
    assert comparison.folds_won == 0.75
    assert comparison.folds == 4
    assert comparison.corrected_t_p == pytest.approx(corrected_resampled_t(by_fold, [2] * 4))
    # Three folds without a tie: all signs alike in 2 of the 8 equally likely cases.
    assert comparison.wilcoxon_folds_p == pytest.approx(0.25)
    reverse = compare("regression", second, first, independent=True)
    assert reverse.difference == -comparison.difference
    assert reverse.folds_won == 0
    for name in ("corrected_t_p", "wilcoxon_folds_p", "wilcoxon_samples_p"):
        assert getattr(reverse, name) == pytest.approx(getattr(comparison, name))


def test_classes_are_compared_by_what_one_of_the_two_has_right():
    first = table([0] * 8).assign(observed="a", predicted=["a"] * 7 + ["b"])
    comparison = compare(
        "classification", first, first.assign(predicted=["b"] * 6 + ["a", "a"]), independent=True
    )
    assert comparison.mcnemar_p == pytest.approx(2 * (1 + 7) / 2**7)
    assert comparison.difference == pytest.approx(7 / 8 - 2 / 8)
    assert comparison.wilcoxon_samples_p is None


def test_the_difference_of_classes_is_that_of_the_balanced_accuracies_that_are_shown():
    """Folds hold the classes in unequal parts, so means of the folds' recalls would differ."""
    rng = np.random.default_rng(3)
    observed = rng.choice(["a", "b", "c"], 60, p=[0.7, 0.2, 0.1])
    fold = np.arange(60) // 12
    tables = []
    for error in (0.2, 0.4):
        wrong = rng.random(60) < error
        predicted = np.where(wrong, rng.choice(["a", "b", "c"], 60), observed)
        tables.append(predictions_of(observed, predicted, fold))
    comparison = compare("classification", *tables, independent=False)
    first, second = (mean_recall(observed, table["predicted"].to_numpy(str)) for table in tables)
    assert comparison.difference == pytest.approx(first - second)
    reverse = compare("classification", *reversed(tables), independent=False)
    assert reverse.difference == pytest.approx(-comparison.difference)
    assert reverse.corrected_t_p == pytest.approx(comparison.corrected_t_p)


def test_a_table_against_itself_has_no_test():
    first = table([1, 2, 3, 4])
    comparison = compare("regression", first, first, independent=True)
    assert comparison.difference == comparison.folds_won == 0
    assert {p for name, p in comparison if name.endswith("_p")} == {None}
    assert compare("classification", first, first, independent=True).mcnemar_p is None


def test_samples_of_a_study_are_no_evidence_each():
    """Six studies of thirty, one left out at a time, and two methods that are equally good.

    In each study one of the two happens to suit better. Tests over samples take every sample as
    evidence that it would be so again.
    """
    rng = np.random.default_rng(0)
    draws = 200
    study = np.repeat(np.arange(6), 30)
    over_samples = []
    over_folds = []
    for _ in range(draws):
        observed = rng.normal(size=180)
        shifts = rng.normal(0, 2, (2, 6))[:, study]
        first, second = (
            predictions_of(observed, observed + shift + rng.normal(size=180), study)
            for shift in shifts
        )
        alone = compare("regression", first, second, independent=True)
        over_samples.append(alone.wilcoxon_samples_p)
        grouped = compare("regression", first, second, independent=False)
        assert grouped.wilcoxon_samples_p is grouped.mcnemar_p is None
        over_folds.append(grouped.corrected_t_p)
    assert np.mean(np.array(over_samples) < 0.05) > 0.5
    # 5 % is nominal; the standard error of 200 draws is 1.5 %.
    assert np.mean(np.array(over_folds) < 0.05) < 0.08


def test_guessing_a_class_is_one_in_k_though_the_majority_of_other_folds_is_less():
    """Two classes of equal size: what is left out of a fold is missing in the others."""
    rng = np.random.default_rng(1)
    fold = np.arange(60) % 5
    majorities = []
    for _ in range(40):
        observed = rng.permutation(np.repeat(["a", "b"], 30))
        guess = np.empty_like(observed)
        for number in range(5):
            kept = observed[fold != number]
            guess[fold == number] = "a" if (kept == "a").sum() >= (kept == "b").sum() else "b"
        majorities.append((observed == guess).mean())
        comparison = compare_with_guessing("classification", predictions_of(observed, guess, fold))
        assert comparison.score == 0.5
        assert comparison.difference == pytest.approx(majorities[-1] - 0.5)
    assert np.mean(majorities) < 0.48


def test_a_constant_is_no_better_than_guessing_where_folds_hold_one_class_each():
    """The mean recall of a fold would be 1 in nine of ten folds."""
    observed = ["a"] * 27 + ["b"] * 3
    fold = np.repeat(np.arange(10), 3)
    comparison = compare_with_guessing("classification", predictions_of(observed, "a", fold))
    assert comparison.score == 0.5
    assert comparison.difference == pytest.approx(0)
    assert comparison.corrected_t_p > 0.9


def test_guesses_at_random_are_seldom_better_than_guessing():
    rng = np.random.default_rng(2)
    fold = np.arange(60) % 5
    better = []
    for _ in range(400):
        observed = rng.choice(["a", "b", "b"], 60)
        guess = rng.choice(["a", "b"], 60)
        comparison = compare_with_guessing("ordinal", predictions_of(observed, guess, fold))
        better.append(comparison.difference > 0 and comparison.corrected_t_p < 0.05)
    # 2.5 % is nominal, and the standard error 0.8 %.
    assert np.mean(better) <= 0.045


def test_a_number_is_guessed_by_the_median_of_the_other_folds():
    observed = np.array([1.0, 2.0, 3.0, 4.0, 10.0, 20.0])
    fold = np.array([0, 0, 1, 1, 2, 2])
    comparison = compare_with_guessing("regression", predictions_of(observed, observed + 1, fold))
    # The medians of the other folds are 7, 6 and 2.5.
    guess_errors = np.array([5.5, 2.5, 12.5])
    assert comparison.score == pytest.approx(guess_errors.mean())
    assert comparison.difference == pytest.approx((1 - guess_errors).mean())
    p = corrected_resampled_t(1 - guess_errors, [2, 2, 2])
    assert comparison.corrected_t_p == pytest.approx(p)


@pytest.mark.parametrize(("folds", "shown"), [(5, True), (2, False)])
def test_a_perfect_score_is_tested_as_if_one_sample_were_wrong(folds, shown):
    """Folds that all have the same score have no spread; two folds show nothing all the same."""
    truth = np.array(["a", "b"] * 20)
    table = pd.DataFrame({"fold": np.arange(40) // 2 % folds, "observed": truth})
    comparison = compare_with_guessing("classification", table.assign(predicted=truth))
    assert comparison.difference == pytest.approx(0.5)
    assert (comparison.corrected_t_p < 0.05) == shown
    one_wrong = truth.copy()
    one_wrong[0] = "b"
    less = compare_with_guessing("classification", table.assign(predicted=one_wrong))
    assert comparison.corrected_t_p >= less.corrected_t_p * (1 - 1e-9)
