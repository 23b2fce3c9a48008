"""Losses on distances between samples.

Letters: B samples.
"""

from torch import Tensor


def pairwise_error(predicted_BB: Tensor, true_BB: Tensor, variance: float) -> Tensor:
    """Return the mean squared error over pairs of different samples, in units of `variance`.

    Parameters
    ----------
    predicted_BB, true_BB
        Distances; both diagonals are zero.
    variance
        Of the true distances: predicting their mean costs 1.
    """
    pairs = predicted_BB.shape[0] * (predicted_BB.shape[0] - 1)
    return (predicted_BB - true_BB).square().sum() / (pairs * variance)
