"""Tests over units: by hand, by what no test may depend on, and by how often they find noise."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from problems import predictions_of
from reference_statistics import compare_errors, effective_number, p_and_half_width
from scipy import stats

from aam.data.predictions import mean_recall
from aam.evaluate.comparison import (
    compare,
    compare_tested_with_guessing,
    compare_with_guessing,
    effective_units,
    measure_difference,
    unit_codes,
)
from aam.evaluate.scores import LEAST_UNITS, LEAST_UNITS_OF_CLASS
from benchmarks.coverage import Design, measure

CLASSES = ["low", "mid", "high"]


def numbers(rng: np.random.Generator, samples: int = 40) -> pd.DataFrame:
    observed, fold = rng.normal(50, 10, samples), rng.integers(0, 4, samples)
    return predictions_of(observed, observed + rng.normal(0, 5, samples), fold)


def names(rng: np.random.Generator, samples: int = 40, right: float = 0.6) -> pd.DataFrame:
    observed, fold = rng.choice(CLASSES, samples), rng.integers(0, 4, samples)
    predicted = np.where(rng.random(samples) < right, observed, rng.choice(CLASSES, samples))
    return predictions_of(observed, predicted, fold)


def alone(table: pd.DataFrame) -> pd.Series:
    """Return the groups of samples that have none."""
    return pd.Series("", index=table["sample-id"])


@pytest.mark.parametrize("draw", [numbers, names])
def test_a_test_set_is_compared_with_what_the_folds_guess(draw):
    table = draw(np.random.default_rng(0), 80)
    table.loc[table["fold"] == 0, "fold"] = -1
    tested = table[table["fold"] < 0]
    kind = "regression" if draw is numbers else "classification"
    found = compare_tested_with_guessing(kind, table, [""] * len(table))
    assert found.p < 0.05
    low, high = found.interval
    if kind == "regression":
        observed = table["observed"].astype(float)
        median = np.median(observed[table["fold"] >= 0])
        guess = np.abs(observed[tested.index] - median).mean()
        assert found.score == pytest.approx(guess)
        assert low < found.score + found.difference < high < guess
    else:
        assert found.score == pytest.approx(1 / 3)
        recall = mean_recall(tested["observed"].to_numpy(), tested["predicted"].to_numpy())
        assert low < recall < high
        assert low > 1 / 3


def test_a_number_is_guessed_by_the_median_of_the_other_folds_and_tested_by_hand():
    observed = np.array([1.0, 2.0, 3.0, 4.0, 10.0, 20.0])
    fold = np.array([0, 0, 1, 1, 2, 2])
    result = compare_with_guessing(
        "regression", predictions_of(observed, observed + 1, fold), [""] * 6
    )
    # The medians of the other folds are 7, 6 and 2.5.
    guess_errors = np.array([6, 5, 3, 2, 7.5, 17.5])
    assert result.score == pytest.approx(guess_errors.mean())
    assert result.difference == pytest.approx(1 - guess_errors.mean())
    added = 1.0 - guess_errors / guess_errors.mean()
    error = math.sqrt(2 * stats.sem(added) ** 2)
    logarithm = math.log(1 / guess_errors.mean())
    assert result.p == pytest.approx(2 * stats.t.sf(-logarithm / error, 5))
    step = stats.t.ppf(0.975, 5) * error
    assert result.interval == pytest.approx((math.exp(-step), math.exp(step)))


def test_classes_are_tested_by_hand():
    """Of ten samples of a class, eight are right, and of ten of the other, six."""
    observed = np.repeat(["a", "b"], 10)
    right = np.array([1] * 8 + [0] * 2 + [1] * 6 + [0] * 4, dtype=bool)
    other = np.where(observed == "a", "b", "a")
    table = predictions_of(observed, np.where(right, observed, other), np.arange(20) % 5)
    result = compare_with_guessing("classification", table, [""] * 20)
    assert result.score == 0.5
    assert result.difference == pytest.approx(0.2)
    of_recalls = 0.8 * 0.2 / 10 + 0.6 * 0.4 / 10
    variance = of_recalls / 4 * 20 / 19
    # The arcsine of the root has the derivative 1 / (2 sqrt(s (1 - s))).
    error = math.sqrt(2 * variance) / (2 * math.sqrt(0.7 * 0.3))
    angle = math.asin(math.sqrt(0.7))
    t = (angle - math.pi / 4) / error
    assert result.p == pytest.approx(2 * stats.t.sf(t, 19))
    low = angle - stats.t.ppf(0.975, 19) * error
    assert result.interval[0] == pytest.approx(math.sin(low) ** 2)


@settings(max_examples=150)
@given(st.integers(0, 10**6), st.sampled_from(["regression", "ordinal"]), st.floats(0, 1))
def test_an_interval_leaves_out_guessing_just_where_the_test_finds_a_difference(seed, kind, right):
    rng = np.random.default_rng(seed)
    table = numbers(rng) if kind == "regression" else names(rng, right=right)
    if kind == "regression":
        table["predicted"] = right * table["predicted"] + (1 - right) * rng.normal(50, 10, 40)
    groups = rng.integers(0, rng.integers(6, 40), 40).astype(str)
    result = compare_with_guessing(kind, table, groups, CLASSES)
    assume(result.p is not None and abs(result.p - 0.05) > 1e-9)
    low, high = result.interval
    assert (low <= result.score <= high) == (result.p > 0.05)
    assert low <= result.score + result.difference <= high


@pytest.mark.parametrize("kind", ["regression", "ordinal"])
def test_neither_the_order_of_rows_nor_the_names_of_groups_and_folds_matter(kind):
    rng = np.random.default_rng(1)
    first = (numbers if kind == "regression" else names)(rng)
    second = first.assign(predicted=rng.permutation(first["predicted"]))
    groups = pd.Series(rng.integers(0, 15, 40).astype(str), index=first["sample-id"])
    plain = compare(kind, first, second, groups)
    mixed = first.sample(frac=1, random_state=2)
    renamed = ("x" + groups).sample(frac=1, random_state=3)
    other = compare(kind, mixed.assign(fold=9 - mixed["fold"]),
                    second.assign(fold=9 - second["fold"]), renamed)  # fmt: skip
    assert other.difference == pytest.approx(plain.difference)
    assert other.p == pytest.approx(plain.p)
    reverse = compare(kind, second, first, groups)
    assert reverse.difference == pytest.approx(-plain.difference)
    assert reverse.p == pytest.approx(plain.p)
    assert reverse.folds_won + plain.folds_won == pytest.approx(1)
    against = compare_with_guessing(kind, first, groups.loc[first["sample-id"]], CLASSES)
    again = compare_with_guessing(kind, mixed, renamed.loc[mixed["sample-id"]], CLASSES)
    assert again.p == pytest.approx(against.p)
    assert again.interval == pytest.approx(against.interval)


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_tests_and_intervals_have_the_unit_of_the_target(unit):
    table = numbers(np.random.default_rng(3))
    scaled = table.assign(observed=table["observed"] * unit, predicted=table["predicted"] * unit)
    plain = compare_with_guessing("regression", table, [""] * 40)
    large = compare_with_guessing("regression", scaled, [""] * 40)
    assert large.p == pytest.approx(plain.p)
    assert large.interval == pytest.approx(np.multiply(plain.interval, unit))
    shifted = [one.assign(predicted=one["observed"] + s) for one, s in ((table, 1), (scaled, unit))]
    before, after = (
        compare("regression", one, other, alone(one))
        for one, other in zip((table, scaled), shifted, strict=True)
    )
    assert after.p == pytest.approx(before.p)


def test_samples_of_one_unit_bring_no_more_than_one_does():
    table = numbers(np.random.default_rng(4), 30)
    repeated = pd.concat([table] * 20, ignore_index=True)
    groups = np.tile([f"host{i}" for i in range(30)], 20)
    whole = compare_with_guessing("regression", table, [""] * 30)
    assert compare_with_guessing("regression", repeated, groups).p == pytest.approx(
        whole.p, rel=0.1
    )
    assert compare_with_guessing("regression", repeated, [""] * 600).p < whole.p / 100


def test_few_units_or_few_of_a_class_have_neither_test_nor_interval():
    rng = np.random.default_rng(5)
    table = numbers(rng, 20)
    enough = [f"g{row % LEAST_UNITS}" for row in range(20)]
    assert compare_with_guessing("regression", table, enough).p is not None
    for few in ([f"g{row % (LEAST_UNITS - 1)}" for row in range(20)], ["one"] * 20):
        result = compare_with_guessing("regression", table, few)
        assert result.p is result.interval is None
    units = np.arange(40) % 10
    for rare, has_test in ((LEAST_UNITS_OF_CLASS, True), (LEAST_UNITS_OF_CLASS - 1, False)):
        observed = np.where(units < rare, "high", "low")
        classes = predictions_of(observed, rng.permutation(observed), np.arange(40) % 4)
        result = compare_with_guessing("classification", classes, units.astype(str))
        assert (result.p is not None) == (result.interval is not None) == has_test


def test_units_of_unequal_size_count_as_fewer():
    row = np.arange(40)
    table = predictions_of(row * 1.0, row * 1.0, row % 4)

    def effective(unit):
        return effective_units("regression", table, unit_codes(unit))

    assert effective(row % 10) == pytest.approx(10)
    # Twenty-two samples of one unit, and two of each of nine.
    unequal = np.where(row < 22, 0, 1 + (row - 22) % 9)
    assert effective(unequal) == pytest.approx(40**2 / (22**2 + 9 * 2**2))
    most_of_one = np.where(row < 31, 0, row)
    assert effective(most_of_one) is None


def test_units_of_small_folds_count_more():
    """Folds count alike, so that six studies are six units however large the first is."""
    fold = np.repeat(np.arange(6), [30, 2, 2, 2, 2, 2])
    table = predictions_of(np.arange(40.0), np.arange(40.0), fold)
    assert effective_units("regression", table, fold) == pytest.approx(6)


def test_folds_of_few_samples_make_no_findings_of_noise():
    """A sample that is a fold by itself has a third of the score, and so of the difference."""
    rng = np.random.default_rng(1)
    fold = np.repeat([0, 1, 2], [60, 1, 1])
    found = 0
    for _ in range(200):
        observed = rng.normal(size=62)
        one = predictions_of(observed, 0.5 * rng.normal(size=62), fold)
        other = predictions_of(observed, 0.5 * rng.normal(size=62), fold)
        p = compare("regression", one, other, alone(one)).p
        found += p is not None and p < 0.05
    assert found <= 10


def test_units_of_a_rare_class_count_more():
    equal = unit_codes([f"g{row % 10}" for row in range(40)])
    observed = np.where(equal < 3, "high", "low")
    table = predictions_of(observed, observed, np.arange(40) % 4)
    # Three units of one class and seven of the other count by their squared inverse sizes.
    rare = 4 / 12**2
    frequent = 4 / 28**2
    expected = (3 * rare + 7 * frequent) ** 2 / (3 * rare**2 + 7 * frequent**2)
    assert effective_units("ordinal", table, equal) == pytest.approx(expected)


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
    result = compare("classification", *tables, alone(tables[0]))
    first, second = (mean_recall(observed, table["predicted"].to_numpy(str)) for table in tables)
    assert result.difference == pytest.approx(first - second)


def test_a_table_against_itself_is_no_better():
    for kind, table in (
        ("regression", numbers(np.random.default_rng(0))),
        ("classification", names(np.random.default_rng(0))),
    ):
        result = compare(kind, table, table, alone(table))
        assert result.difference == result.folds_won == 0
        assert result.p == 1


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
        table = predictions_of(observed, guess, fold)
        result = compare_with_guessing("classification", table, [""] * 60)
        assert result.score == 0.5
        assert result.difference == pytest.approx(majorities[-1] - 0.5)
    assert np.mean(majorities) < 0.48


@pytest.mark.parametrize("rare", [3, 12])
def test_a_constant_is_no_better_than_guessing(rare):
    """In folds of one class each, it would be right in all of most folds."""
    observed = ["a"] * (30 - rare) + ["b"] * rare
    table = predictions_of(observed, "a", np.repeat(np.arange(10), 3))
    result = compare_with_guessing("classification", table, [""] * 30)
    assert result.difference == pytest.approx(0)
    assert result.p > 0.9


@pytest.mark.parametrize(("units", "is_shown"), [(20, True), (6, False)])
def test_a_perfect_score_is_tested_as_if_one_unit_were_wrong(units, is_shown):
    """Predictions that are all right have no spread; six units show little all the same."""
    unit = np.arange(40) % units
    truth = np.where(unit % 2 == 0, "a", "b")
    table = predictions_of(truth, truth, unit % 5)
    result = compare_with_guessing("classification", table, unit.astype(str))
    assert result.difference == pytest.approx(0.5)
    assert (result.p < 0.01) == is_shown
    low, high = result.interval
    assert high == 1
    assert (low > 0.6) == is_shown
    one_wrong = truth.copy()
    one_wrong[unit == 0] = "b"
    less = compare_with_guessing(
        "classification", table.assign(predicted=one_wrong), unit.astype(str)
    )
    assert result.p >= less.p * (1 - 1e-9)
    constant = compare("classification", table, table.assign(predicted="a"),
                       pd.Series(unit.astype(str), index=table["sample-id"]))  # fmt: skip
    assert constant.difference == pytest.approx(0.5)
    assert 0 < constant.p < 0.2


@pytest.mark.parametrize("is_paired", [False, True])
def test_classes_wholly_right_or_wrong_are_tested_as_if_one_unit_were_another(is_paired):
    """Two of three classes are right: units add the same to the score, which chance may do."""
    truth = np.tile(["a", "b", "c"], 6)
    predicted = np.where(truth == "c", "a", truth)
    unit = np.arange(18) // 3 if is_paired else np.arange(18)
    table = predictions_of(truth, predicted, np.arange(18) % 3)
    groups = [f"g{one}" for one in unit]
    result = compare_with_guessing("classification", table, groups)
    assert result.score + result.difference == pytest.approx(2 / 3)
    low, high = result.interval
    assert low < 0.6 < 0.7 < high
    assert (low > 1 / 3) == (result.p < 0.05)
    # One more that is right is no less of a finding.
    better = table.assign(predicted=np.where(np.arange(18) == 17, truth, predicted))
    assert 0 < compare_with_guessing("classification", better, groups).p < result.p < 0.5
    constant = table.assign(predicted="a")
    difference = measure_difference(
        "classification", table, constant, pd.Series(groups, index=table["sample-id"])
    )
    assert 1e-6 < difference.p < 1


def test_people_who_are_all_half_right_are_tested_as_if_one_of_them_were_wrong():
    """Eight people have two samples of each of three classes, and one of the two is right."""
    truth = np.tile(np.repeat(["a", "b", "c"], 2), 8)
    wrong = np.roll(truth, 2)
    predicted = np.where(np.arange(48) % 2 == 0, truth, wrong)
    unit = np.arange(48) // 6
    table = predictions_of(truth, predicted, unit % 4)
    result = compare_with_guessing("classification", table, unit.astype(str))
    assert result.score + result.difference == pytest.approx(0.5)
    assert 1e-5 < result.p < 0.05
    low, high = result.interval
    assert low < 0.45
    assert high > 0.52


def test_a_difference_of_classes_without_a_spread_has_the_sign_of_its_classes():
    """More samples lose than gain, but more classes gain."""
    size = np.array([20, 4, 4])
    observed = np.repeat(["a", "b", "c"], size)
    first = predictions_of(observed, np.where(observed == "a", "b", observed), np.arange(28) % 4)
    second = first.assign(predicted=np.where(observed == "a", observed, "a"))
    found = measure_difference("classification", first, second, alone(first))
    assert found.difference == pytest.approx(1 / 3)
    assert 0.01 < found.p < 0.05
    size = np.array([8, 4, 4])
    observed = np.repeat(["a", "b", "c"], size)
    first = predictions_of(observed, np.where(observed == "a", "b", observed), np.arange(16) % 4)
    second = first.assign(predicted=np.where(observed == "a", observed, "a"))
    assert measure_difference("classification", first, second, alone(first)).p > 0.01


def test_no_unit_costs_more_than_the_one_that_a_perfect_score_is_tested_by():
    rng = np.random.default_rng(7)
    unit = np.sort(rng.integers(0, 12, 60))
    truth = np.where(unit % 3 == 0, "a", "b")
    table = predictions_of(truth, truth, unit % 5)
    result = compare_with_guessing("classification", table, unit.astype(str))
    costs = []
    for wrong in np.unique(unit):
        other = np.where(truth == "a", "b", "a")
        changed = table.assign(predicted=np.where(unit == wrong, other, truth))
        costs.append(compare_with_guessing("classification", changed, unit.astype(str)))
    assert result.p == pytest.approx(max(cost.p for cost in costs))
    assert result.interval[0] == pytest.approx(min(cost.interval[0] for cost in costs))


@pytest.mark.parametrize("odd", [-9999.0, 1e12, -1e30])
def test_a_score_that_one_value_decides_is_no_finding(odd):
    observed = np.append(np.random.default_rng(0).normal(7, 0.5, 39), odd)
    predicted = np.append(np.full(39, 8 + 1e-3 * odd), odd)
    table = predictions_of(observed, predicted, np.arange(40) % 4)
    result = compare_with_guessing("regression", table, [""] * 40)
    low, high = result.interval
    assert 0 < low < np.abs(observed - predicted).mean() < high
    assert math.isfinite(high)


def test_ordered_classes_are_compared_with_the_constant_that_is_nearest_to_all():
    """Extremes that are told apart, and taken for each other, are missed by many steps."""
    observed = np.repeat(CLASSES, [10, 20, 10])
    predicted = observed.copy()
    predicted[:5], predicted[-5:], predicted[10:16] = "high", "low", "low"
    table = predictions_of(observed, predicted, np.arange(40) % 4)
    ranks = compare_with_guessing("ordinal", table, [""] * 40, CLASSES).ranks
    assert ranks.score == pytest.approx((5 * 2 / 10 + 6 / 20 + 5 * 2 / 10) / 3)
    # The middle class is one step from both others.
    assert ranks.constant == pytest.approx(2 / 3)


def test_noise_is_seldom_found_and_signals_are_found_more_often_than_over_folds():
    """A small version of `benchmarks.coverage`."""

    def is_chosen(design: Design) -> bool:
        return (
            design.target == "two classes"
            and design.units == 60
            and design.samples == 1
            and design.signal != "weak"
        )

    results = measure(60, chosen=is_chosen).set_index("signal")
    # 2.5 % is nominal, and the standard error of 60 draws is 2 %.
    assert results.loc["none", "found"] < 0.07
    assert results.loc["strong", "found"] > results.loc["strong", "found over folds"] + 0.1
    assert results["covered"].min() > 0.85


def test_numbers_are_compared_by_the_mean_of_the_folds_and_tested_over_groups():
    """Folds of 5, 10 and 15 samples count alike, and groups are as many as Kish counts them."""
    rng = np.random.default_rng(8)
    fold = np.repeat([0, 1, 2], [5, 10, 15])
    unit = rng.permutation(np.arange(30) % 9)
    observed = rng.normal(50, 10, 30)
    tables = [predictions_of(observed, observed + rng.normal(0, sd, 30), fold) for sd in (3, 5)]
    groups = pd.Series([f"g{one}" for one in unit], index=tables[0]["sample-id"])
    first, second = (np.abs(table["predicted"] - observed).to_numpy() for table in tables)
    weight = 1 / (3 * np.array([5, 10, 15]))[fold]
    added = weight * (first - second)
    difference = added.sum()
    scale = (weight * (first + second)).sum() / 2
    influence = (added - weight * difference) / scale
    units = effective_number(weight, unit)
    p, step = p_and_half_width(difference / scale, influence, unit, units)
    found = compare("regression", *tables, groups)
    assert (found.folds, found.holm_p) == (3, None)
    assert found.difference == pytest.approx(difference)
    assert found.p == pytest.approx(p)
    won = [(first - second)[fold == number].mean() < 0 for number in range(3)]
    assert found.folds_won == np.mean(won)
    measured = measure_difference("regression", *tables, groups)
    assert (measured.difference, measured.p) == (found.difference, found.p)
    ends = difference - step * scale, difference + step * scale
    assert measured.interval == pytest.approx(ends)


def test_classes_are_compared_by_the_mean_of_their_recalls_and_tested_over_samples():
    rng = np.random.default_rng(9)
    observed = np.repeat(["a", "b"], [20, 40])
    fold = np.arange(60) % 4
    tables = []
    for right in (0.9, 0.6):
        predicted = np.where(rng.random(60) < right, observed, "other")
        tables.append(predictions_of(observed, predicted, fold))
    gain = (tables[0]["predicted"] == observed) - 1.0 * (tables[1]["predicted"] == observed)
    gain = gain.to_numpy(float)
    size = np.repeat([20, 40], [20, 40])
    means = np.array([gain[:20].mean(), gain[20:].mean()])
    influence = (gain - np.repeat(means, [20, 40])) / (2 * size)
    # A sample of the rare class is worth four of the other.
    units = effective_number(1 / size**2, np.arange(60))
    p, step = p_and_half_width(means.mean(), influence, np.arange(60), units)
    found = compare("classification", *tables, alone(tables[0]))
    assert found.difference == pytest.approx(means.mean())
    assert found.p == pytest.approx(p)
    won = [(gain / size)[fold == number].sum() > 0 for number in range(4)]
    assert found.folds_won == np.mean(won)
    measured = measure_difference("classification", *tables, alone(tables[0]))
    assert measured.interval == pytest.approx((means.mean() - step, means.mean() + step))


def test_numbers_that_are_all_right_are_tested_without_an_interval():
    observed = np.array([1.0, 2.0, 3.0, 4.0, 10.0, 20.0])
    fold = np.array([0, 0, 1, 1, 2, 2])
    result = compare_with_guessing("regression", predictions_of(observed, observed, fold), [""] * 6)
    guess_errors = np.array([6, 5, 3, 2, 7.5, 17.5])
    guess = guess_errors.mean()
    p, _ = p_and_half_width(guess, (guess_errors - guess) / 6, np.arange(6), units=6)
    assert result.score == pytest.approx(guess)
    assert result.difference == pytest.approx(-guess)
    assert (result.p, result.interval) == (pytest.approx(p), None)
    same = predictions_of(np.full(6, 3.0), np.full(6, 4.0), fold)
    result = compare_with_guessing("regression", same, [""] * 6)
    assert (result.score, result.difference) == (0.0, pytest.approx(1.0))
    assert (result.p, result.interval) == (None, None), "guessing is right"


def test_predictions_that_are_those_of_guessing_have_no_interval():
    observed = np.array([1.0, 2.0, 3.0, 4.0, 10.0, 20.0])
    fold = np.array([0, 0, 1, 1, 2, 2])
    table = predictions_of(observed, np.array([7, 7, 6, 6, 2.5, 2.5]), fold)
    result = compare_with_guessing("regression", table, [""] * 6)
    assert (result.difference, result.p, result.interval) == (0.0, 1.0, None)


def test_folds_count_alike_in_the_error_of_numbers():
    observed = np.arange(12.0)
    fold = np.repeat([0, 1], [3, 9])
    table = predictions_of(observed, observed + np.where(fold == 0, 6.0, 2.0), fold)
    result = compare_with_guessing("regression", table, [""] * 12)
    guess = (np.abs(observed[:3] - 7).mean() + np.abs(observed[3:] - 1).mean()) / 2
    assert result.score == pytest.approx(guess)
    assert result.score + result.difference == pytest.approx(4.0)


def test_a_test_set_of_numbers_is_compared_with_the_median_of_the_samples_in_folds():
    rng = np.random.default_rng(10)
    fold = np.repeat([-1, 0, 1], [8, 6, 6])
    observed = rng.normal(50, 10, 20)
    table = predictions_of(observed, observed + rng.normal(0, 3, 20), fold)
    found = compare_tested_with_guessing("regression", table, [""] * 20)
    error = np.abs(table["predicted"] - observed).to_numpy()[:8]
    guess = np.abs(observed[:8] - np.median(observed[8:]))
    p, ends = compare_errors(error, guess, np.full(8, 1 / 8), np.arange(8))
    assert found.p == pytest.approx(p)
    assert found.interval == pytest.approx(ends)


def test_a_difference_without_a_spread_is_tested_as_if_one_group_were_another():
    """Every sample of a class gains as much: of the largest group of each, the worse is taken."""
    observed = np.repeat(["a", "b"], [10, 20])
    unit = np.append(np.arange(10) // 2, 10 + np.arange(20) // 4)
    first = predictions_of(observed, observed, np.arange(30) % 3)
    second = first.assign(predicted=np.repeat(["b", "b"], [10, 20]))
    groups = pd.Series([f"g{one}" for one in unit], index=first["sample-id"])
    size = np.repeat([10, 20], [10, 20])
    units = effective_number(1 / size**2, unit)
    tests = []
    for name, largest in (("a", 0), ("b", 10)):
        gain = (observed == "a") - 1.0 * (unit == largest) * (observed == name)
        means = np.array([gain[:10].mean(), gain[10:].mean()])
        influence = (gain - np.repeat(means, [10, 20])) / (2 * size)
        tests.append(p_and_half_width(means.mean(), influence, unit, units))
    p, step = max(tests)
    found = measure_difference("classification", first, second, groups)
    assert (found.difference, found.p) == (0.5, pytest.approx(p))
    assert found.interval == pytest.approx((0.5 - step, 0.5 + step))
    # The other way round it is the same difference.
    turned = measure_difference("classification", second, first, groups)
    assert (turned.difference, turned.p) == (-0.5, pytest.approx(p))


def test_ranks_are_scored_over_the_classes_that_occur():
    order = ["none", "low", "mid", "high"]
    observed = np.array(["low"] * 4 + ["high"] * 2)
    predicted = np.array(["low", "low", "mid", "none", "high", "low"])
    table = predictions_of(observed, predicted, np.arange(6) % 2)
    ranks = compare_with_guessing("ordinal", table, [""] * 6, order).ranks
    assert ranks.score == pytest.approx((2 / 4 + 2 / 2) / 2)
    # Any class from low to high is two steps from both together.
    assert ranks.constant == pytest.approx(1.0)


def test_units_are_groups_and_samples_without_one():
    assert unit_codes(["b", "", "a", "b", ""]).tolist() == [3, 0, 2, 3, 1]
    assert len(set(unit_codes([""] * 12).tolist())) == 12


def test_predictions_of_one_class_alone_have_no_interval():
    """They are right as often as guessing, whatever the samples."""
    fold = np.arange(40) % 4
    table = predictions_of(np.where(np.arange(40) < 20, "a", "b"), np.full(40, "a"), fold)
    result = compare_with_guessing("classification", table, [""] * 40)
    assert (result.difference, result.interval) == (0, None)
    assert result.p == pytest.approx(1)
