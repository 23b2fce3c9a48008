"""Predictions for another table with their intervals, or sets of classes."""

import numpy as np
import pandas as pd

from aam.data.predictions import FEW_NEAR, NEAR_READS, PROBABILITY, QUANTILE, join_classes
from aam.data.target import Target
from aam.learners.conformal import QUANTILE_COLUMNS, Calibration

ADDED = ("lower", "upper", "likeliest", "prediction_set")
"""Columns that the calibration adds, as far as the kind of target has them."""


def with_intervals(
    predictions: pd.DataFrame, calibration: Calibration | None, target: Target
) -> pd.DataFrame:
    """Put the intervals, or sets, of every target behind its predictions.

    Samples with less than `FEW_NEAR` near reads are unlike those that intervals and sets are
    calibrated by: their bounds and quantiles are left empty, and their sets hold all classes.

    Parameters
    ----------
    predictions
        What is predicted, then `unseen_asvs`, `near_reads` and what follows them. Where there are
        several targets, the columns of each end with a colon and its name.
    calibration
        What turns them into intervals; None: they are returned as they are.
    target
        What is predicted.

    Returns
    -------
    pandas.DataFrame
        The same columns, and `ADDED` before `unseen_asvs`.
    """
    if calibration is None:
        return _without_confidence(predictions, target)
    end = predictions.columns.get_loc("unseen_asvs")
    parts = [predictions.iloc[:, :end]]
    for column in target.columns:
        name = column if len(target.columns) > 1 else ""
        suffix = f":{name}" if name else ""
        plain = {f"{base}{suffix}": base for base in ("predicted", *QUANTILE_COLUMNS)}
        calibrated = calibration.apply(predictions.rename(columns=plain), name, target.bounds)
        added = calibrated[[base for base in ADDED if base in calibrated]]
        # Calibrated probabilities stand in the place of the method's own.
        parts[0] = parts[0].assign(**calibrated.filter(like=PROBABILITY))
        # Too few samples to calibrate by give no bounds, and QIIME 2 takes no empty column.
        parts.append(added.dropna(axis=1, how="all").add_suffix(suffix))
    return _without_confidence(pd.concat([*parts, predictions.iloc[:, end:]], axis=1), target)


def _without_confidence(predictions: pd.DataFrame, target: Target) -> pd.DataFrame:
    """Return predictions whose samples with few near reads have no interval, or a set of all."""
    is_few = predictions[NEAR_READS] < FEW_NEAR
    if not is_few.any():
        return predictions
    result = predictions.copy()
    bounds = [name for name in result if str(name).startswith(("lower", "upper", QUANTILE))]
    result.loc[is_few, bounds] = np.nan
    if "prediction_set" in result:
        result.loc[is_few, "prediction_set"] = join_classes(target.classes)
    # QIIME 2 takes no empty column.
    return result.drop(columns=bounds) if is_few.all() else result
