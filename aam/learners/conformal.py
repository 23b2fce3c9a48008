"""Prediction intervals, sets of classes, and probabilities, calibrated on the other folds.

What is predicted in fold k is calibrated on the cross-validated predictions of all other folds, as
in cross-conformal prediction (Vovk, V. 2015, doi:10.1007/s10472-013-9368-4); held-out test samples
and other tables on those of all folds.

Shape suffixes: N samples, C classes.
"""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from aam.data.predictions import (
    CROSS_VALIDATION,
    GROUP,
    PROBABILITY,
    QUANTILE,
    TARGET,
    by_target,
    class_codes,
    class_names,
    class_probabilities,
    numbers,
    read_predictions,
)
from aam.data.target import QUANTILES, Bounds, Target
from aam.data.targets import SEPARATOR
from aam.learners.recalibration import Recalibration, class_frequencies
from aam.util.errors import problem

logger = logging.getLogger(__name__)

QUANTILE_COLUMNS = tuple(f"{QUANTILE}{level:g}" for level in QUANTILES)
HINT = "copy the model directory again: folders of several may be mixed"
LEVEL = 0.9
"""Fraction of the samples that an interval is to cover."""
ENDS = f"{QUANTILE}{(1 - LEVEL) / 2:g}", f"{QUANTILE}{(1 + LEVEL) / 2:g}"
"""Columns of the predicted quantiles that bound it."""


@dataclass(frozen=True)
class Calibration:
    """What turns predictions into intervals, learned from cross-validated predictions."""

    method: str
    """residual: the same width on both sides of each prediction; quantile: predicted quantiles,
    moved (Romano et al. 2019, arXiv:1905.03222); set: the classes of enough probability
    (Sadinle et al. 2019, doi:10.1080/01621459.2017.1395341), the likeliest always, of calibrated
    probabilities."""
    thresholds: Mapping[str, float]
    """By target ("" where there is one): the half-width, what the quantiles are moved by, or the
    largest 1 - probability; inf where there are too few samples for the level."""
    recalibration: Recalibration | None = None
    """What calibrates probabilities; None where numbers are predicted."""

    @classmethod
    def fit(cls, predictions: pd.DataFrame) -> "Calibration":
        """Learn intervals, or sets and probabilities, from cross-validated predictions.

        Parameters
        ----------
        predictions
            What `read_predictions` returned; rows of fold 0 and above are used.
        """
        scored = predictions[predictions["fold"] >= 0]
        classes = class_names(predictions)
        recalibration = None
        if classes:
            method = "set"
            recalibration = fit_recalibration(scored, classes)
            scored = _calibrated(scored, recalibration)
        elif set(ENDS) <= set(predictions.columns):
            method = "quantile"
        else:
            method = "residual"
        thresholds = {
            target: finite_sample_quantile(_scores(part, method), LEVEL)
            for target, part in by_target(scored).items()
        }
        return cls(method, thresholds, recalibration)

    def apply(
        self, frame: pd.DataFrame, target: str = "", bounds: Bounds = (None, None)
    ) -> pd.DataFrame:
        """Return predictions with intervals, or with sets of classes and calibrated probabilities.

        Parameters
        ----------
        frame
            Columns `predicted`, [`target`], [`probability:<class>`], [`quantile:<q>`].
        target
            What all rows are of where `frame` has no column `target`.
        bounds
            What intervals are cut at.

        Returns
        -------
        pandas.DataFrame
            Of numbers with `lower` and `upper`, missing where the calibration had too few samples.
            Of classes with calibrated probabilities; `likeliest`, the class of the highest of
            them; `prediction_set`, classes joined by "|". `predicted` stays what it was.
        """
        targets = frame[TARGET] if TARGET in frame else [target] * len(frame)
        threshold_N = np.array([self.thresholds.get(name, math.inf) for name in targets])
        if self.recalibration is not None:
            frame = _calibrated(frame, self.recalibration)
        if self.method == "set":
            return _with_sets(frame, threshold_N)
        return _with_intervals(frame, self.method, threshold_N, bounds)


def cross_intervals(predictions: pd.DataFrame, bounds: Bounds = (None, None)) -> pd.DataFrame:
    """Return predictions with intervals, each fold calibrated on the other folds 0 and above.

    Parameters
    ----------
    predictions
        Cross-validated predictions of a method, of one target or several.
    bounds
        Least and largest number that is predicted; intervals are cut there.

    Returns
    -------
    pandas.DataFrame
        The same rows with the columns that `Calibration.apply` adds.
    """
    parts = []
    thresholds: list[float] = []
    for number in np.unique(predictions["fold"]):
        is_in_fold = predictions["fold"] == number
        calibration = Calibration.fit(predictions[~is_in_fold])
        thresholds.extend(calibration.thresholds.values())
        parts.append(calibration.apply(predictions[is_in_fold], bounds=bounds))
    _warn_of_few(thresholds)
    return pd.concat(parts).loc[predictions.index]


