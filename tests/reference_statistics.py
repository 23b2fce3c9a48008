"""Statistics over groups, written as they are defined: what those of the package are compared with.

Held-out predictions depend on each other, so the variance of what the groups add to a score counts
twice; see `aam.evaluate.comparison`.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def effective_number(weight: Floats, unit: Codes) -> float:
    """Return how many equal units the units of weighted samples are worth, as Kish defines it."""
    share = np.bincount(unit, weights=weight)
    return share.sum() ** 2 / (share**2).sum()


def p_and_half_width(
    difference: float, added: Floats, unit: Codes, units: float
) -> tuple[float, float]:
    """Return the p-value of a difference, and half of the width of its interval of 95 %.

    Parameters
    ----------
    difference
        Difference from zero.
    added
        What each sample adds to the difference, around its mean.
    unit
        Unit of each sample.
    units
        Effective number of units, which is one more than the degrees of freedom.
    """
    sums = np.bincount(unit, weights=added)
    error = math.sqrt(2 * (sums**2).sum() * units / (units - 1))
    p = 2 * stats.t.sf(abs(difference) / error, units - 1)
    return p, stats.t.ppf(0.975, units - 1) * error


def compare_errors(
    error: Floats, guess: Floats, weight: Floats, unit: Codes
) -> tuple[float, tuple[float, float]]:
    """Return the p-value of the logarithm of the ratio of two mean errors, and ends of the first.

    The ends are those of the interval of the ratio, in units of the second mean error.
    """
    score, mean = weight @ error, weight @ guess
    added = weight * (error / score - guess / mean)
    units = effective_number(weight, unit)
    p, step = p_and_half_width(math.log(score / mean), added, unit, units)
    return p, (score * math.exp(-step), score * math.exp(step))


def compare_share(
    score: float, added: Floats, unit: Codes, units: float
) -> tuple[float, tuple[float, float]]:
    """Return the p-value of a share next to a half, on the scale of the arcsine, and its ends."""
    angle = math.asin(math.sqrt(score))
    # The arcsine of the root has the derivative 1 / (2 sqrt(s (1 - s))).
    slope = 1 / (2 * math.sqrt(score * (1 - score)))
    p, step = p_and_half_width(angle - math.pi / 4, slope * added, unit, units)
    low = math.sin(max(angle - step, 0)) ** 2
    return p, (low, math.sin(min(angle + step, math.pi / 2)) ** 2)


def median_elsewhere(value: Floats, level: Codes, fold: Codes) -> Floats:
    """Return for each sample the median of its level in the other folds.

    Where no other fold has the level, it is the median of all samples of the other folds.
    """
    medians = []
    for number, own_level in zip(fold, level, strict=True):
        is_elsewhere = fold != number
        is_alike = is_elsewhere & (level == own_level)
        medians.append(np.median(value[is_alike if is_alike.any() else is_elsewhere]))
    return np.array(medians)
