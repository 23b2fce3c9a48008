"""Bins of as many values each."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def quantile_edges(value_N: Floats, bins: int) -> Floats:
    """Return the largest value of each bin but the last, where all bins have as many values.

    Parameters
    ----------
    value_N
        The values, none of them NaN.
    bins
        How many bins; where values are equal, some edges are, too.

    Returns
    -------
    numpy.ndarray
        `bins - 1` values, from the least on.
    """
    # Ranks are whole numbers: a fraction times their number may lie a rounding above one.
    rank = -(-len(value_N) * np.arange(1, bins) // bins)
    return np.sort(value_N)[rank - 1]