def interval_report(intervals: pd.DataFrame) -> dict[str, Any]:
    """Say how often intervals or sets cover what was observed.

    Parameters
    ----------
    intervals
        What `cross_intervals` returned, of one target.

    Returns
    -------
    dict
        `level`, `coverage`, `width` or `set_size` (means over samples; None where an interval has
        no end), `coverage_by_fold`, and under `test` the same of the rows of fold -1, if any.
    """
    covered = _is_covered(intervals)
    if "prediction_set" in intervals:
        size_name = "set_size"
        size = intervals["prediction_set"].str.split(SEPARATOR, regex=False).map(len)
    else:
        size_name = "width"
        size = intervals["upper"] - intervals["lower"]

    def summary(is_row: pd.Series) -> dict[str, float | None]:
        mean_size = float(size[is_row].mean(skipna=False))
        return {
            "coverage": float(covered[is_row].mean()),
            size_name: mean_size if math.isfinite(mean_size) else None,
        }

    is_scored = intervals["fold"] >= 0
    is_test = intervals["fold"] < 0
    by_fold = covered[is_scored].groupby(intervals.loc[is_scored, "fold"]).mean()
    report: dict[str, Any] = {"level": LEVEL, **summary(is_scored)}
    report["coverage_by_fold"] = {str(name): float(value) for name, value in by_fold.items()}
    if is_test.any():
        report["test"] = {"n": int(is_test.sum()), **summary(is_test)}
    return report


def _is_covered(intervals: pd.DataFrame) -> pd.Series:
    """Return whether the interval or set of each sample has what was observed."""
    if "prediction_set" in intervals:
        sets = intervals["prediction_set"].str.split(SEPARATOR, regex=False)
        pairs = zip(intervals["observed"].astype(str), sets, strict=True)
        return pd.Series([name in classes for name, classes in pairs], intervals.index)
    observed = pd.to_numeric(intervals["observed"])
    # A missing bound is no bound.
    is_outside = (observed < intervals["lower"]) | (observed > intervals["upper"])
    return ~is_outside


def finite_sample_quantile(scores: ArrayLike, level: float) -> float:
    """Return the ceil((n + 1) * level)-th smallest of n scores.

    With this quantile as the threshold, split conformal prediction covers at least a fraction
    `level` of exchangeable samples (Vovk, Gammerman and Shafer 2005, Algorithmic Learning in a
    Random World).

    Parameters
    ----------
    scores
        Nonconformity of each sample, [n].
    level
        Fraction to cover.

    Returns
    -------
    float
        inf where there are too few scores for the level.
    """
    values = np.asarray(scores, dtype=np.float64)
    # A product such as 10 * 0.7 may lie a rounding above the whole number it is.
    rank = math.ceil((len(values) + 1) * level - 1e-9)
    if rank > len(values):
        return math.inf
    return float(np.partition(values, rank - 1)[rank - 1])


def fit_recalibration(predictions: pd.DataFrame, classes: list[str]) -> Recalibration:
    """Learn what calibrates the probabilities of a table.

    Parameters
    ----------
    predictions
        Predictions of one target, all rows of which are used. A column `group` says which samples
        belong together; without it every sample counts alone.
    classes
        Names of the classes.
    """
    group = predictions[GROUP] if GROUP in predictions else predictions["sample-id"]
    return Recalibration.fit(
        observed=predictions["observed"],
        probabilities=class_probabilities(predictions, classes),
        classes=classes,
        group=group,
    )


