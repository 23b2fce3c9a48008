"""Losses on distances and on targets, each one number.

Shape suffixes: B samples, C numbers, Q quantiles, K classes, X ASVs of samples.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    l1_loss,
    mse_loss,
)

LEAST_VARIANCE = 0.1
"""Least variance of log(1 + reads) that is divided by: a batch may have equal reads throughout."""


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


def huber_error(predicted_BC: Tensor, true_BC: Tensor) -> Tensor:
    """Return the Huber loss of standardized targets: squared below one deviation, linear above."""
    return huber_loss(predicted_BC, true_BC)


def squared_error(predicted_BC: Tensor, true_BC: Tensor) -> Tensor:
    """Return the mean squared error."""
    return mse_loss(predicted_BC, true_BC)


def absolute_error(predicted_BC: Tensor, true_BC: Tensor) -> Tensor:
    """Return the mean absolute error."""
    return l1_loss(predicted_BC, true_BC)


def pinball_error(predicted_BCQ: Tensor, true_BC: Tensor, levels: Sequence[float]) -> Tensor:
    """Return the mean pinball loss of several quantiles (Koenker & Bassett 1978).

    Parameters
    ----------
    predicted_BCQ
        The quantiles in any order: they are sorted first, so that none can cross another.
    true_BC
        The numbers.
    levels
        Level of each quantile, Q of them, ascending.
    """
    level_Q = predicted_BCQ.new_tensor(levels)
    missing_BCQ = true_BC[..., None] - predicted_BCQ.sort(dim=-1).values
    return torch.maximum(level_Q * missing_BCQ, (level_Q - 1) * missing_BCQ).mean()


def asymmetric_error(predicted_BC: Tensor, true_BC: Tensor, weight_low: float) -> Tensor:
    """Return the mean absolute error, weighted by `weight_low` where a prediction is too low.

    Predictions that are too high have the weight 1 - `weight_low`: the pinball loss of one level.
    """
    return pinball_error(predicted_BC[..., None], true_BC, [weight_low])


def class_error(
    logits_BK: Tensor, share_BK: Tensor, weights: Sequence[float] = (), smoothing: float = 0.0
) -> Tensor:
    """Return the mean cross-entropy against class shares.

    Parameters
    ----------
    logits_BK, share_BK
        Outputs, and the share of every class in each sample.
    weights
        Weight of each class; empty: 1 for all. The mean is over samples, not over weights.
    smoothing
        Part of every share that is spread over all classes alike.
    """
    weight_K = logits_BK.new_tensor(weights) if weights else None
    return cross_entropy(logits_BK, share_BK, weight=weight_K, label_smoothing=smoothing)


def ordinal_error(
    logits_BT: Tensor, share_BK: Tensor, weights: Sequence[float] = (), smoothing: float = 0.0
) -> Tensor:
    """Return the mean binary cross-entropy of "above class k", one question per threshold.

    Loss of CORAL (Cao, Mirjalili & Raschka 2020, arXiv:1901.07884), against shares.

    Parameters
    ----------
    logits_BT
        Logit of lying above class k, for the T = K - 1 lower classes.
    share_BK
        Share of every class in each sample, the lowest class first.
    weights, smoothing
        As in `class_error`; a sample has the mean weight of its classes.
    """
    smooth_BK = share_BK * (1 - smoothing) + smoothing / share_BK.shape[1]
    above_BT = (1 - smooth_BK.cumsum(dim=1)[:, :-1]).clamp(0, 1)
    error_BT = binary_cross_entropy_with_logits(logits_BT, above_BT, reduction="none")
    if weights:
        error_BT = error_BT * (share_BK @ share_BK.new_tensor(weights))[:, None]
    return error_BT.mean()


def count_error(
    predicted_X: Tensor, log_reads_X: Tensor, hidden_X: Tensor, present_X: Tensor
) -> Tensor:
    """Return the mean squared error of standardized log(1 + reads) over hidden ASVs.

    It is 0 where none is hidden. Standardized, its gradient is from the start not that of a mean
    common to all ASVs.

    Parameters
    ----------
    predicted_X
        The standardized numbers as predicted.
    log_reads_X
        log(1 + reads).
    hidden_X
        True where the reads were hidden.
    present_X
        True where there is an ASV: mean and deviation are theirs.
    """
    hidden_X = hidden_X & present_X
    number = present_X.sum().clamp(min=1)
    mean = (log_reads_X * present_X).sum() / number
    variance = ((log_reads_X - mean).square() * present_X).sum() / number
    true_X = (log_reads_X - mean) / variance.clamp(min=LEAST_VARIANCE).sqrt()
    squared_X = (predicted_X - true_X).square() * hidden_X
    return squared_X.sum() / hidden_X.sum().clamp(min=1)
