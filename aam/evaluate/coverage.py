"""How often prediction intervals and prediction sets hold what was observed."""

import math
from typing import Any

import pandas as pd

from aam.data.predictions import split_classes
from aam.learners import conformal


def report_intervals(intervals: pd.DataFrame) -> dict[str, Any]:
    """Return how often intervals or sets cover what was observed, and how large they are.

    Parameters
    ----------
    intervals
        What `aam.learners.conformal.cross_intervals` returns, of one target.

    Returns
    -------
    dict
        `level`, `coverage`, `width` or `set_size` (means over samples; None where an interval has
        no end), `coverage_by_fold`, and under `test` the same of the rows of fold -1, if any.
    """
    is_covered = _is_covered(intervals)
    is_scored = intervals["fold"] >= 0
    is_test = intervals["fold"] < 0
    by_fold = is_covered[is_scored].groupby(intervals.loc[is_scored, "fold"]).mean()
    report: dict[str, Any] = {
        "level": conformal.LEVEL,
        **_summarize(intervals[is_scored], is_covered[is_scored]),
        "coverage_by_fold": {str(name): float(value) for name, value in by_fold.items()},
    }
    if is_test.any():
        summary = _summarize(intervals[is_test], is_covered[is_test])
        report["test"] = {"n": int(is_test.sum()), **summary}
    return report


def _summarize(intervals: pd.DataFrame, is_covered: pd.Series) -> dict[str, float | None]:
    """Return the coverage of some samples, and the mean size of their intervals or sets."""
    if "prediction_set" in intervals:
        size_name = "set_size"
        size = intervals["prediction_set"].map(lambda text: len(split_classes(text)))
    else:
        size_name = "width"
        size = intervals["upper"] - intervals["lower"]
    mean_size = float(size.mean(skipna=False))
    return {
        "coverage": float(is_covered.mean()),
        size_name: mean_size if math.isfinite(mean_size) else None,
    }


def _is_covered(intervals: pd.DataFrame) -> pd.Series:
    """Return whether the interval or set of each sample has what was observed."""
    if "prediction_set" in intervals:
        sets = intervals["prediction_set"].map(split_classes)
        pairs = zip(intervals["observed"].astype(str), sets, strict=True)
        return pd.Series([name in classes for name, classes in pairs], intervals.index)
    observed = pd.to_numeric(intervals["observed"])
    # A missing bound is no bound.
    is_outside = (observed < intervals["lower"]) | (observed > intervals["upper"])
    return ~is_outside