def calibrated_probabilities(
    predictions: pd.DataFrame, classes: list[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what probabilities and a constant become when both are learned on other folds.

    Parameters
    ----------
    predictions
        A table of one target, as `read_predictions` returns it, with or without `group`.
    classes
        Names of the classes, in the order of the columns that are returned.

    Returns
    -------
    tuple
        Calibrated probabilities [N, C], and frequencies of the classes [N, C]. Both rest on the
        rows of the other folds 0 and above. A single fold keeps its probabilities, and its
        constant is the same for all classes.
    """
    raw_NC = class_probabilities(predictions, classes)
    calibrated_NC = np.empty_like(raw_NC)
    constant_NC = np.empty_like(raw_NC)
    fold = predictions["fold"].to_numpy()
    for number in np.unique(fold):
        is_own = fold == number
        others = predictions[~is_own & (fold >= 0)]
        calibrated_NC[is_own] = fit_recalibration(others, classes).apply(raw_NC[is_own])
        constant_NC[is_own] = class_frequencies(others["observed"], classes)
    return calibrated_NC, constant_NC


def _calibrated(frame: pd.DataFrame, recalibration: Recalibration) -> pd.DataFrame:
    """Return a table with calibrated probabilities in the place of the method's own."""
    classes = class_names(frame)
    share_NC = recalibration.apply(class_probabilities(frame, classes))
    columns = [PROBABILITY + name for name in classes]
    return frame.assign(**dict(zip(columns, share_NC.T, strict=True)))


def _scores(frame: pd.DataFrame, method: str) -> NDArray[np.float64]:
    """Return the nonconformity of each sample, [N]."""
    if method == "set":
        classes = class_names(frame)
        shares_NC = class_probabilities(frame, classes)
        return 1 - shares_NC[np.arange(len(frame)), class_codes(frame["observed"], classes)]
    low, high = _centre(frame, method)
    observed = numbers(frame["observed"])
    return np.maximum(low - observed, observed - high)


def _centre(frame: pd.DataFrame, method: str) -> list[NDArray[np.float64]]:
    """Return what the threshold is taken off and added to."""
    names = ENDS if method == "quantile" else ("predicted", "predicted")
    return [numbers(frame[name]) for name in names]


def _with_sets(frame: pd.DataFrame, threshold_N: NDArray[np.float64]) -> pd.DataFrame:
    """Return classes with `likeliest` and `prediction_set`, by calibrated probabilities."""
    classes = np.array(class_names(frame))
    shares_NC = class_probabilities(frame, classes.tolist())
    likeliest_N = shares_NC.argmax(axis=1)
    is_in_NC = 1 - shares_NC <= threshold_N[:, None]
    # A set is never empty.
    is_in_NC[np.arange(len(frame)), likeliest_N] = True
    return frame.assign(
        likeliest=classes[likeliest_N],
        prediction_set=[SEPARATOR.join(classes[row]) for row in is_in_NC],
    )


def _with_intervals(
    frame: pd.DataFrame, method: str, threshold_N: NDArray[np.float64], bounds: Bounds
) -> pd.DataFrame:
    """Return numbers with `lower` and `upper`, NaN where the threshold is infinite."""
    low, high = _centre(frame, method)
    half_N = np.where(np.isfinite(threshold_N), threshold_N, np.nan)
    lower = low - half_N
    upper = high + half_N
    # Quantiles that are moved past each other leave one point.
    is_crossed = lower > upper
    middle = (lower + upper) / 2
    return frame.assign(
        lower=np.clip(np.where(is_crossed, middle, lower), *bounds),
        upper=np.clip(np.where(is_crossed, middle, upper), *bounds),
    )


def _warn_of_few(thresholds: ArrayLike) -> None:
    if np.isinf(np.asarray(thresholds)).any():
        logger.warning("too few samples in the other folds for intervals of %.0f %%", 100 * LEVEL)


def load_calibration(
    directory: Path, target: Target, *, quantiles: bool = True
) -> Calibration | None:
    """Learn intervals from the predictions of a model directory.

    Parameters
    ----------
    directory
        Directory of fine-tuned models, or of a super learner.
    target
        What its models predict.
    quantiles
        Whether predicted quantiles are expected where the loss has them; a mixture has none.

    Returns
    -------
    Calibration or None
        None where the directory has no cross-validated predictions, with a warning.

    Raises
    ------
    InputError
        The predictions are those of another task, or no such table.
    """
    path = directory / CROSS_VALIDATION
    if not path.exists():
        logger.warning("%s is missing: intervals are left out", path)
        return None
    wanted = "the predictions of these models"
    try:
        table = read_predictions(path)
    except (KeyError, ValueError) as error:
        raise problem(path, f"no such table ({error})", wanted, HINT) from error
    columns = {"fold", "observed", "predicted", *(PROBABILITY + name for name in target.classes)}
    if quantiles and target.loss == "quantile":
        columns |= set(QUANTILE_COLUMNS)
    targets = set(target.columns) if len(target.columns) > 1 else {""}
    if not columns <= set(table) or set(by_target(table)) != targets:
        raise problem(path, "those of another task", wanted, HINT)
    calibration = Calibration.fit(table)
    _warn_of_few([*calibration.thresholds.values()])
    return calibration
