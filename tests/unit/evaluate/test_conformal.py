import logging
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from problems import predictions_of

from aam.evaluate.conformal import (
    Calibration,
    cross_intervals,
    finite_sample_quantile,
    interval_report,
    scaled_probabilities,
    temperature,
)

CLASSES = ["a", "b", "c"]


def numbers(samples: int = 600, seed: int = 0) -> pd.DataFrame:
    """Return predictions whose error grows with the sample, and quantiles that know it."""
    rng = np.random.default_rng(seed)
    scale = np.linspace(0.5, 3, samples)
    predicted = rng.normal(0, 10, samples)
    observed = predicted + scale * rng.normal(size=samples)
    table = predictions_of(observed, predicted, np.arange(samples) % 6 - 1)
    return table.assign(**{"quantile:0.05": predicted - scale, "quantile:0.95": predicted + scale})


def classes(samples: int = 600, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet([0.6] * 3, samples)
    observed = [rng.choice(CLASSES, p=row) for row in shares]
    predicted = np.array(CLASSES)[shares.argmax(axis=1)]
    return predictions_of(observed, predicted, np.arange(samples) % 6 - 1, shares, CLASSES)


def residual(samples: int = 600, seed: int = 0) -> pd.DataFrame:
    return numbers(samples, seed).drop(columns=["quantile:0.05", "quantile:0.95"])


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.sampled_from([0.5, 0.7, 0.9]))
def test_the_quantile_is_the_least_score_that_enough_scores_do_not_pass(scores, level):
    found = finite_sample_quantile(scores, level)
    need = (len(scores) + 1) * level - 1e-9
    enough = [score for score in scores if sum(other <= score for other in scores) >= need]
    assert found == (min(enough) if enough else math.inf)


@pytest.mark.parametrize("make", [residual, numbers, classes])
def test_every_fold_is_calibrated_on_the_other_folds_alone(make):
    table = make(120)
    found = cross_intervals(table)
    columns = [name for name in ("lower", "upper", "prediction_set") if name in found]
    for fold in table["fold"].unique():
        own = table["fold"] == fold
        apart = Calibration.fit(table[~own & (table["fold"] >= 0)]).apply(table[own])
        pd.testing.assert_frame_equal(found.loc[own, columns], apart[columns])


@pytest.mark.parametrize("make", [residual, numbers, classes])
def test_intervals_cover_what_they_promise(make):
    table = make(3000)
    report = interval_report(cross_intervals(table))
    assert report["coverage"] == pytest.approx(0.9, abs=0.02)
    assert report["test"]["coverage"] == pytest.approx(0.9, abs=0.05)
    assert report["test"]["n"] == 500
    assert report["coverage_by_fold"].keys() == {"0", "1", "2", "3", "4"}
    newcomers = make(3000, seed=1)
    applied = Calibration.fit(table).apply(newcomers.drop(columns=["fold", "observed"]))
    full = applied.assign(fold=0, observed=newcomers["observed"])
    assert interval_report(full)["coverage"] == pytest.approx(0.9, abs=0.02)


def test_a_set_has_the_likeliest_class_and_those_of_enough_probability():
    table = classes()
    calibration = Calibration.fit(table)
    least = 1 - calibration.thresholds[""]
    for row in calibration.apply(table).to_dict("records"):
        likely = {name for name in CLASSES if row[f"probability:{name}"] >= least - 1e-12}
        assert set(row["prediction_set"].split("|")) == likely | {row["predicted"]}


def test_each_target_has_a_width_of_its_own():
    small, large = residual(), residual(seed=1)
    large["observed"] = large["predicted"] + 100 * (large["observed"] - large["predicted"])
    both = pd.concat([small.assign(target="bmi"), large.assign(target="age")], ignore_index=True)
    found = cross_intervals(both)
    first = cross_intervals(small)
    assert found["lower"].to_numpy()[: len(small)] == pytest.approx(first["lower"].to_numpy())
    calibration = Calibration.fit(both)
    frame = pd.DataFrame({"predicted": [0.0, 0.0], "target": ["age", "bmi"]})
    age, bmi = calibration.apply(frame)["upper"]
    assert age > 30 * bmi
    alone = calibration.apply(frame.drop(columns="target"), "age")
    assert alone["upper"].tolist() == [age, age]


def test_too_few_samples_have_no_bounds_and_one_warning(caplog):
    with caplog.at_level(logging.WARNING):
        found = cross_intervals(residual(9).assign(fold=[0, 1, 2] * 3))
    assert found[["lower", "upper"]].isna().all(axis=None)
    assert len(caplog.records) == 1
    report = interval_report(found)
    assert (report["coverage"], report["width"]) == (1.0, None)


def test_the_temperature_is_the_one_of_least_log_loss():
    table = classes(400)
    shares = table[[f"probability:{name}" for name in CLASSES]].to_numpy() ** 2
    shares /= shares.sum(axis=1, keepdims=True)
    code = table["observed"].map(CLASSES.index).to_numpy()

    def loss(value: float) -> float:
        scaled = shares ** (1 / value)
        scaled /= scaled.sum(axis=1, keepdims=True)
        return -np.log(scaled[np.arange(len(code)), code]).mean()

    found = temperature(table["observed"], shares, CLASSES)
    grid = np.geomspace(0.5, 8, 400)
    assert found == pytest.approx(grid[np.argmin([loss(value) for value in grid])], rel=0.02)


def test_temperatures_come_from_the_other_folds():
    table = classes(120)
    changed = table.assign(observed=np.where(table["fold"] == 2, "a", table["observed"]))
    own = (table["fold"] == 2).to_numpy()
    before, after = (scaled_probabilities(rows, CLASSES) for rows in (table, changed))
    assert np.array_equal(before[own], after[own])
    assert not np.allclose(before[~own], after[~own])
    assert before.sum(axis=1) == pytest.approx(1)
