"""Numbers of a target that lie far from all others, such as slips and codes of missing values."""

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.evaluate.task_report import FarValues

FAR = 8.0
"""Gap to all other numbers, in ranges of these, from which on a number is far from them."""
FAR_NINES = 1.0
"""The same for a number of nines alone: a code for a missing value."""
NINES = re.compile(r"-?99+(\.0*)?")
MOST_FAR = 3
"""Different numbers that may be far on one side: codes for several kinds of missing values."""
LEAST_OTHERS = 10
"""Samples that have to lie together for others to be far from them."""
WIDE = 1e3
"""Largest number, in units of the median of those above 0, from which on few samples decide
scores."""
MOST_SHARE = 0.1
"""Largest share of the samples that have a far number: more have it by design, as the largest of
four doses. A number of nines may have more."""
SHOWN = 3
"""Samples that are named."""

# A rule by deviations or quantiles would flag every skewed target: the oldest of a hundred people
# whose ages are lognormal lies many deviations from the mean. What slips and codes have in common
# is an empty stretch between them and all others, so the gap is compared with the range of the
# others. In a hundred lognormal numbers of which two thirds lie within factors of 7 of the median
# (sigma = 2) it is that wide in one draw of 30, with sigma = 1 in one of 1000; 999 among ages up to
# 100 is flagged, the one person of 105 among people of up to 60 is not.


def find_far_values(observed: pd.Series) -> FarValues | None:
    """Return the numbers of a target that decide its scores alone, if there are any.

    Parameters
    ----------
    observed
        Numbers by sample ID.

    Returns
    -------
    FarValues or None
        None: there is nothing to know.
    """
    value_N = observed.to_numpy(np.float64)
    is_far_N = _is_far(value_N)
    if not is_far_N.any():
        return _describe_width(observed)
    others = value_N[~is_far_N]
    far = observed[is_far_N]
    return FarValues(
        values=tuple(sorted(set(far.astype(float)))),
        samples=tuple(sorted(map(str, far.index))[:SHOWN]),
        count=len(far),
        low=float(others.min()),
        high=float(others.max()),
    )


def _is_far(value_N: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which numbers are far from the main ones; none where no group of numbers is main."""
    different = np.unique(value_N)
    ends = range(MOST_FAR + 1)
    pairs = ((below, above) for below in ends for above in ends)
    # The most numbers are set aside that leave a group which all of them are far from.
    for below, above in sorted(pairs, key=sum, reverse=True):
        main = different[below : len(different) - above]
        if below + above == 0 or len(main) < 2:
            continue
        is_far_N = (value_N < main[0]) | (value_N > main[-1])
        if (~is_far_N).sum() < max(LEAST_OTHERS, len(value_N) / 2):
            continue
        far = [*different[:below], *different[len(different) - above :]]
        if all(_stands_apart(value, (value_N == value).mean(), main) for value in far):
            return is_far_N
    return np.zeros(len(value_N), np.bool_)


def _stands_apart(value: float, share: float, main: NDArray[np.float64]) -> bool:
    """Return whether a number that a share of the samples has is far from the main ones."""
    gap = max(main[0] - value, value - main[-1]) / (main[-1] - main[0])
    if NINES.fullmatch(f"{value:.15g}"):
        return bool(gap >= FAR_NINES)
    return bool(gap >= FAR and share <= MOST_SHARE)


def _describe_width(observed: pd.Series) -> FarValues | None:
    """Return what `find_far_values` returns of numbers over many powers of ten."""
    above = observed[observed > 0]
    is_wide = len(above) >= LEAST_OTHERS and above.max() >= WIDE * above.median()
    if observed.min() < 0 or not is_wide:
        return None
    largest = observed.sort_values(ascending=False, kind="stable").index[:SHOWN]
    return FarValues(
        values=(),
        samples=tuple(map(str, largest)),
        count=int((observed >= WIDE * above.median()).sum()),
        low=float(observed.min()),
        high=float(observed.max()),
    )
