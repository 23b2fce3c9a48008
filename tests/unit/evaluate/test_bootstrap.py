"""Intervals by resampling: against scores of rows that are really repeated."""

import numpy as np
import pandas as pd
import pytest
from problems import predictions_of

from aam.evaluate import bootstrap, metrics
from aam.evaluate.bootstrap import bootstrap_intervals, resampled_scores

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
    found = resampled_scores(kind, table, weights)
    sizes = table["fold"].map(table["fold"].value_counts()).to_numpy()
    for number, weight in enumerate(weights.astype(int)):
        rows = table.loc[np.repeat(table.index, weight)]
        pair, fold = (rows["observed"], rows["predicted"]), rows["fold"]
        if kind == "regression":
            plain = metrics.regression_metrics(*pair, fold)
            error = np.abs(table["observed"] - table["predicted"])
            plain["mae_fold_mean"] = np.average(error, weights=weight / sizes)
        else:
            shares = rows.filter(like="probability:").to_numpy()
            plain = metrics.classification_metrics(*pair, shares, CLASSES, fold, ordinal=True)
        for name, values in found.items():
            assert values[number] == pytest.approx(plain[name]), name


def test_an_interval_holds_its_share_of_the_resamples_and_needs_no_single_block(monkeypatch):
    table = numbers(np.random.default_rng(3), 200)
    alone = np.full(len(table), "")
    one = bootstrap_intervals("regression", table, alone, 5)
    error = np.abs(table["observed"] - table["predicted"])
    low, high = one["mae_pooled"]
    assert (high - low) / 2 == pytest.approx(1.96 * error.std() / np.sqrt(len(error)), rel=0.1)
    assert low < error.mean() < high
    monkeypatch.setattr(bootstrap, "BLOCK", 200 * 300)
    assert bootstrap_intervals("regression", table, alone, 5) == {
        name: pytest.approx(value) for name, value in one.items()
    }
    assert bootstrap_intervals("regression", table, alone, 6) != one


def test_samples_of_one_group_bring_no_more_than_one_does():
    table = numbers(np.random.default_rng(4), 30)
    repeated = pd.concat([table] * 20, ignore_index=True)
    groups = np.tile([f"host{i}" for i in range(30)], 20)

    def width(rows: pd.DataFrame, labels: np.ndarray) -> float:
        low, high = bootstrap_intervals("regression", rows, labels, 0)["mae_pooled"]
        return high - low

    whole = width(table, np.full(30, ""))
    assert width(repeated, groups) == pytest.approx(whole, rel=0.15)
    assert width(repeated, np.full(600, "")) < whole / 3


def test_few_groups_and_scores_that_most_resamples_leave_undefined_have_no_interval():
    table = numbers(np.random.default_rng(5), 12).assign(predicted=1.0)
    found = bootstrap_intervals("regression", table, list("abcdef") * 2, 0)
    assert found["pearson"] is None
    assert found["mae_pooled"] is not None
    assert not any(bootstrap_intervals("regression", table, list("abcdea") * 2, 0).values())
