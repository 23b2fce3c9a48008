"""Intervals and sets of samples that training hardly knows."""

import numpy as np
import pandas as pd
import pytest

from aam.data.target import Target
from aam.inference.task_predictor import with_intervals
from aam.learners.conformal import Calibration

ROWS = 60
SITE = Target.fit("classification", ("site",), [["gut"], ["skin"]] * 30, np.ones(ROWS, bool))
AGE = Target.fit("regression", ("age",), [["1"], ["9"]] * 30, np.ones(ROWS, bool))


def cross_validated() -> pd.DataFrame:
    rows = np.arange(ROWS)
    frame = pd.DataFrame({"sample-id": rows.astype(str), "fold": rows % 5})
    is_gut = rows % 2 == 0
    sure = np.where(is_gut, 0.98, 0.02)
    named = np.where(is_gut, "gut", "skin")
    shares = {"probability:gut": sure, "probability:skin": 1 - sure}
    return frame.assign(observed=named, predicted=named, **shares)


def predicted(near: list[float]) -> pd.DataFrame:
    index = pd.Index([f"new {number}" for number in range(len(near))], name="sample-id")
    shares = {"predicted": "gut", "probability:gut": 0.98, "probability:skin": 0.02}
    return pd.DataFrame({**shares, "unseen_asvs": 1.0, "near_reads": near}, index=index)


def test_only_a_sample_that_is_known_well_enough_has_a_set_of_one_class():
    calibration = Calibration.fit(cross_validated())
    found = with_intervals(predicted([1.0, 0.5, 0.49, 0.0]), calibration, SITE)
    assert found["prediction_set"].tolist() == ["gut", "gut", "gut|skin", "gut|skin"]
    alone = with_intervals(predicted([0.2]), calibration, SITE)
    assert alone["prediction_set"].tolist() == ["gut|skin"]


@pytest.mark.parametrize(("near", "kept"), [([1.0, 0.1], True), ([0.2, 0.1], False)])
def test_bounds_and_quantiles_are_empty_and_a_column_of_nothing_is_left_out(near, kept):
    """QIIME 2 takes no empty column."""
    numbers = cross_validated().drop(columns=["probability:gut", "probability:skin"])
    numbers = numbers.assign(observed="5", predicted=5 + np.arange(ROWS) / 10)
    frame = predicted(near)[["unseen_asvs", "near_reads"]]
    frame.insert(0, "predicted", 5.0)
    frame.insert(1, "quantile:0.05", 1.0)
    found = with_intervals(frame, Calibration.fit(numbers), AGE)
    bounds = ["quantile:0.05", "lower", "upper"]
    assert [name for name in bounds if name in found] == (bounds if kept else [])
    assert found["predicted"].tolist() == [5.0, 5.0]
    if kept:
        assert found[bounds].notna().all(axis=1).tolist() == [True, False]
