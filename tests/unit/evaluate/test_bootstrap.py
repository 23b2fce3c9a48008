"""Intervals by resampling: against scores of rows that are really repeated."""

import numpy as np
import pandas as pd
import pytest
from problems import predictions_of

from aam.data.predictions import mean_recall
from aam.evaluate import bootstrap
from aam.evaluate.bootstrap import (
    bootstrap_interval,
    effective_units,
    resampled_scores,
    t_interval,
    unit_codes,
)
from benchmarks.coverage import Design, coverage

CLASSES = ["low", "mid", "high"]


def numbers(rng: np.random.Generator, samples: int = 40) -> pd.DataFrame:
    observed, fold = rng.normal(50, 10, samples), rng.integers(0, 4, samples)
    return predictions_of(observed, observed + rng.normal(0, 5, samples), fold)


def names(rng: np.random.Generator, samples: int = 40) -> pd.DataFrame:
    shares = rng.dirichlet(np.ones(3), samples).round(1)
    fold, observed = rng.integers(0, 4, samples), rng.choice(CLASSES, samples)
    predicted = np.array(CLASSES)[shares.argmax(axis=1)]
    return predictions_of(observed, predicted, fold, shares, CLASSES)


def drawn(rng: np.random.Generator, samples: int = 40, resamples: int = 6) -> np.ndarray:
    draws = rng.integers(0, samples, (resamples, samples))
    return np.stack([np.bincount(draw, minlength=samples) for draw in draws]).astype(float)


@pytest.mark.parametrize("kind", ["regression", "ordinal"])
def test_rows_that_count_twice_score_as_rows_that_stand_twice(kind):
    rng = np.random.default_rng(0)
    table = (numbers if kind == "regression" else names)(rng)
    weights = np.concatenate([np.ones((1, len(table))), drawn(rng)])
    results = resampled_scores(kind, table, weights)
    sizes = table["fold"].map(table["fold"].value_counts()).to_numpy()
    for number, weight in enumerate(weights.astype(int)):
        rows = table.loc[np.repeat(table.index, weight)]
        if kind == "regression":
            error = np.abs(table["observed"] - table["predicted"])
            plain = np.average(error, weights=weight / sizes)
        else:
            plain = mean_recall(rows["observed"].to_numpy(), rows["predicted"].to_numpy())
        assert results[number] == pytest.approx(plain)


def test_an_interval_has_the_standard_error_and_needs_no_single_block(monkeypatch):
    table = numbers(np.random.default_rng(3), 200)
    alone = np.full(len(table), "")
    one = bootstrap_interval("regression", table, alone, 5)
    error = np.abs(table["observed"] - table["predicted"])
    low, high = one
    half = 1.97 * error.std() / np.sqrt(len(error)) / error.mean()
    assert np.log([low, high]) == pytest.approx(np.log(error.mean()) + [-half, half], abs=0.02)
    monkeypatch.setattr(bootstrap, "BLOCK", 200 * 300)
    assert bootstrap_interval("regression", table, alone, 5) == pytest.approx(one)
    assert bootstrap_interval("regression", table, alone, 6) != one


@pytest.mark.parametrize("limits", [(0, np.inf), (-np.inf, 1), (0, 1), (-1, 1)])
def test_an_interval_stays_within_the_limits_of_a_score_and_grows_with_its_error(limits):
    score, resampled = 0.9, np.array([0.8, 0.85, 0.95, 1.0])
    low, high = t_interval(score, resampled, units=12.0, limits=limits)
    assert limits[0] < low < score < high < limits[1]
    wider_low, wider_high = t_interval(score, resampled, units=6.0, limits=limits)
    assert limits[0] < wider_low < low
    assert high < wider_high < limits[1]


def test_an_interval_on_the_scale_of_the_logit_by_hand():
    resampled = np.array([0.6, 0.8, np.nan])
    low, high = t_interval(0.7, resampled, units=10.0, limits=(0.0, 1.0))
    reach = 2.262157 * 0.1 * np.sqrt(10 / 9) / (0.7 * 0.3)
    logit = np.log(0.7 / 0.3)
    assert np.log(low / (1 - low)) == pytest.approx(logit - reach, rel=1e-6)
    assert np.log(high / (1 - high)) == pytest.approx(logit + reach, rel=1e-6)


@pytest.mark.parametrize(
    ("score", "resampled"),
    [(1.0, [0.9, 1.0]), (np.nan, [0.5, 0.6]), (0.5, [0.5, 0.5]), (0.5, [0.4, np.nan, np.nan])],
)
def test_a_score_that_tells_nothing_of_its_spread_has_no_interval(score, resampled):
    assert t_interval(score, np.array(resampled), units=10.0, limits=(0.0, 1.0)) is None


