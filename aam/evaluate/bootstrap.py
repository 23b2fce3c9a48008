"""95 % intervals of headline scores by resampling samples, or whole groups of them.

The percentile bootstrap of few groups is too narrow: with ten of them it covers 84 to 88 %. The
intervals here are t intervals with the standard error of the bootstrap, on a scale on which the
score has no bound. Standard error and degrees of freedom follow the effective number of groups
(Kish 1965), which is smaller than their number where groups differ in size or a class is rare.
`python -m benchmarks.coverage` shows what they cover.

Efron, B. & Tibshirani, R. (1993), An Introduction to the Bootstrap, chapters 6, 12 and 13.
Hesterberg, T. (2015), What teachers should know about the bootstrap, Am. Stat. 69:371.
Kish, L. (1965), Survey Sampling, section 11.7.
Shape suffixes: B resamples, N samples, U units that are drawn, C classes.
"""

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from aam.data.folds import units_of
from aam.data.predictions import numbers
from aam.evaluate.scores import LEAST_UNITS

RESAMPLES = 2000
"""Resamples of an interval."""
LEVEL = 0.95
"""Level of an interval."""
LEAST_EFFECTIVE = 2.0
"""Effective number of groups below which there is no interval: one group decides the score."""
BLOCK = 4_000_000
"""Weights that are held at once."""

LIMITS = {
    "regression": (0.0, math.inf),
    "classification": (0.0, 1.0),
    "ordinal": (0.0, 1.0),
}
"""Least and largest value of the headline score, by kind of target."""

Floats = NDArray[np.float64]


def bootstrap_interval(
    kind: str, predictions: pd.DataFrame, groups: ArrayLike, seed: int
) -> tuple[float, float] | None:
    """Return the 95 % interval of the headline score.

    The models are not trained again: an interval shows what other samples of the same kind would
    change.

    Parameters
    ----------
    kind
        Kind of the target: regression, classification or ordinal.
    predictions
        Predictions of one target by one method, a row per sample of fold 0 and above.
    groups
        Group of each row, [N]; a row with "" is drawn by itself.
    seed
        Seed of the draws.

    Returns
    -------
    tuple or None
        Lower and upper end. None with fewer than `LEAST_UNITS` groups (or samples), where a class
        occurs in a single group, where groups are so unequal that they count as fewer than
        `LEAST_EFFECTIVE`, and for a score that is at its bound or the same in all resamples.
    """
    unit_N = unit_codes(groups)
    units = effective_units(kind, predictions, unit_N)
    if units is None:
        return None
    score = float(resampled_scores(kind, predictions, np.ones((1, len(predictions))))[0])
    blocks = [
        resampled_scores(kind, predictions, weight_BN)
        for weight_BN in resampled_weights(unit_N, RESAMPLES, seed)
    ]
    return t_interval(score, np.concatenate(blocks), units=units, limits=LIMITS[kind])


def unit_codes(group: ArrayLike) -> NDArray[np.int64]:
    """Return the number of each sample's unit, int64 [N]: its group, or the sample itself.

    Parameters
    ----------
    group
        Group of each sample, [N]; "" for a sample without a group.
    """
    names = np.asarray(group, dtype=np.str_)
    rows = pd.RangeIndex(len(names)).astype(str)
    unit_N = units_of(pd.Series(names, rows)).to_numpy(np.str_)
    return np.unique(unit_N, return_inverse=True)[1]


def effective_units(
    kind: str, predictions: pd.DataFrame, unit_N: NDArray[np.int64]
) -> float | None:
    """Return how many equal groups the groups of the samples are worth.

    That is (sum of u)^2 / sum of u^2 over the groups, where u is the number of samples of a group
    (Kish's effective sample size). A sample of a class counts by the squared inverse of how
    frequent its class is, which is its share in the variance of a mean of recalls.

    Parameters
    ----------
    kind
        Kind of the target: regression, classification or ordinal.
    predictions
        Predictions of one target, of which `observed` is used.
    unit_N
        Group of each row, as `unit_codes` returns it.

    Returns
    -------
    float or None
        None where there are too few groups, where they are worth fewer than `LEAST_EFFECTIVE`, or
        where a class occurs in a single group.
    """
    share_N = np.ones(len(unit_N))
    if kind != "regression":
        observed_N = predictions["observed"].to_numpy(np.str_)
        _, class_N, size_C = np.unique(observed_N, return_inverse=True, return_counts=True)
        if _units_by_class(class_N, unit_N).min() < 2:
            return None
        share_N = 1.0 / size_C[class_N] ** 2
    share_U = np.bincount(unit_N, weights=share_N)
    effective = float(share_U.sum() ** 2 / (share_U**2).sum())
    if len(share_U) < LEAST_UNITS or effective < LEAST_EFFECTIVE:
        return None
    return effective


def _units_by_class(class_N: NDArray[np.int64], unit_N: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return in how many units each class occurs, [C]."""
    pairs = np.unique(np.stack([class_N, unit_N]), axis=1)
    return np.bincount(pairs[0])


def t_interval(
    score: float, resampled_B: Floats, *, units: float, limits: tuple[float, float]
) -> tuple[float, float] | None:
    """Return the t interval of a score on a scale on which it has no bound.

    A score x between a and b is taken as log((x - a) / (b - x)), without the part of a bound that
    is infinite: the logarithm of an error, the logit of an accuracy. The standard error is that of
    the resampled scores times the derivative of this scale.

    Parameters
    ----------
    score
        The score of all samples.
    resampled_B
        The score in each resample, NaN where undefined.
    units
        Effective number of groups n: the variance is multiplied by n / (n - 1), and the t
        distribution has n - 1 degrees of freedom.
    limits
        Least and largest value of the score.

    Returns
    -------
    tuple or None
        Lower and upper end; None for a score that is undefined, at a limit, undefined in more than
        half of the resamples, or the same in all.
    """
    low, high = limits
    defined = resampled_B[np.isfinite(resampled_B)]
    if not low < score < high or len(defined) < len(resampled_B) / 2:
        return None
    # A score that is the same in all resamples, but for rounding, has no interval.
    error = float(defined.std()) * math.sqrt(units / (units - 1))
    if error <= 1e-9 * abs(score):
        return None
    # Where one sample decides a score, an end may lie beyond all numbers.
    derivative = 1 / (score - low) + 1 / (high - score)
    reach = float(stats.t.ppf((1 + LEVEL) / 2, df=units - 1)) * error * derivative
    ends = _shift(score, -reach, limits), _shift(score, reach, limits)
    return ends if np.isfinite(ends).all() else None


def _shift(score: float, step: float, limits: tuple[float, float]) -> float:
    """Return the score that lies a step away on the scale without bounds."""
    low, high = limits
    # The factor is 0 or infinite where the step is too large for a number. NumPy divides by it.
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        factor = np.exp(np.float64(step))
        if math.isinf(high):
            return float(low + (score - low) * factor)
        if math.isinf(low):
            return float(high - (high - score) / factor)
        share = 1 / (1 + (high - score) / (score - low) / factor)
        return float(low + (high - low) * share)


def resampled_weights(unit_N: NDArray[np.int64], resamples: int, seed: int) -> Iterator[Floats]:
    """Yield how often each row is in each resample of as many units as there are.

    Parameters
    ----------
    unit_N
        Unit of each row, from 0.
    resamples
        Number of resamples.
    seed
        Seed of the draws.

    Yields
    ------
    numpy.ndarray
        A block of resamples, float64 [B, N].
    """
    rng = np.random.default_rng(seed)
    units = int(unit_N.max()) + 1
    block = max(1, BLOCK // len(unit_N))
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        # Each resample gets a range of numbers of its own, so that one count serves them all.
        drawn = rng.integers(0, units, (size, units)) + units * np.arange(size)[:, None]
        count_BU = np.bincount(drawn.ravel(), minlength=size * units).reshape(size, units)
        yield count_BU[:, unit_N].astype(np.float64)


def resampled_scores(kind: str, predictions: pd.DataFrame, weight_BN: Floats) -> Floats:
    """Return the headline score of samples that count more or less often, [B].

    Parameters
    ----------
    kind
        Kind of the target: regression, classification or ordinal.
    predictions
        Predictions of one target by one method, a row per sample.
    weight_BN
        How often each sample counts, in each resample. A fold counts in a mean over folds by how
        much of it was drawn.

    Returns
    -------
    numpy.ndarray
        NaN where undefined: a balanced accuracy where none of a class was drawn.
    """
    if kind == "regression":
        error_N = np.abs(numbers(predictions["observed"]) - numbers(predictions["predicted"]))
        fold_weight_N = _weights_of_equal_folds(predictions["fold"])
        return (weight_BN @ (fold_weight_N * error_N)) / (weight_BN @ fold_weight_N)
    truth_N = predictions["observed"].to_numpy(np.str_)
    is_right_N = truth_N == predictions["predicted"].to_numpy(np.str_)
    recalls = []
    for name in np.unique(truth_N):
        is_class_N = truth_N == name
        # A resample may lack a class.
        with np.errstate(invalid="ignore"):
            right_B = weight_BN[:, is_class_N] @ is_right_N[is_class_N]
            recalls.append(right_B / weight_BN[:, is_class_N].sum(axis=1))
    return np.mean(recalls, axis=0)


def _weights_of_equal_folds(fold: pd.Series) -> Floats:
    """Return one over the size of each sample's fold, [N]: with them every fold counts alike."""
    _, code_N, size_F = np.unique(fold, return_inverse=True, return_counts=True)
    return 1 / size_F[code_N]