def test_samples_of_one_group_bring_no_more_than_one_does():
    table = numbers(np.random.default_rng(4), 30)
    repeated = pd.concat([table] * 20, ignore_index=True)
    groups = np.tile([f"host{i}" for i in range(30)], 20)

    def width(rows: pd.DataFrame, labels: np.ndarray) -> float:
        low, high = bootstrap_interval("regression", rows, labels, 0)
        return high - low

    whole = width(table, np.full(30, ""))
    assert width(repeated, groups) == pytest.approx(whole, rel=0.15)
    assert width(repeated, np.full(600, "")) < whole / 3


def test_few_groups_have_no_interval():
    table = numbers(np.random.default_rng(5), 20).assign(predicted=1.0)
    assert bootstrap_interval("regression", table, list("abcdefghij") * 2, 0) is not None
    assert bootstrap_interval("regression", table, list("abcdefghia") * 2, 0) is None
    assert bootstrap_interval("regression", table[:9], [""] * 9, 0) is None


def test_groups_of_unequal_size_and_rare_classes_count_as_fewer():
    table = names(np.random.default_rng(6), 40)
    equal = unit_codes([f"g{row % 10}" for row in range(40)])
    unequal = unit_codes(["g0"] * 22 + [f"g{row % 9 + 1}" for row in range(18)])
    assert effective_units("regression", table, equal) == pytest.approx(10)
    # Twenty-two samples of one group, and two of each of nine.
    expected = 40**2 / (22**2 + 9 * 2**2)
    assert effective_units("regression", table, unequal) == pytest.approx(expected)
    rare = table.assign(observed=["high" if unit < 2 else "low" for unit in equal])
    # A class of two groups and one of eight: they count by their squared inverse sizes.
    shares = np.array([4 / 8**2] * 2 + [4 / 32**2] * 8)
    expected = shares.sum() ** 2 / (shares**2).sum()
    assert effective_units("ordinal", rare, equal) == pytest.approx(expected)
    single = table.assign(observed=["high" if unit < 1 else "low" for unit in equal])
    assert effective_units("ordinal", single, equal) is None
    assert bootstrap_interval("ordinal", single, equal.astype(str), 0) is None
    most = unit_codes(["g0"] * 31 + [f"g{row + 1}" for row in range(9)])
    assert effective_units("regression", table, most) is None


def test_intervals_cover_from_ten_groups_on():
    """A small version of `benchmarks.coverage`; the percentile bootstrap fails it."""

    def is_hard(design: Design) -> bool:
        return design.groups == 10 and design.correlation == 0.8

    results = coverage(60, seed=1, chosen=is_hard)
    counts = results.groupby("method")[["covered", "intervals"]].sum()
    share = counts["covered"] / counts["intervals"]
    assert share["report"] >= 0.93
    assert share["percentile"] < 0.9


@pytest.mark.parametrize("limits", [(0, np.inf), (-np.inf, 1), (0, 1), (-1, 1)])
@pytest.mark.parametrize("score", [1e-300, 0.5, 1 - 1e-16, -1e30, 1e30])
@pytest.mark.parametrize("spread", [1e-300, 1e3, 1e150, 1e300])
def test_an_interval_of_any_resamples_has_two_ends_within_the_limits_or_there_is_none(
    limits, score, spread
):
    resampled = score + spread * np.array([-1.0, 1.0, 0.5, -0.5])
    with np.errstate(over="ignore", invalid="ignore"):
        interval = t_interval(score, resampled, units=3.0, limits=limits)
    assert interval is None or limits[0] <= interval[0] <= score <= interval[1] <= limits[1]
    assert interval is None or np.isfinite(interval).all()


@pytest.mark.parametrize("odd", [-9999.0, 1e12, -1e30])
def test_a_score_that_one_value_decides_has_an_interval_around_it(odd):
    observed = np.append(np.random.default_rng(0).normal(7, 0.5, 39), odd)
    predicted = np.append(np.full(39, 8 + 1e-3 * odd), odd)
    table = predictions_of(observed, predicted, np.arange(40) % 4)
    low, high = bootstrap_interval("regression", table, [""] * 40, seed=0)
    assert 0 < low < np.abs(observed - predicted).mean() < high


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_intervals_have_the_unit_of_the_target(unit):
    table = numbers(np.random.default_rng(3))
    scaled = table.assign(observed=table["observed"] * unit, predicted=table["predicted"] * unit)
    interval = bootstrap_interval("regression", table, [""] * 40, seed=0)
    expected = pytest.approx(np.multiply(interval, unit))
    assert bootstrap_interval("regression", scaled, [""] * 40, seed=0) == expected
